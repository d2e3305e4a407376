"""Text from a trained model, one word at a time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from porism.errors import RecipeError, nearest
from porism.tasks.blocks.prediction_options import renamed
from porism.tasks.language.data.tokenizer import Tokenizer, Whitespace
from porism.tasks.language.data.vocabulary import UNK, Vocabulary
from porism.training.limits import check_seed
from porism.training.task import Carry, Prediction

OPTIONS = {
    "max_new_tokens": int,
    "temperature": int | float,
    "top_k": int,
    "top_p": int | float,
    "num_return_sequences": int,
    "seed": int,
}
"""Of generation, with the numbers they take."""
OLD_OPTIONS = {"length": "max_new_tokens"}
"""Options under the names of 0.1."""


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


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a user sets, in today's names, or one line that says what cannot be."""
    checked = renamed(options, OLD_OPTIONS)
    for key, value in checked.items():
        if key not in OPTIONS:
            raise RecipeError(f"generating text has no option {key!r}. {nearest(key, list(OPTIONS))}")
        if isinstance(value, bool) or not isinstance(value, OPTIONS[key]):
            raise RecipeError(f"generating text: {key} takes a number, got {value!r}.")
    check_seed(checked.get("seed", 0))
    return checked


def generate_all(
    model: AutoregressiveModel,
    vocabulary: Vocabulary,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    num_return_sequences: int = 1,
    seed: int = 0,
    **options: Any,
) -> list[Prediction]:
    """Continuations of several prompts, `num_return_sequences` of each, every one with random numbers of its own."""
    if num_return_sequences < 1:
        raise RecipeError(f"generate: num_return_sequences is {num_return_sequences}, expected at least 1.")
    return [
        generate(model, vocabulary, prompt, tokenizer=tokenizer, seed=seed_of(seed, index, sequence), **options)
        for index, prompt in enumerate(prompts)
        for sequence in range(num_return_sequences)
    ]


def seed_of(seed: int, prompt: int, sequence: int) -> int:
    """The seed of one continuation, from the number of its prompt and its own among those of the prompt.

    The first of the first prompt has the seed itself, so that it is what `generate` gives.
    """
    if prompt == sequence == 0:
        return seed
    mixed = np.random.SeedSequence([seed % 2**64, prompt, sequence]).generate_state(1, np.uint64)
    return int(mixed[0] >> 1)


def generate(
    model: AutoregressiveModel,
    vocabulary: Vocabulary,
    prompt: str,
    *,
    tokenizer: Tokenizer | None = None,
    max_new_tokens: int = 50,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    allow_unk: bool = False,
) -> Prediction:
    """Goes on from a prompt until the line ends (`<eos>`) or `max_new_tokens` tokens are out.

    tokenizer: cuts the prompt and joins the answer; left out, at white space.
    The prompt is the beginning of a line: the model reads `<eos>` and then every word of it. An empty prompt leaves the
    line to the model. `<unk>` is never generated unless `allow_unk`, or unless it is the only token with a probability
    above 0. The same seed gives the same text; torch's own random state is left alone.

    >>> generate(model, vocabulary, "in palo alto", temperature=0.8, top_k=50).output     # doctest: +SKIP
    """
    check_options(max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p)
    tokenizer = tokenizer or Whitespace()
    known, notes = _recognise(tokenizer.tokens(prompt), vocabulary)
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
            while len(generated) < max_new_tokens:
                logits, carry = model.logits(tokens.to(device)[:, None], carry)
                last = without(logits[-1, 0].cpu().double(), banned)
                probs = word_probabilities(last, temperature=temperature, top_k=top_k, top_p=top_p)
                tokens = torch.multinomial(probs, 1, generator=generator)
                if tokens.item() == vocabulary.eos:
                    break
                generated.append(int(tokens))
    finally:
        model.train(was_training)
    stopped = "length" if len(generated) == max_new_tokens else "end of line"
    words = vocabulary.decode(generated)
    details = {"words": len(generated), "stopped": stopped, "text": tokenizer.continued(prompt, words)}
    return Prediction(prompt, tokenizer.text(words), notes, details)


def check_options(*, max_new_tokens: int, temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Refuses what cannot be sampled with."""
    if max_new_tokens < 1:
        raise RecipeError(f"generate: max_new_tokens is {max_new_tokens}, expected at least 1.")
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
