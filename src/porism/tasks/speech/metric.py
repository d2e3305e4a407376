"""Error rates, kinds of errors and similarities of transcripts. Of the three similarities, two ignore the order.

>>> jaccard("abc", "cba"), cosine("abc", "cba"), damerau_levenshtein("abc", "cba")
(1.0, 1.0, 0.33333333333333337)

A and B are multisets: how often each item occurs. Two empty sequences are equal, so 1.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray

from porism.runs.statistics import binomial_interval, bootstrap_interval, resample
from porism.tasks.speech.data.batches import Example
from porism.tasks.speech.data.symbols import EOS, PAD, SOS, SYMBOLS
from porism.tasks.speech.error_kinds import EDITS, count_words, edit_distances, edit_kinds, swaps
from porism.tasks.speech.model.base import SpeechModel
from porism.tasks.speech.model.search import Search
from porism.tasks.speech.predict import decode_batch, encode_all

Items = Sequence[Hashable]


def jaccard(a: Items, b: Items) -> float:
    """sum over items of min(A, B) / sum over items of max(A, B)"""
    A, B = Counter(a), Counter(b)
    union = (A | B).total()
    return (A & B).total() / union if union else 1.0


def cosine(a: Items, b: Items) -> float:
    """sum over items of min(A, B) / sqrt(|A| |B|): the published experiment's name, not the cosine of an angle."""
    if not a or not b:
        return float(len(a) == len(b))
    return (Counter(a) & Counter(b)).total() / sqrt(len(a) * len(b))


def damerau_levenshtein(a: Items, b: Items) -> float:
    """1 - distance / the longer length, with the least number of items to insert, delete, replace or swap.

    Restricted: two items that were swapped are not edited again, so `ca` to `abc` takes three steps, not two.
    """
    longer = max(len(a), len(b))
    return 1 - edit_distances().OSA.distance(a, b) / longer if longer else 1.0


SIMILARITIES: Mapping[str, Callable[[Items, Items], float]] = {
    "jaccard": jaccard,
    "cosine": cosine,
    "damerau_levenshtein": damerau_levenshtein,
}


DRAWS = 1000
CONFIDENCE = 0.95

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Share:
    """A metric as a part of a whole, each (N,): one number a sentence, summed before they are divided."""

    part: Numbers
    whole: Numbers

    def value(self) -> float:
        return float(_divided(self.part.sum(), self.whole.sum()))

    def interval(self, draws: int, seed: int) -> tuple[float, float]:
        """The bootstrap's 95 % interval: of as many sentences, drawn with replacement."""
        # The same draws for all metrics of the same sentences: their intervals are comparable.
        indices = np.random.default_rng(seed).integers(len(self.part), size=(draws, len(self.part)))
        values = _divided(self.part[indices].sum(1), self.whole[indices].sum(1))
        low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return float(low), float(high)


def measure(references: Sequence[str], hypotheses: Sequence[str], vocabulary: Collection[str] = ()) -> dict[str, float]:
    """cer, wer, exact (sentences without an error), similarities (jaccard, word_jaccard and so on), kinds of errors.

    With a vocabulary also in_vocabulary_rate, the share of the written words that are in it, and real_word_rate, the
    same of the wrong ones.
    """
    return {name: share.value() for name, share in shares(references, hypotheses, vocabulary).items()}


def intervals(
    references: Sequence[str],
    hypotheses: Sequence[str],
    vocabulary: Collection[str] = (),
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """The 95 % interval of each metric: the bootstrap's, the same for the same seed; Clopper and Pearson's of `exact`.

    Where no sentence is without an error, or all are, so it is on every drawn test set: a bootstrap has no width there.
    """
    found = shares(references, hypotheses, vocabulary)
    ranges = {name: share.interval(draws, seed) for name, share in found.items()}
    return ranges | {"exact": binomial_interval(int(found["exact"].part.sum()), len(references))}


def reported_interval(references: Sequence[str], hypotheses: Sequence[str]) -> tuple[float, float] | None:
    """That of the CER, from the test sets that a report draws for it; None without sentences, or where one is empty."""
    sums = np.array([character_errors(references, hypotheses), [len(text) for text in references]], dtype=np.float64).T
    return bootstrap_interval(resample(sums)) if len(sums) > 0 and sums[:, 1].all() else None


def shares(references: Sequence[str], hypotheses: Sequence[str], vocabulary: Collection[str] = ()) -> dict[str, Share]:
    """Each metric's numbers, sentence by sentence."""
    pairs = list(zip(references, hypotheses, strict=True))
    words = [(reference.split(), hypothesis.split()) for reference, hypothesis in pairs]
    marked = [(between_sos_and_eos(reference), between_sos_and_eos(hypothesis)) for reference, hypothesis in pairs]
    metrics = {
        "cer": _errors(pairs),
        "wer": _errors(words),
        "exact": _mean(reference == hypothesis for reference, hypothesis in pairs),
    }
    for kind, sequences in (("", marked), ("word_", words)):
        for name, similarity in SIMILARITIES.items():
            metrics[f"{kind}{name}"] = _mean(similarity(a, b) for a, b in sequences)
    return metrics | error_shares(pairs, vocabulary)


def error_shares(pairs: Sequence[tuple[str, str]], vocabulary: Collection[str]) -> dict[str, Share]:
    """Edits of each kind over the characters of the references, which sum to the CER, and the shares of known words."""
    characters = [len(reference) for reference, _ in pairs]
    edits = [edit_kinds(*pair) for pair in pairs]
    found = {f"{kind}_rate": _share([counts[kind] for counts in edits], characters) for kind in EDITS}
    found["swap_rate"] = _share([swaps(*pair) for pair in pairs], characters)
    if vocabulary:
        words = [count_words(*pair, vocabulary) for pair in pairs]
        found["in_vocabulary_rate"] = _share([count.known for count in words], [count.words for count in words])
        found["real_word_rate"] = _share([count.wrong_known for count in words], [count.wrong for count in words])
    return found


def between_sos_and_eos(text: str) -> list[str]:
    return [SYMBOLS[SOS], *text, SYMBOLS[EOS]]


def character_errors(references: Sequence[str], hypotheses: Sequence[str]) -> list[int]:
    """The number of edits of each sentence."""
    return [int(errors) for errors in _errors(list(zip(references, hypotheses, strict=True))).part]


def _errors(pairs: Sequence[tuple[Sequence[Hashable], Sequence[Hashable]]]) -> Share:
    distance = edit_distances().Levenshtein.distance
    edits = [distance(reference, hypothesis) for reference, hypothesis in pairs]
    return _share(edits, [len(reference) for reference, _ in pairs])


def _share(part: Sequence[int], whole: Sequence[int]) -> Share:
    return Share(np.array(part, dtype=float), np.array(whole, dtype=float))


def _mean(values: Iterable[float]) -> Share:
    part = np.array([float(value) for value in values])
    return Share(part, np.ones(len(part)))


def _divided(part: Numbers, whole: Numbers) -> Numbers:
    """Part by whole, where 0 / 0 is 0 and any other number by 0 infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(part == 0, 0.0, np.divide(part, whole))


@torch.no_grad()
def evaluate(
    model: SpeechModel, examples: Sequence[Example], search: Search, vocabulary: Collection[str] = ()
) -> dict[str, float]:
    """The loss with teacher forcing, and all metrics of the transcripts."""
    texts: dict[int, str] = {}
    loss = symbols = 0.0
    for encoded in encode_all(model, examples):
        tokens = encoded.batch[2]
        weight = int((tokens[:, 1:] != PAD).sum()) if model.recipe.ignore_padding else tokens[:, 1:].numel()
        loss += float(model.text_loss(encoded.encoder_out, tokens)) * weight
        symbols += weight
        texts |= decode_batch(model, encoded, search)
    hypotheses = [texts[index] for index in range(len(examples))]
    return {**measure([example.text for example in examples], hypotheses, vocabulary), "loss": loss / symbols}
