"""One step of the recurrent language model, and its derivatives as autograd finds them.

    beta = before H + e I + b1,   h = sigmoid(beta),   alpha = h U + b2,   yhat = softmax(alpha),   E = -sum y log yhat

Vectors are rows, (1, n), so that a textbook's formula can be written as it stands: `s.h.T @ (s.yhat - s.y)`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from porism.claims.checks.compare import Impossible, compared, tried
from porism.claims.claim import Finding
from porism.layers.readout import naive
from porism.layers.recurrent.elman.naive import ACTIVATIONS


class ElmanStep(NamedTuple):
    """Everything that a formula may name. `before` is the state h[t-1], y the label as weights of the words."""

    e: Tensor  # 1 D
    before: Tensor  # 1 H
    I: Tensor  # D H  # noqa: E741 - the letter of the equations
    H: Tensor  # H H
    U: Tensor  # H V
    b1: Tensor  # 1 H
    b2: Tensor  # 1 V
    y: Tensor  # 1 V
    beta: Tensor  # 1 H
    h: Tensor  # 1 H
    alpha: Tensor  # 1 V
    yhat: Tensor  # 1 V
    E: Tensor

    @property
    def slope(self) -> Tensor:
        """sigmoid'(beta), (1, H)."""
        return self.h * (1 - self.h)

    @property
    def delta(self) -> Tensor:
        """What is right for dE/dbeta: ((yhat - y) U^T) h (1 - h), element by element, (1, H)."""
        return (self.yhat - self.y) @ self.U.T * self.slope


GIVEN = ("e", "before", "I", "H", "U", "b1", "b2", "y")
MATRICES = ("I", "H", "U")
Formula = Callable[[ElmanStep], Tensor]
Formulas = Callable[[ElmanStep], tuple[Tensor, ...]]


def take(given: Mapping[str, Tensor]) -> ElmanStep:
    """The step from what is given; beta, h and alpha may be given too, and are then not computed."""
    e, before, I, H, U, b1, b2, y = (given[name] for name in GIVEN)  # noqa: E741
    beta = given["beta"] if "beta" in given else before @ H + e @ I + b1
    h = given["h"] if "h" in given else ACTIVATIONS["sigmoid"](beta)
    alpha = given["alpha"] if "alpha" in given else naive.scores(h[0], U.mT, b2[0])[None]
    E = cross_entropy(y, alpha)
    return ElmanStep(e, before, I, H, U, b1, b2, y, beta, h, alpha, alpha.softmax(1), E)


def cross_entropy(y: Tensor, alpha: Tensor) -> Tensor:
    """The layer's cross-entropy of every word, weighted by the label: y and alpha (1, V)."""
    unchanged, words = torch.eye(alpha.shape[1], dtype=alpha.dtype), torch.arange(alpha.shape[1])[:, None]
    return torch.stack([y[0, word] * naive.cross_entropy(alpha, unchanged, None, word) for word in words]).sum()


def random_step(D: int, H: int, V: int, seed: int = 1) -> ElmanStep:
    """The label is one word."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    label = torch.nn.functional.one_hot(torch.tensor([V // 2]), V).double()
    shapes = {"e": (1, D), "before": (1, H), "I": (D, H), "H": (H, H), "U": (H, V), "b1": (1, H), "b2": (1, V)}
    drawn = {name: normal(*shape) for name, shape in shapes.items()}
    return take(drawn | {"before": drawn["before"].sigmoid(), "y": label})


STEPS = {f"D={D}, H={H}, V={V}": random_step(D, H, V) for D, H, V in [(3, 5, 7), (1, 1, 2), (7, 2, 3), (1, 1, 1)]}
"""At a width of one many a wrong formula is right: it stands here beside others."""


def is_one_wide(step: ElmanStep) -> bool:
    """Where a product of a column and a row, its diagonal and its transpose are all the same."""
    return step.h.shape[1] == 1


def derivative(step: ElmanStep, of: str, by: str) -> Tensor:
    """Every element of one quantity by every element of another; what does not lie between them is held.

    A row counts as a vector: dalpha/dh is (V, H), entry (k, i) being the derivative of alpha[k] by h[i]. Of E it is
    a gradient, in the shape of what it is taken by.
    """
    given = {name: getattr(step, name) for name in GIVEN}

    def value(point: Tensor) -> Tensor:
        changed: Tensor = getattr(take(given | {by: point}), of)
        return changed

    found: Tensor = torch.autograd.functional.jacobian(value, getattr(step, by))
    if of == "E":
        return found
    return found[0] if by in MATRICES else found[0][:, 0]


def derivative_of(of: str, by: str) -> Callable[[Formula], Finding]:
    """form(step) against the derivative of one quantity by another, at steps of several sizes."""

    def judge(form: Formula) -> Finding:
        return compared(
            (where, *_as_one_number(derivative(step, of, by), tried(form, step))) for where, step in STEPS.items()
        )

    return judge


def _as_one_number(true: Tensor, given: Tensor | Impossible) -> tuple[Tensor, Tensor | Impossible]:
    """A single number is the same with any number of indices."""
    if isinstance(given, Tensor) and true.numel() == given.numel() == 1:
        return true.flatten(), given.flatten()
    return true, given


def gradient_by(by: str) -> Callable[[Formula], Finding]:
    """form(step) against the gradient of the step's own loss, h[t-1] being given, at steps of several sizes."""
    return derivative_of("E", by)


def derivatives_of(*pairs: tuple[str, str]) -> Callable[[Formulas], Finding]:
    """The same for a statement of several: form(step) gives one tensor for each pair of quantities."""

    def judge(form: Formulas) -> Finding:
        return compared(
            (f"d{of}/d{by} at {where}", derivative(step, of, by), tried(lambda s, n=place: form(s)[n], step))
            for where, step in STEPS.items()
            for place, (of, by) in enumerate(pairs)
        )

    return judge
