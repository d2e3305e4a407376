"""Tokenizing: from bytes to word ids by a hash table, on one core and without the interpreter's lock."""

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
def first_slot(key: Any, mask: Any) -> Any:
    """The first slot of a hash. Its low bits alone depend on too little of the word."""
    return np.int64(key ^ (key >> _HALF)) & mask


@numba.njit(nogil=True, cache=True)
def fill(slots: Any, keys: Any, words: Any) -> None:
    """Enters the first `words` words into an empty table, by their hashes."""
    mask = slots.shape[0] - 1
    for number in range(words):
        slot = first_slot(keys[number], mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number


@numba.njit(nogil=True, cache=True)
def _same(letters: Any, start: Any, end: Any, text: Any, at: Any, length: Any) -> Any:
    if end - start != length:
        return False
    alike = 0
    while alike < length and letters[start + alike] == text[at + alike]:
        alike += 1
    return alike == length


@numba.njit(nogil=True, cache=True)
def tokenize(
    text: Any,
    sentence: Any,
    every: Any,
    remainder: Any,
    add: Any,
    slots: Any,
    keys: Any,
    starts: Any,
    letters: Any,
    counts: Any,
    words: Any,
    tokens: Any,
) -> Any:
    """Writes the ids of a text's words to tokens, UNKNOWN for other words, and END after each sentence.

    Of every `every` sentences, counted from `sentence` on, two are held out. `remainder` selects
    those to take, or if negative all that are not held out. `add` enters new words, which need room, and counts all.

    Returns the number of tokens, of words among them, of words in the table, and the next sentence.
    """
    mask = slots.shape[0] - 1
    size, seen, length, at = 0, 0, 0, 0
    while True:
        rest = sentence % every if every else 0
        held = every > 0 and (rest == every // 2 or rest == every - 1)
        take = rest == remainder if remainder >= 0 else not held
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
            slot = first_slot(key, mask)
            number = slots[slot]
            while number >= 0 and not (
                keys[number] == key and _same(letters, starts[number], starts[number + 1], text, first, at - first)
            ):
                slot = (slot + 1) & mask
                number = slots[slot]
            if add:
                if number < 0:
                    number = words
                    slots[slot], keys[number] = number, key
                    starts[number + 1] = starts[number] + at - first
                    # One by one: a slice assigned to a slice takes numba longer to compile than all the rest.
                    for letter in range(at - first):
                        letters[starts[number] + letter] = text[first + letter]
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
