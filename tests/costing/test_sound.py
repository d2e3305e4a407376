"""Random modules at random sizes: no number without a label that a fresh run on real tensors does not confirm."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.costing.real_run import really_kept
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from porism import cost
from porism.costing.counting.count import count
from porism.costing.quantity import Quantity

D = 8


class Step(NamedTuple):
    """One part of a module: what it does, under which condition on the length, and a number for both."""

    kind: str
    condition: str
    number: int


class Model(nn.Module):
    """Steps in a row on (B, T, 8), with a state that the code may look at, and an output that may be wrapped."""

    def __init__(self, steps: list[Step], wrap: str) -> None:
        super().__init__()
        self.steps, self.wrap = steps, wrap
        self.linear, self.norm, self.mix = nn.Linear(D, D), nn.LayerNorm(D), nn.Conv1d(D, D, 3, padding=1)
        self.calls = 0
        self.cache: Tensor | None = None

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        for step in self.steps:
            if CONDITIONS[step.condition](x.shape[0], x.shape[1], step.number):
                x = KINDS[step.kind](self, x, step.number)
        return WRAPS[self.wrap](x)


def looped(model: Model, x: Tensor, number: int) -> Any:
    for _ in range(number % 4):
        x = model.linear(x).tanh()
    return x


def padded(model: Model, x: Tensor, number: int) -> Any:
    return model.linear(pad(x, (0, 0, 0, -x.shape[1] % number)))


def cached(model: Model, x: Tensor, _: int) -> Any:
    if model.cache is None or len(model.cache) < x.shape[1]:
        model.cache = torch.ones(x.shape[1], D)
    return x * model.cache[: x.shape[1]]


def late(model: Model, x: Tensor, number: int) -> Any:
    return model.linear(x) if model.calls > number % 5 else x


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(y := x.exp())
        return y.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return gradient * y


KINDS: dict[str, Callable[[Model, Tensor, int], Tensor]] = {
    "linear": lambda model, x, _: model.linear(x),
    "norm": lambda model, x, _: model.norm(x),
    "convolution": lambda model, x, _: model.mix(x.mT).mT,
    "attention": lambda _model, x, _: scaled_dot_product_attention(x, x, x),
    "window": lambda _model, x, number: torch.cat([c @ c.mT @ c for c in x.split(number, 1)], 1),
    "custom": lambda _model, x, _: Kept.apply(x),  # type: ignore[no-untyped-call]
    "loop": looped,
    "padding": padded,
    "cache": cached,
    "counter": late,
}
CONDITIONS: dict[str, Callable[[int, int, int], bool]] = {
    "always": lambda _B, _T, _n: True,
    "from": lambda _B, T, n: n <= T,
    "equal": lambda B, T, _n: B == T,
    "multiple": lambda _B, T, n: T % n == 0,
    "band": lambda _B, T, n: n < T <= n + 16,
    "twice": lambda B, T, _n: T == 2 * B,
    "power": lambda _B, T, _n: T & (T - 1) == 0,
}
WRAPS: dict[str, Callable[[Tensor], Any]] = {
    "plain": lambda x: x,
    "nested": lambda x: {"a": [x, (x.sum(),)]},
    "set": lambda x: {x},
    "generator": lambda x: (part for part in (x,)),
}
STEPS = st.lists(
    st.builds(
        Step, st.sampled_from(list(KINDS)), st.sampled_from(list(CONDITIONS)), st.sampled_from([16, 48, 64, 200])
    ),
    min_size=1,
    max_size=3,
)


def confirmed(quantity: Quantity, real: int) -> bool:
    """Whether a number is right, or says that it need not be."""
    if quantity.label in ("extrapolated", "unknown"):
        return True
    if quantity.label in ("lower bound", "range"):
        return (quantity.low or 0) <= real
    return quantity == real


def test_a_number_is_right_or_says_what_it_is(is_whole: bool) -> None:
    @settings(max_examples=60 if is_whole else 5, deadline=None, database=None, derandomize=True)
    @given(STEPS, st.sampled_from(list(WRAPS)), st.integers(1, 4), st.sampled_from([1, 4, 56, 64, 128, 200, 600]))
    def holds(steps: list[Step], wrap: str, B: int, T: int) -> None:
        model = Model(steps, wrap)
        found = cost(model, "B T 8")
        at, by_formula = found.at(B=B, T=T), found.at(recount=False, B=B, T=T)
        x = torch.randn(B, T, D, requires_grad=True)
        real = count(copy.deepcopy(model), x)
        assert confirmed(at.flops, real.flops), (at.flops, real.flops)
        assert confirmed(at.backward_flops, real.backward_flops), (at.backward_flops, real.backward_flops)
        kept = really_kept(model, x)
        assert confirmed(at.activation_bytes, kept), at.activation_bytes
        assert confirmed(by_formula.flops, real.flops), (found.verdict, by_formula.flops, real.flops)
        assert confirmed(by_formula.activation_bytes, kept), (found.verdict, by_formula.activation_bytes, kept)

    holds()
