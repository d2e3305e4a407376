"""The 35 symbols that speech is written in, and texts as their numbers.

>>> encode("Hi, Bob!")
[0, 16, 17, 5, 4, 10, 23, 10, 3, 1]
>>> decode(encode("Hi, Bob!"))
'hi, bob\N{REPLACEMENT CHARACTER}'

Letters are lower-cased. What is no symbol, such as the exclamation mark, becomes the unknown one.
"""

import string
from collections import Counter
from collections.abc import Iterable, Sequence

from porism.errors import DataError

UNKNOWN_CHARACTER = "\N{REPLACEMENT CHARACTER}"
MARKS = ("<start>", "<stop>", "<pad>", UNKNOWN_CHARACTER)
CHARACTERS = (" ", ",", ".", "?", "-", *string.ascii_lowercase)
SYMBOLS = (*MARKS, *CHARACTERS)
START, STOP, PAD, UNKNOWN, BLANK = range(5)
LONGEST = 97
"""Characters of a text that are kept, start and stop not counted."""

_NUMBERS = {symbol: number for number, symbol in enumerate(SYMBOLS)}


def encode(text: str, longest: int | None = LONGEST) -> list[int]:
    """Start, the characters, at most `longest` of them, and stop."""
    return [START, *(_NUMBERS.get(character, UNKNOWN) for character in text.lower()[:longest]), STOP]


def decode(numbers: Iterable[int]) -> str:
    """The text up to the first stop; start and padding say nothing."""
    text = []
    for number in numbers:
        if number == STOP:
            break
        if number not in (START, PAD):
            text.append(SYMBOLS[number])
    return "".join(text)


def written(text: str, longest: int | None = LONGEST) -> str:
    """A text as a model can at best write it: what hypotheses are held against.

    >>> written("Stop!")
    'stop\N{REPLACEMENT CHARACTER}'
    """
    return decode(encode(text, longest))


def unknown_characters(texts: Sequence[str]) -> dict[str, int]:
    """How often each character that is no symbol occurs, the most frequent first.

    >>> unknown_characters(["Stop!", "No! (Really.)"])
    {'!': 2, '(': 1, ')': 1}
    """
    counts = Counter(character for text in texts for character in text.lower() if character not in CHARACTERS)
    return dict(counts.most_common())


def check_characters(text: str, where: str) -> None:
    """Refuses a text with a character that is no symbol."""
    for character in text.lower():
        if character not in CHARACTERS:
            raise DataError(
                f"{where}: the character {character!r} is not in the alphabet ({string.ascii_lowercase[0]} to "
                f"{string.ascii_lowercase[-1]}, blank , . ? -). Spell it out, or allow unknown characters."
            )
