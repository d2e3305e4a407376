"""What came, cut to fit into a message of one line."""

import reprlib

LONGEST = 200

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def shown(value: object) -> str:
    """
    >>> shown("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    """
    return " ".join(line.strip() for line in _SHORT.repr(value).splitlines())


def one_line(error: BaseException) -> str:
    """What another library says is wrong."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
