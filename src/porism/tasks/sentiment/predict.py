"""From a text to its class, with the probability of each."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from porism.errors import DataError, RecipeError, shown
from porism.tasks.blocks.classification import likeliest
from porism.tasks.sentiment.data.reviews import CLASSES
from porism.tasks.sentiment.data.tokenizer import ReviewTokenizer
from porism.tasks.sentiment.model.base import Classifier
from porism.training.task import Prediction


@torch.no_grad()
def classify(model: Classifier, tokenizer: ReviewTokenizer, text: str, max_length: int) -> Prediction:
    """The class of a text; the details have the probabilities of all."""
    tokens, notes = encode_known(tokenizer, text, max_length)
    device = model.head.weight.device
    logits = model(tokens[None].to(device), torch.tensor([len(tokens)], device=device))
    probs = logits[0].double().softmax(0).cpu()
    by_class = dict(zip(CLASSES, probs.tolist(), strict=True))
    details = {"class": CLASSES[int(probs.argmax())], "probabilities": by_class}
    return Prediction(text, f"-> {likeliest(probs, CLASSES)}", notes, details)


def encode_known(tokenizer: ReviewTokenizer, text: str, max_length: int) -> tuple[Tensor, tuple[str, ...]]:
    """The ids (T,) of a text, and what to know about them. A text without a known word is refused."""
    if not text.strip():
        raise DataError('the text is empty. Give some words, for instance "I love it".')
    found = tokenizer.encode(text, max_length)
    known = [tokenizer.is_known(id) for id in found.ids]
    if not any(known):
        raise DataError(
            f"{shown(text)}: the model knows no word of it, so its answer would not depend on it. Use other words; "
            "the training texts have those it knows."
        )
    notes = []
    if found.whole > len(found.ids):
        notes.append(f"{found.whole:,} tokens, of which the first {len(found.ids)} were read")
    if unknown := sum(id == tokenizer.unk for id in found.ids):
        notes.append(f"{unknown} of {len(found.ids)} tokens unknown")
    return torch.tensor(found.ids), tuple(notes)


def check_options(options: Mapping[str, Any]) -> None:
    """Classifying a text takes no options."""
    if options:
        raise RecipeError(f"classifying a text has no option {next(iter(options))!r}. It takes none.")
