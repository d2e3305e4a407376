"""From an input to the model's answer: a class with the probability of each, or numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from porism.errors import DataError, RecipeError
from porism.tasks.blocks.in_memory import as_tensor
from porism.training.task import Prediction

SHOWN = 6
"""Numbers of an input or an output that are written out."""


def check_options(options: Mapping[str, Any]) -> None:
    if options:
        raise RecipeError(f"a supervised prediction has no option {next(iter(options))!r}. It takes none.")


def read_inputs(inputs: Any, shape: Sequence[int]) -> tuple[Tensor, list[str]]:
    """Inputs with a row each, and how they are called: from an array, or from texts such as "0.5,1".

    shape: that of one input.
    """
    if isinstance(inputs, Sequence) and inputs and all(isinstance(one, str) for one in inputs):
        return torch.stack([_of_text(text, shape) for text in inputs]), list(inputs)
    if isinstance(inputs, Sequence) and inputs and all(isinstance(one, Tensor) for one in inputs):
        inputs = torch.stack(list(inputs))
    if isinstance(inputs, Tensor | np.ndarray | list | tuple):
        found = as_tensor(inputs, "predict")
        if tuple(found.shape) == tuple(shape):
            found = found[None]
        if tuple(found.shape[1:]) == tuple(shape) and len(found):
            return found, [shown_numbers(row) for row in found]
        raise DataError(f"predict: inputs are {tuple(found.shape)}, expected {('N', *shape)}.")
    raise DataError(f"predict: a {type(inputs).__name__} is no input. Give an array of {('N', *shape)}.")


def answers(outputs: Tensor, names: Sequence[str], classes: Sequence[str], loss: str) -> list[Prediction]:
    """The answer to each input."""
    found = []
    for name, output in zip(names, outputs.double().cpu(), strict=True):
        if classes and output.dim() == 1 and len(output) == len(classes):
            probs = output.softmax(0)
            best, by_class = int(probs.argmax()), dict(zip(classes, probs.tolist(), strict=True))
            notes = (f"with probability {by_class[classes[best]]:.3f}",)
            found.append(Prediction(name, classes[best], notes, {"probabilities": by_class}))
        elif loss == "bce":
            probs = output.sigmoid()
            found.append(Prediction(name, shown_numbers(probs), (), {"output": probs.tolist()}))
        else:
            found.append(Prediction(name, shown_numbers(output), (), {"output": output.tolist()}))
    return found


def shown_numbers(x: Tensor) -> str:
    """A few numbers for people.

    >>> shown_numbers(torch.arange(8))
    '0,1,2,3,4,5,...'
    """
    some = ",".join(f"{value:.4g}" for value in x.flatten()[:SHOWN].tolist())
    return some if x.numel() <= SHOWN else f"{some},..."


def _of_text(text: str, shape: Sequence[int]) -> Tensor:
    try:
        numbers = torch.tensor([float(part) for part in text.split(",")])
    except ValueError:
        raise DataError(f"predict: {text[:40]!r} is no input. Write numbers such as 0.5,1.") from None
    if numbers.numel() != int(np.prod(shape)):
        raise DataError(f"predict: {text[:40]!r} has {numbers.numel()} numbers, expected {int(np.prod(shape))}.")
    return numbers.reshape(*shape)
