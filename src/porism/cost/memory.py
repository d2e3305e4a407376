"""What training keeps in memory beside the data: weights, their gradients, the optimizer's state, activations."""

from dataclasses import dataclass, fields

from sympy import Expr

from porism.cost.factored import factored
from porism.cost.interpolation.basis import symbol
from porism.errors import RecipeError

OPTIMIZERS = {"sgd": (0, 0), "momentum": (1, 0), "rmsprop": (1, 4), "adagrad": (1, 4), "adam": (2, 4), "adamw": (2, 4)}
"""What torch's optimizers keep: tensors of the size of each trained one, and bytes of a step counter beside them."""


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes as formulas. A frozen weight has no gradient and no state."""

    parameters: Expr
    gradients: Expr
    optimizer: Expr
    activations: Expr

    @property
    def total(self) -> Expr:
        return factored(self.parameters + self.gradients + self.optimizer + self.activations)

    def at(self, **letters: int) -> dict[str, int]:
        """The bytes of each part, and their sum, at given sizes."""
        sizes = {symbol(letter): size for letter, size in letters.items()}
        parts = {part.name: int(getattr(self, part.name).subs(sizes)) for part in fields(self)}
        return {**parts, "total": sum(parts.values())}


def check_optimizer(name: str) -> None:
    if name not in OPTIMIZERS:
        raise RecipeError(f"cost: {name!r} is no optimizer known here. Choose from {', '.join(OPTIMIZERS)}.")


def training_memory(
    optimizer: str, parameter_bytes: Expr, gradient_bytes: Expr, trained_tensors: Expr, saved: Expr
) -> TrainingMemory:
    states, counter = OPTIMIZERS[optimizer]
    return TrainingMemory(
        parameters=parameter_bytes,
        gradients=gradient_bytes,
        optimizer=factored(states * gradient_bytes + counter * trained_tensors),
        activations=saved,
    )
