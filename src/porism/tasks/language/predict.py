"""Text from a trained model, one word at a time."""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from porism.errors import RecipeError
from porism.tasks.language.data.vocabulary import UNK, Vocabulary
from porism.training.task import Carry, Prediction


class AutoregressiveModel(Protocol):
    """What generation needs of a model."""

    training: bool

    def start(self, batch: int) -> Carry:
        """The state before the first token."""

    def logits(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Tokens (T, B) to logits (T, B, V) of the token after each, and the state after the last."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """For the device they are on."""

    def train(self, mode: bool = True) -> object:
        """Switches dropout on or off."""


def generate(
    model: AutoregressiveModel,
    vocabulary: Vocabulary,
    prompt: str,
    *,
    length: int = 50,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    allow_unk: bool = False,
) -> Prediction:
    """Goes on from a prompt until the line ends (`<eos>`) or `length` words are out.

    The prompt is the beginning of a line: the model reads `<eos>` and then every word of it. An empty prompt leaves the
    line to the model. `<unk>` is never generated unless `allow_unk`, or unless it is the only token with a probability
    above 0. The same seed gives the same text; torch's own random state is left alone.

    >>> generate(model, vocabulary, "in palo alto", temperature=0.8, top_k=50).output     # doctest: +SKIP
    """
    check_options(length=length, temperature=temperature, top_k=top_k, top_p=top_p)
    known, notes = _recognise(prompt.split(), vocabulary)
    generator = torch.Generator().manual_seed(seed)
    banned = None if allow_unk else vocabulary.unk
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    was_training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            tokens = torch.cat([torch.tensor([vocabulary.eos]), vocabulary.encode(known)])
            carry = model.start(1)
            generated: list[int] = []
            while len(generated) < length:
                logits, carry = model.logits(tokens.to(device)[:, None], carry)
                last = without(logits[-1, 0].cpu().double(), banned)
                probs = word_probabilities(last, temperature=temperature, top_k=top_k, top_p=top_p)
                tokens = torch.multinomial(probs, 1, generator=generator)
                if tokens.item() == vocabulary.eos:
                    break
                generated.append(int(tokens))
    finally:
        model.train(was_training)
    stopped = "length" if len(generated) == length else "end of line"
    return Prediction(
        prompt, " ".join(vocabulary.decode(generated)), notes, {"words": len(generated), "stopped": stopped}
    )


def check_options(*, length: int, temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Refuses what cannot be sampled with."""
    if length < 1:
        raise RecipeError(f"generate: length is {length}, expected at least 1 word.")
    if not 0 <= temperature < float("inf"):
        raise RecipeError(f"generate: temperature is {temperature}, expected 0 (the likeliest word always) or more.")
    if top_k is not None and top_k < 1:
        raise RecipeError(f"generate: top_k is {top_k}, expected at least 1 word. Leave it out to choose from all.")
    if top_p is not None and not 0 < top_p <= 1:
        raise RecipeError(
            f"generate: top_p is {top_p}, expected above 0 and at most 1. Leave it out to choose from all."
        )


def without(logits: Tensor, banned: int | None) -> Tensor:
    """Logits (V,) with one word made impossible, unless no other is possible."""
    if banned is None:
        return logits
    rest = logits.index_fill(0, torch.tensor([banned]), -torch.inf)
    return rest if rest.isfinite().any() else logits


def word_probabilities(
    logits: Tensor, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """From logits (V,) to the probabilities (V,) a word is drawn with.

    First the temperature divides the logits, then only the `top_k` likeliest words stay, then of these the fewest that
    together reach `top_p`. Equally likely words stay in the order of their numbers.

    >>> word_probabilities(torch.tensor([0.0, 2.0, 1.0]), top_k=1)
    tensor([0., 1., 0.])
    """
    ranked, order = logits.sort(descending=True, stable=True)
    if temperature == 0:
        top_k, temperature = 1, 1.0
    # The largest logit goes to 0 before the division: a small temperature must not lead to inf - inf.
    probs = ((ranked - ranked[0]) / temperature).softmax(dim=0)
    if top_k is not None:
        probs = _renormalised(probs, keep=torch.arange(len(probs)) < top_k)
    if top_p is not None:
        reached_before = probs.cumsum(dim=0) - probs
        probs = _renormalised(probs, keep=reached_before < top_p)
    return torch.zeros_like(probs).scatter(0, order, probs)


def _renormalised(probs: Tensor, *, keep: Tensor) -> Tensor:
    kept = probs.where(keep, 0.0)
    return kept / kept.sum()


def _recognise(words: list[str], vocabulary: Vocabulary) -> tuple[list[str], tuple[str, ...]]:
    """The prompt in words of the vocabulary, in lower case where only that is known, and notes about it."""
    known = [word if word in vocabulary or word.lower() not in vocabulary else word.lower() for word in words]
    unknown = list(dict.fromkeys(word for word in known if word not in vocabulary))
    return known, ((f"not in the vocabulary, read as {UNK}: {', '.join(unknown)}",) if unknown else ())
