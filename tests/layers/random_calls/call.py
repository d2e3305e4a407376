"""One call of a layer or functional form, its oracle in float64, and what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from tests.layers.random_calls.draw import Draw
from torch import Tensor

from porism.errors import PorismError

Leaves = Mapping[str, Tensor]
Function = Callable[[Leaves], Tensor]

ROUNDINGS = {torch.float64: 2e4, torch.float32: 256.0, torch.bfloat16: 16.0, torch.float16: 24.0}
"""How many units in the last place an answer may be off, of the size of the terms that make it up."""

STEP = 2.0**-20
"""The relative change of operands by which it is found how much an answer depends on their last digits."""


@dataclass(frozen=True)
class Call:
    """`ours` and `oracle` are functions of leaves: those of `ours` have the dtype, those of the oracle are float64.

    `refused` says that the call must be refused. `terms` is the size of the terms that cancel inside, beside operands
    of size 1.
    """

    name: str
    about: str
    leaves: dict[str, Tensor] = field(repr=False)
    dtype: torch.dtype
    ours: Function = field(repr=False)
    oracle: Function = field(repr=False)
    refused: bool = False
    terms: float = 1.0
    in_place: bool = False
    spread: Callable[[Tensor], Tensor] = field(default=lambda x: x, repr=False)
    """The layout of the gradient that comes in."""
    autocast: bool = False


@dataclass(frozen=True)
class Outcome:
    kind: Literal["right", "refused", "wrong", "raw"]
    detail: str = ""


def judge(call: Call, draw: Draw, run: Callable[[Function], Function] = lambda ours: ours) -> Outcome:
    """Runs a call forward and back, and holds it against its oracle. `run` may compile it first."""
    leaves = {name: leaf.to(call.dtype, copy=True).requires_grad_() for name, leaf in call.leaves.items()}
    try:
        with torch.autocast(draw.device, torch.bfloat16, enabled=call.autocast):
            answer = run(call.ours)(leaves)
    except PorismError as error:
        return Outcome("refused" if call.refused else "wrong", f"refused: {error}")
    except Exception as error:
        # Indices are looked at by the compiled code itself, which raises torch's error with our words.
        if call.refused and "are out of range, expected 0 to" in str(error):
            return Outcome("refused")
        return Outcome("raw", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    if call.refused:
        return Outcome("wrong", f"answered {tuple(answer.shape)} where a refusal was due")
    incoming = draw.normal(*answer.shape)
    given = call.spread(incoming.to(answer.dtype))
    try:
        if call.in_place:
            answer = answer.mul_(2)
        found = [answer.detach(), *_gradients(answer, leaves, given)]
    except Exception as error:
        return Outcome("raw", f"backward, {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    wanted = _by_oracle(call, given, 0.0, draw)
    moved = _by_oracle(call, given, STEP, draw)
    eps, roundings = _precision(call)
    # A gradient of products of what comes in with operands may cancel to nothing; its rounding errors do not.
    largest = max([1.0, *(float(leaf.abs().max()) for leaf in call.leaves.values() if leaf.numel())])
    floor = float(given.abs().max()) * largest**2 if given.numel() else 0.0
    for name, ours, exact, other in zip(["answer", *leaves], found, wanted, moved, strict=True):
        if ours.shape != exact.shape:
            return Outcome("wrong", f"{name} is {tuple(ours.shape)}, expected {tuple(exact.shape)}")
        if ours.numel() == 0:
            continue
        # What the last digits of the operands decide, and what rounding the answer itself may cost.
        depends = (other - exact).abs().max() / STEP + exact.abs().max() + floor
        off, allowed = (ours.double() - exact).abs().max(), roundings * eps * call.terms * depends
        if not bool(off <= allowed):
            return Outcome("wrong", f"{name} is off by {float(off):.3g}, allowed {float(allowed):.3g}")
    return Outcome("right")


def _precision(call: Call) -> tuple[float, float]:
    dtype = torch.bfloat16 if call.autocast and call.dtype == torch.float32 else call.dtype
    return torch.finfo(dtype).eps, ROUNDINGS[dtype]


def _by_oracle(call: Call, given: Tensor, step: float, draw: Draw) -> list[Tensor]:
    """The answer and the gradients in float64, at the leaves or a relative step away from them."""
    leaves = {}
    for name, leaf in call.leaves.items():
        exact = leaf.to(call.dtype, copy=True).double()
        if step:
            exact = exact * (1 + step * draw.normal(*exact.shape).clamp(-1, 1))
        leaves[name] = exact.requires_grad_()
    answer = call.oracle(leaves)
    if call.in_place:
        answer = answer * 2
    return [answer.detach(), *_gradients(answer, leaves, given.double())]


def _gradients(answer: Tensor, leaves: Leaves, given: Tensor) -> list[Tensor]:
    if not answer.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves.values()]
    found = torch.autograd.grad(answer, list(leaves.values()), given, allow_unused=True)
    return [torch.zeros_like(leaf) if part is None else part for part, leaf in zip(found, leaves.values(), strict=True)]
