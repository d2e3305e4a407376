"""From bytes to the numbers of words, on one core and without the interpreter's lock."""

from typing import Any

import numba
import numpy as np

from porism.tasks.words.model.trainer import END

UNKNOWN = -2
LONGEST = 1000
"""Words of a sentence: a longer line counts as several."""

_SPACE, _NEW_LINE = 32, 10
# The start and the factor of the hash FNV-1a.
_START, _FACTOR = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_HALF = np.uint64(32)


@numba.njit(nogil=True, cache=True)
def place_of(key: Any, mask: Any) -> Any:
    """Where to look for a hash first. Its low bits alone depend on too little of the word."""
    return np.int64(key ^ (key >> _HALF)) & mask


@numba.njit(nogil=True, cache=True)
def fill(places: Any, keys: Any, words: Any) -> None:
    """Enters the first `words` words into an empty table, by their hashes."""
    mask = places.shape[0] - 1
    for number in range(words):
        place = place_of(keys[number], mask)
        while places[place] >= 0:
            place = (place + 1) & mask
        places[place] = number


@numba.njit(nogil=True, cache=True)
def _same(letters: Any, start: Any, end: Any, text: Any, at: Any, length: Any) -> Any:
    if end - start != length:
        return False
    alike = 0
    while alike < length and letters[start + alike] == text[at + alike]:
        alike += 1
    return alike == length


@numba.njit(nogil=True, cache=True)
def number_words(
    text: Any,
    sentence: Any,
    every: Any,
    wanted: Any,
    learn: Any,
    places: Any,
    keys: Any,
    starts: Any,
    letters: Any,
    counts: Any,
    words: Any,
    tokens: Any,
) -> Any:
    """Writes the numbers of a text's words to tokens, UNKNOWN among them, and END after each sentence.

    Of every `every` sentences, counted from `sentence` on, two are held out. `wanted` is the remainder of what to take,
    or negative for all that are not held out. `learn` enters new words, for which there must be room, and counts all.

    Answers how many tokens, how many of them words, how many words the table has, and the next sentence.
    """
    mask = places.shape[0] - 1
    size, seen, length, at = 0, 0, 0, 0
    while True:
        rest = sentence % every if every else 0
        held = every > 0 and (rest == every // 2 or rest == every - 1)
        take = rest == wanted if wanted >= 0 else not held
        while at < text.shape[0] and text[at] != _NEW_LINE and length < LONGEST:
            if text[at] <= _SPACE:
                at += 1
                continue
            first, key = at, _START
            while at < text.shape[0] and text[at] > _SPACE:
                key = (key ^ np.uint64(text[at])) * _FACTOR
                at += 1
            length += 1
            if not take:
                continue
            place = place_of(key, mask)
            number = places[place]
            while number >= 0 and not (
                keys[number] == key and _same(letters, starts[number], starts[number + 1], text, first, at - first)
            ):
                place = (place + 1) & mask
                number = places[place]
            if learn:
                if number < 0:
                    number = words
                    places[place], keys[number] = number, key
                    starts[number + 1] = starts[number] + at - first
                    letters[starts[number] : starts[number + 1]] = text[first:at]
                    words += 1
                counts[number] += 1
            tokens[size] = number if number >= 0 else UNKNOWN
            size += 1
            seen += 1
        if take and length:
            tokens[size] = END
            size += 1
        sentence += length > 0
        length = 0
        if at == text.shape[0]:
            return size, seen, words, sentence
        at += text[at] == _NEW_LINE
