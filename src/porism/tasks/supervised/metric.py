"""Losses and metrics of outputs and targets."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn import functional

from porism.errors import Advice, DataError, RecipeError, ShapeError, shown
from porism.training.task import Function

METRICS = {"cross_entropy": ("accuracy", False), "mse": ("mse", True), "bce": ("bce", True)}
"""For each loss the metric that picks the best epoch, and whether lower is better; of others it is the loss."""

MEASURED = {"cross_entropy": ("accuracy", "cross_entropy"), "mse": ("mse", "mae"), "bce": ("accuracy", "bce")}
"""The metrics of each loss; of others it is the loss."""

IGNORED = -100
"""A class that cross_entropy leaves out, as torch has it."""

LOSSES = Advice(
    "Give --loss cross_entropy, mse or bce.",
    'Give loss="cross_entropy", "mse" or "bce", or a function of output and target.',
)


def selection_metric(loss: str) -> tuple[str, bool]:
    return METRICS.get(loss, ("loss", True))


def loss_name(loss: str) -> str:
    return loss if loss in METRICS else "loss"


def loss_of(output: Any, target: Tensor | None, loss: str, function: Function | None, classes: int) -> Tensor:
    """One number of a batch. classes: how many the data has."""
    if loss == "model":
        found = output["loss"] if isinstance(output, Mapping) and "loss" in output else getattr(output, "loss", None)
        if found is None:
            raise RecipeError("which loss? The output of the model has no .loss.", LOSSES)
    elif loss == "function":
        if function is None:
            raise RecipeError(
                "the loss of this run was a function, given in Python.",
                Advice("Give it again there: porism.train(..., loss=...)", "Give it again with loss=."),
            )
        found = function(output, target)
    else:
        assert target is not None
        found = _named(output, target, loss, classes)
    if not isinstance(found, Tensor) or found.dim() != 0:
        shown = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ShapeError(f"loss: the loss of a batch is {shown}, expected one number. Return its mean.")
    return found


def _named(output: Any, target: Tensor, loss: str, classes: int) -> Tensor:
    if not isinstance(output, Tensor):
        raise ShapeError(f"{loss}: the model's output is a {type(output).__name__}, expected a tensor.")
    if loss == "cross_entropy":
        if output.dim() < 2 or output.shape[:1] + output.shape[2:] != target.shape:
            expected = ", ".join(["B", "classes", *map(str, target.shape[1:])])
            raise ShapeError(
                f"cross_entropy: the output is {tuple(output.shape)} and the target {tuple(target.shape)}, expected "
                f"an output of ({expected})."
            )
        # By what the data has and not by the batch: a GPU's kernel asserts it of a batch, and no process survives that.
        if output.shape[1] < classes:
            raise ShapeError(
                f"cross_entropy: class {classes - 1}, and the model has {output.shape[1]} outputs, for classes 0 to "
                f"{output.shape[1] - 1}."
            )
        return functional.cross_entropy(output, target)
    aligned = matched(output, target, loss)
    kind = functional.mse_loss if loss == "mse" else functional.binary_cross_entropy_with_logits
    return kind(output, aligned.to(output.dtype))


def matched(output: Tensor, target: Tensor, loss: str) -> Tensor:
    """The target in the shape of the output, which may have or lack a last axis of 1; nothing is broadcast."""
    for shape in (target.shape, (*target.shape, 1), target.shape[:-1] if target.shape[-1:] == (1,) else None):
        if shape is not None and tuple(output.shape) == tuple(shape):
            return target.reshape(output.shape)
    raise ShapeError(
        f"{loss}: the output is {tuple(output.shape)} and the target {tuple(target.shape)}, expected the same shape."
    )


def measure(output: Tensor, target: Tensor, loss: str) -> dict[str, float]:
    """The metrics of a named loss on a whole split, in float64."""
    if loss == "cross_entropy":
        return {
            "accuracy": float((output.argmax(1) == target).double().mean()),
            "cross_entropy": float(functional.cross_entropy(output.double(), target)),
        }
    aligned = matched(output, target, loss).double()
    if loss == "mse":
        error = output.double() - aligned
        return {"mse": float(error.square().mean()), "mae": float(error.abs().mean())}
    right = ((output > 0) == (aligned > 0.5)).double().mean()
    return {
        "accuracy": float(right),
        "bce": float(functional.binary_cross_entropy_with_logits(output.double(), aligned)),
    }


def check_own_metrics(functions: Mapping[str, Function], loss: str) -> None:
    """Refuse metrics of the user's own that are no functions, or have the name of one of ours."""
    for name, function in functions.items():
        if not isinstance(name, str) or not name:
            raise RecipeError(f"metrics: {shown(name)} is no name of a metric, expected text, such as 'f1'.")
        if not callable(function):
            raise RecipeError(f"metrics: {name} is {shown(function)}, expected a function of output and target.")
        if name in (measured := MEASURED.get(loss, ("loss",))):
            raise RecipeError(
                f"metrics: {name} is measured already, with {', '.join(measured)}. Choose another name, such as "
                f"'my_{name}'."
            )


def own_metrics(functions: Mapping[str, Function], output: Any, target: Any) -> dict[str, float]:
    """The metrics that are functions of the user's, each one number. One that is NaN is null in the files of a run."""
    found = {}
    for name, function in functions.items():
        value = function(output, target)
        if isinstance(value, Tensor) and value.numel() != 1:
            raise DataError(f"metrics: {name} gave {tuple(value.shape)}, expected one number.")
        try:
            found[name] = float("text" if isinstance(value, str | bytes) else value)
        except (TypeError, ValueError, RuntimeError):
            raise DataError(f"metrics: {name} gave {shown(value)}, expected one number.") from None
    return found
