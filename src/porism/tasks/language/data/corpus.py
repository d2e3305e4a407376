"""A text as a language model sees it."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from porism.tasks.blocks.texts import SPLITS
from porism.tasks.language.data.text_size import TextSize
from porism.tasks.language.data.tokenizer import Tokenizer, Whitespace
from porism.tasks.language.data.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Corpus:
    """A vocabulary and three streams of its words' numbers, each a tensor (tokens,) of int64.

    `entropy` is the source's entropy in nats per token, where it is known exactly. `limits` then has, for each split,
    the cross-entropy of the true source on that very stream: on valid and test no model beats it but by chance.
    """

    name: str
    vocabulary: Vocabulary
    streams: Mapping[str, Tensor]
    entropy: float | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    tokenizer: Tokenizer = field(default_factory=Whitespace)
    sizes: Mapping[str, TextSize] = field(default_factory=dict)
    """Of the text of each split, by which a cross-entropy a token becomes bits a byte."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """How it was split, and how much of test is in train."""

    def fingerprint(self) -> str:
        """The sha256 of vocabulary and streams: all that a model ever sees."""
        digest = hashlib.sha256(json.dumps(self.vocabulary.to_json()).encode())
        for split in SPLITS:
            digest.update(f"\n{split} {len(self.streams[split])}\n".encode())
            digest.update(self.streams[split].numpy().astype("<i8").tobytes())
        return digest.hexdigest()

    def text_id(self) -> str:
        """What is scored, however it is cut into tokens: the texts by their sha256, else the fingerprint."""
        texts = [self.sizes[split].sha256 for split in ("valid", "test") if split in self.sizes]
        return " ".join(texts) if len(texts) == 2 and all(texts) else self.fingerprint()

    def unknown_share(self, split: str) -> float:
        """The share of `<unk>` in a split."""
        return float((self.streams[split] == self.vocabulary.unk).double().mean())

    def bits_per_byte(self, split: str, cross_entropy: float) -> float:
        """What a cross-entropy in nats a token of a split comes to, in bits a byte of its text."""
        size = self.sizes[split]
        return (cross_entropy * len(self.streams[split]) + size.spelling) / (math.log(2) * size.bytes)
