"""Random modules, and whether a number that cost gives without a label is what a fresh run on real tensors does.

    python -m tests.costing.sound --cases 5000 --seed 1        prints what is wrong, and how many cases were tried

A case is a module with its formulas at one size; every module is asked for several sizes, inside of what was confirmed
and far outside.
"""

import copy
import gc
import random
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import tyro
from tests.costing.real_run import really_kept
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from porism import cost
from porism.costing.cost import Cost
from porism.costing.counting.count import count
from porism.costing.quantity import Quantity

D = 8
NUMBERS = (1, 3, 16, 48, 64, 200, 512, 1024)
"""What the code of a module compares sizes with, pads to, or splits by."""
BATCHES = (1, 2, 3, 4, 7)
LENGTHS = (1, 2, 4, 7, 16, 56, 64, 128, 200, 600, 1024, 3000, 4097)
MOST_ELEMENTS = 3 * 2**22
"""Of one square of lengths, so that a real run takes a second at most."""


class Step(NamedTuple):
    """One part of a module: what it does, under which condition on its sizes, and a number for both."""

    kind: str
    condition: str
    number: int


class Model(nn.Module):
    """Steps in a row on (B, T, 8), with a state that the code may look at, and an output that may be wrapped."""

    def __init__(self, steps: Sequence[Step], wrap: str) -> None:
        super().__init__()
        self.steps, self.wrap = list(steps), wrap
        self.linear, self.mix, self.strided = nn.Linear(D, D), nn.Conv1d(D, D, 3, padding=1), nn.Conv1d(D, D, 3, 2, 1)
        self.norm, self.groups, self.batch = nn.LayerNorm(D), nn.GroupNorm(2, D), nn.BatchNorm1d(D)
        self.heads, self.cell = nn.MultiheadAttention(D, 2, batch_first=True), nn.GRUCell(D, D)
        self.calls = 0
        self.cache: Tensor | None = None
        self.mask: Tensor
        self.register_buffer("mask", torch.zeros(0, 0), persistent=False)

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


def scanned(model: Model, x: Tensor, number: int) -> Any:
    """A loop over the first steps of the length, as a recurrence is."""
    state = x[:, 0]
    states = [state := model.cell(x[:, t], state) for t in range(min(x.shape[1], number % 13 + 1))]
    return torch.cat([torch.stack(states, 1), x[:, len(states) :]], 1)


def halved(model: Model, x: Tensor, _: int) -> Any:
    """A loop whose turns depend on the length: sums of neighbours until one is left."""
    y = x
    while y.shape[1] > 1:
        y = model.linear(y[:, : y.shape[1] // 2 * 2].unflatten(1, (-1, 2)).sum(2))
    return x + y


def padded(model: Model, x: Tensor, number: int) -> Any:
    return model.linear(pad(x, (0, 0, 0, -x.shape[1] % number)))


def cached(model: Model, x: Tensor, _: int) -> Any:
    if model.cache is None or len(model.cache) < x.shape[1]:
        model.cache = torch.ones(x.shape[1], D)
    return x * model.cache[: x.shape[1]]


def masked(model: Model, x: Tensor, _: int) -> Any:
    T = x.shape[1]
    if len(model.mask) < T:
        model.mask = torch.ones(T, T).tril()
    return (x @ x.mT * model.mask[:T, :T]) @ x


def causal(_: Model, x: Tensor, _number: int) -> Any:
    heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
    return scaled_dot_product_attention(heads, heads, heads, is_causal=True).transpose(1, 2).flatten(2)


def checked(_: Model, x: Tensor, _number: int) -> Any:
    """Looks at numbers, and goes on."""
    if not x.isfinite().all():
        raise ValueError("numbers that are none")
    return x


def halting(model: Model, x: Tensor, _: int) -> Any:
    return model.linear(x) if x.mean() < 0.1 else x


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


class Hung(torch.autograd.Function):
    """A product whose result hangs on the context, and whose backward pass has two."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.x, ctx.weight, ctx.y = x.detach(), weight.detach(), (x @ weight).tanh()
        result: Tensor = ctx.y.clone()
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        inner = gradient * (1 - ctx.y**2)
        return inner @ ctx.weight.mT, (ctx.x.mT @ inner).sum(0)


KINDS: dict[str, Callable[[Model, Tensor, int], Any]] = {
    "linear": lambda model, x, _: model.linear(x),
    "product": lambda _model, x, _: x @ x.mT @ x,
    "outer": lambda _model, x, _: torch.einsum("btd,bte->bde", x, x).sum(1, keepdim=True) + x,
    "norm": lambda model, x, _: model.norm(x),
    "group norm": lambda model, x, _: model.groups(x.mT).mT,
    "batch norm": lambda model, x, _: model.batch(x.flatten(0, 1)).unflatten(0, x.shape[:2]),
    "convolution": lambda model, x, _: model.mix(x.mT).mT,
    "strided": lambda model, x, _: model.strided(x.mT).mT,
    "attention": lambda _model, x, _: scaled_dot_product_attention(x, x, x),
    "causal": causal,
    "heads": lambda model, x, _: model.heads(x, x, x, need_weights=False)[0],
    "window": lambda _model, x, number: torch.cat([c @ c.mT @ c for c in x.split(max(number, 16), 1)], 1),
    "local": lambda model, x, number: torch.cat([model.linear(x[:, :number]), x[:, number:]], 1),
    "custom": lambda _model, x, _: Kept.apply(x),  # type: ignore[no-untyped-call]
    "hung": lambda model, x, _: Hung.apply(x, model.linear.weight),  # type: ignore[no-untyped-call]
    "loop": looped,
    "scan": scanned,
    "halving": halved,
    "padding": padded,
    "cache": cached,
    "mask": masked,
    "counter": late,
    "check": checked,
    "halting": halting,
}
CONDITIONS: dict[str, Callable[[int, int, int], bool]] = {
    "always": lambda _B, _T, _n: True,
    "from": lambda _B, T, n: n <= T,
    "to": lambda _B, T, n: n >= T,
    "equal": lambda B, T, _n: B == T,
    "width": lambda _B, T, _n: T == D,
    "multiple": lambda _B, T, n: T % n == 0,
    "band": lambda _B, T, n: n < T <= n + 16,
    "twice": lambda B, T, _n: T == 2 * B,
    "power": lambda _B, T, _n: T & (T - 1) == 0,
    "tokens": lambda B, T, n: n < B * T,
    "odd batch": lambda B, _T, _n: B % 2 == 1,
    "exactly": lambda _B, T, n: n == T,
    "one of": lambda _B, T, _n: T in (64, 128, 1024),
}


@dataclass
class Answer:
    hidden: Tensor
    parts: dict[str, Any]


class Pair(NamedTuple):
    first: Any
    second: Tensor


class Held:
    def __init__(self, y: Tensor) -> None:
        self._y = y


WRAPS: dict[str, Callable[[Tensor], Any]] = {
    "plain": lambda x: x,
    "nested": lambda x: {"a": [x, (x.sum(),)]},
    "set": lambda x: {x},
    "generator": lambda x: (part for part in (x,)),
    "dataclass": lambda x: Answer(x, {"sum": (x.sum(), None, "text")}),
    "named tuple": lambda x: Pair([x], x.mean()),
    "object": lambda x: SimpleNamespace(held=Held(x)),
    "distribution": lambda x: torch.distributions.Normal(x, 1.0),
    "deque": lambda x: deque([x]),
}


def confirmed(quantity: Quantity, real: int) -> bool:
    """Whether a number is right, or says that it need not be."""
    if quantity.label in ("extrapolated", "unknown"):
        return True
    if quantity.label in ("lower bound", "range"):
        return (quantity.low or 0) <= real
    return quantity == real


def wrong(found: Cost, model: Model, B: int, T: int) -> list[str]:
    """What cost says of a size without a label that a fresh run does not confirm; labels are counted in `LABELS`."""
    try:
        x = torch.randn(B, T, D, requires_grad=True)
        real = count(copy.deepcopy(model), x)
        kept = really_kept(model, x)
    except Exception:  # no run, hence no number
        reals = None
    else:
        reals = {"flops": real.flops, "backward_flops": real.backward_flops, "activation_bytes": kept}
    faults = []
    for recount in (True, False):
        for kind, quantity in found.at(recount=recount, B=B, T=T).items():
            if kind == "parameters":
                continue
            LABELS[quantity.label] += 1
            if reals is None and quantity.label not in ("extrapolated", "unknown"):
                faults.append(f"{kind} {quantity!r}, though no run is possible (recount={recount})")
            elif reals is not None and not confirmed(quantity, reals[kind]):
                faults.append(f"{kind} {quantity!r}, a fresh run {reals[kind]:,} (recount={recount})")
    return [f"B={B}, T={T}: {fault}; verdict: {found.verdict}" for fault in faults]


LABELS: Counter[str] = Counter()


def is_small(steps: Sequence[Step], B: int, T: int) -> bool:
    """Whether a real run at these sizes needs little time and memory."""
    square = any(step.kind in ("product", "attention", "causal", "heads", "mask") for step in steps)
    return B * T * (T if square else D) <= MOST_ELEMENTS


def main(cases: int = 5000, seed: int = 1, sizes: int = 6, minutes: float = 1e9) -> None:
    """Try random modules until there were so many cases, or so many minutes have passed; leaves with 1 at a fault."""
    torch.set_num_threads(1)
    chance = random.Random(seed)
    start, tried, modules, faults = time.monotonic(), 0, 0, 0
    while tried < cases and time.monotonic() - start < 60 * minutes:
        count_of_steps = chance.randint(1, 3)
        steps = [
            Step(chance.choice(list(KINDS)), chance.choice(list(CONDITIONS)), chance.choice(NUMBERS))
            for _ in range(count_of_steps)
        ]
        wrap = chance.choice(list(WRAPS))
        pairs = [(chance.choice(BATCHES), chance.choice(LENGTHS)) for _ in range(sizes)]
        model = Model(steps, wrap)
        modules += 1
        try:
            found = cost(model, "B T 8")
            for B, T in pairs:
                if is_small(steps, B, T):
                    tried += 1
                    for fault in wrong(found, model, B, T):
                        faults += 1
                        print(f"{[tuple(step) for step in steps]} {wrap}: {fault}", flush=True)
        except Exception:
            faults += 1
            print(f"{[tuple(step) for step in steps]} {wrap}: {traceback.format_exc()}", flush=True)
        gc.collect()
        if modules % 20 == 0:
            print(f"{tried} cases of {modules} modules, {faults} faults, {time.monotonic() - start:.0f} s", flush=True)
    print(f"seed {seed}: {tried} cases of {modules} modules, {faults} faults; labels {dict(LABELS)}", flush=True)
    sys.exit(faults > 0)


if __name__ == "__main__":
    tyro.cli(main)
