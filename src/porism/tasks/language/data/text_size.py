"""How long a text is whatever cut it into tokens: what makes cross-entropies of different vocabularies comparable.

A cross-entropy a token is paid for tokens of very different length, and `<unk>` says that a word is unknown but not
which. Bits a byte mend both: all nats of a split, and those that spell its unknown tokens, over the bytes of its text.

    bits per byte = (cross-entropy * tokens + spelling) / (log 2 * bytes)

Unknown tokens are spelled character by character by how often each character occurs in the unknown tokens of the
training split (and one more), with a mark at the end; a character that they do not have costs log 1,114,112 nats more.
What a tokenizer drops (spaces around words, capitals under `lowercase`) is not paid for.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from torch import Tensor, tensor

from porism.tasks.blocks.texts import EOS
from porism.tasks.language.data.tokenized import Tokenized
from porism.tasks.language.data.vocabulary import UNK, Vocabulary

END, OTHER = "end", "other"
"""The end of an unknown token, and any character that training does not show. Longer than a character: no clash."""
ANY_CHARACTER = math.log(0x110000)


@dataclass(frozen=True)
class TextSize:
    """Bytes of a text in UTF-8, the nats that spell its unknown tokens, and its sha256 where there is a text."""

    bytes: int
    spelling: float = 0.0
    sha256: str = ""


def text_sizes(vocabulary: Vocabulary, texts: Mapping[str, str], tokenized: Tokenized) -> dict[str, TextSize]:
    """The size of each split; how characters are spelled is learned on `train`."""

    def unknown(split: str) -> list[tuple[str, int]]:
        # A text that has <unk> itself has lost the word, and its spelling is not known.
        counts = tokenized.counts(split).items()
        return [(token, count) for token, count in counts if token not in vocabulary and token != UNK]

    counts: Counter[str] = Counter({END: 1, OTHER: 1})
    for token, count in unknown("train"):
        for character in token:
            counts[character] += count
        counts[END] += count
    counts.update(set(counts) - {END, OTHER})
    total = counts.total()
    nats = {character: math.log(total / count) for character, count in counts.items()}

    def spelled(token: str) -> float:
        other = nats[OTHER] + ANY_CHARACTER
        return sum(nats.get(character, other) for character in token) + nats[END]

    return {
        split: TextSize(
            len(text.encode()),
            math.fsum(count * spelled(token) for token, count in unknown(split)),
            sha256(text.encode()).hexdigest(),
        )
        for split, text in texts.items()
    }


def given_size(vocabulary: Vocabulary, stream: Tensor) -> TextSize:
    """Of a stream that has no text: words with a space after each, and lines."""
    lengths = tensor([0 if word == EOS else len(word.encode()) for word in vocabulary.words])
    return TextSize(int(lengths[stream].sum()) + len(stream))
