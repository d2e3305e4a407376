"""The 35 symbols of transcripts, and texts as token ids.

>>> encode("Hi, Bob!")
[0, 16, 17, 5, 4, 10, 23, 10, 3, 1]
>>> decode(encode("Hi, Bob!"))
'hi, bob\N{REPLACEMENT CHARACTER}'

Letters are lower-cased. Any other character, such as the exclamation mark, becomes the unknown symbol.
"""

import string
from collections import Counter
from collections.abc import Iterable, Sequence

from porism.errors import DataError

UNKNOWN_CHARACTER = "\N{REPLACEMENT CHARACTER}"
SPECIAL = ("<start>", "<stop>", "<pad>", UNKNOWN_CHARACTER)
CHARACTERS = (" ", ",", ".", "?", "-", *string.ascii_lowercase)
SYMBOLS = (*SPECIAL, *CHARACTERS)
SOS, EOS, PAD, UNKNOWN, SPACE = range(5)
CTC_BLANK = PAD
"""The blank of CTC has the id of padding, which no text holds."""
LONGEST = 97
"""Characters of a text that are kept, without sos and eos."""

_IDS = {symbol: token for token, symbol in enumerate(SYMBOLS)}


def encode(text: str, longest: int | None = LONGEST) -> list[int]:
    """Sos, the characters, at most `longest` of them, and eos."""
    return [SOS, *(_IDS.get(character, UNKNOWN) for character in text.lower()[:longest]), EOS]


def decode(tokens: Iterable[int]) -> str:
    """The text up to the first eos, without sos and padding."""
    text = []
    for token in tokens:
        if token == EOS:
            break
        if token not in (SOS, PAD):
            text.append(SYMBOLS[token])
    return "".join(text)


def representable(text: str, longest: int | None = LONGEST) -> str:
    """A text as a model can at best predict it: cut, and each character outside the alphabet the same symbol.

    >>> representable("Stop!")
    'stop\N{REPLACEMENT CHARACTER}'
    """
    return decode(encode(text, longest))


def unknown_characters(texts: Sequence[str]) -> dict[str, int]:
    """How often each character that is not a symbol occurs, the most frequent first.

    >>> unknown_characters(["Stop!", "No! (Really.)"])
    {'!': 2, '(': 1, ')': 1}
    """
    counts = Counter(character for text in texts for character in text.lower() if character not in CHARACTERS)
    return dict(counts.most_common())


def check_characters(text: str, where: str) -> None:
    """Refuses a text with a character that is not a symbol."""
    for character in text.lower():
        if character not in CHARACTERS:
            raise DataError(
                f"{where}: the character {character!r} is not in the alphabet ({string.ascii_lowercase[0]} to "
                f"{string.ascii_lowercase[-1]}, space , . ? -). Spell it out, or allow unknown characters."
            )
