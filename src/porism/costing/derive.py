"""From a module's code to its formula: count at a few sizes, interpolate, confirm at sizes that were held out."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from porism.costing.cost import Cost
from porism.costing.counting.conventions import DEFAULT_CONVENTIONS, Conventions
from porism.costing.counting.copies import parameters_and_buffers
from porism.costing.counting.recorder import at_most
from porism.costing.counting.target import NEEDS_NUMBERS, Target, first_line
from porism.costing.fitting.basis import symbol
from porism.costing.fitting.challenge import challenge, constants_of
from porism.costing.fitting.interpolate import Fitted, interpolate
from porism.costing.fitting.samples import Limits, Sizes
from porism.costing.given_numbers import whole_sizes
from porism.costing.module_row import TALLIES, UNSEEN, ModuleRow
from porism.errors import PorismError, RecipeError, ShapeError

Input = str | Tensor | Callable[..., Any] | Sequence[Any] | Mapping[str, Any] | float | None
"""A text that names sizes (`"B T D"`), a tensor, a function of letters that makes one, nests of these; all else is
passed on as it is."""


def derive(
    target: nn.Module | Callable[..., Any],
    *inputs: Input | Mapping[str, Input],
    kwargs: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: str = "cpu",
    training: bool | None = None,
    outputs: str | int | Sequence[str | int] | None = None,
    multiples: Mapping[str, int] | None = None,
    largest: Mapping[str, int] | None = None,
    fixed: Mapping[str, int] | None = None,
    conventions: Conventions = DEFAULT_CONVENTIONS,
) -> Cost:
    """What a module, a function or a factory of modules costs, as formulas in the letters of its inputs.

    >>> derive(nn.Linear(64, 10), "B T D").flops
    1280*B*T
    >>> derive(lambda D, H: nn.LSTM(D, H), "T B D").flops
    8*B*H*T*(D + H)
    >>> derive(lambda A, D: nn.MultiheadAttention(A * D, A), *("T B A*D",) * 3).parameters
    4*A*D*(A*D + 1)

    See `porism.cost`, which takes the names of layers and recipes too. `fixed` are letters that stay numbers.
    """
    counted = Target(target, inputs, kwargs, dtype, device, training, outputs)
    limits = Limits(whole_sizes("multiples", multiples), whole_sizes("largest", largest))
    given = whole_sizes("fixed", fixed)
    for purpose, limited in (("take multiples of", limits.step), ("limit", limits.largest), ("fix", given)):
        if unknown := [letter for letter in limited if letter not in counted.letters]:
            raise RecipeError(
                f"cost: {counted.name} has no letter {unknown[0]} to {purpose}. "
                f"Letters: {', '.join(counted.letters) or 'none'}."
            )
    fixed = given | find_fixed(counted, limits, given)
    letters = [letter for letter in counted.letters if letter not in fixed]
    limits = limits.without(fixed)
    counted.compare()
    counted.refuses_some = False  # what was refused so far were sizes of letters that are fixed
    fitted = interpolate(lambda sizes: _decided(counted, {**fixed, **sizes}), letters, limits=limits)
    fitted |= dict.fromkeys(counted.in_pages, Fitted(None, (), "the LSTM's kernel keeps whole pages of memory"))
    fitted |= dict.fromkeys(counted.varying, Fitted(None, (), "it depends on the data"))
    fitted |= _challenged(counted, fitted, fixed, limits)
    rows = []
    for path, kind in counted.kinds.items():
        found = {name: fitted[f"{name} {path}"] for name in TALLIES if f"{name} {path}" in fitted}
        found.setdefault("activation_bytes", Fitted(None, (), UNSEEN))
        if path == "" or any(part.formula != 0 for part in found.values()):
            rows.append(ModuleRow(path, kind, found))
    return Cost(counted.name, counted, tuple(letters), fixed, tuple(rows), conventions, limits.step)


def _decided(target: Target, sizes: Mapping[str, int]) -> dict[str, int]:
    """The quantities that sizes alone decide."""
    quantities = target.quantities(sizes)
    return {name: size for name, size in quantities.items() if name not in target.varying | target.in_pages}


def _challenged(
    target: Target, fitted: Mapping[str, Fitted], fixed: Mapping[str, int], limits: Limits
) -> dict[str, Fitted]:
    """The formulas of the whole that are wrong at sizes where code likes to take another path, with the condition."""
    formulas = {
        name: fitted[name].formula for tally in TALLIES if fitted.get(name := f"{tally} ", _NONE).formula is not None
    }
    base = next((sizes for one in fitted.values() for sizes in one.checked), None)
    if not base or not formulas:
        return {}
    work = formulas.get("flops ")

    def count(sizes: Sizes) -> Mapping[str, int] | None:
        numbers = {symbol(letter): size for letter, size in sizes.items()}
        if target.needs_numbers and (work is None or work.subs(numbers) > MOST_FLOPS_FOR_REAL):
            return None
        try:
            with at_most(MOST_OPERATORS_CHALLENGED):
                return target.quantities({**fixed, **sizes})
        except PorismError:
            return None

    refuses_some = target.refuses_some  # sizes tried here may be refused: that says nothing about those users ask for
    constants = constants_of(target.target) if target.needs_numbers else []
    wrong = challenge(
        count, formulas, dict(base), limits, constants, lambda sizes: target.size_conditions(sizes, fixed).values()
    )
    target.refuses_some = refuses_some
    return {name: replace(fitted[name], differs_at=condition) for name, condition in wrong.items()}


_NONE = Fitted(None)
MOST_OPERATORS_CHALLENGED = 3_000
MOST_FLOPS_FOR_REAL = 10**9
MOST_ATTEMPTS = 200
"""Sizes that are tried to find the letters which a module has fixed, before it is refused."""


def find_fixed(target: Target, limits: Limits, given: dict[str, int]) -> dict[str, int]:
    """The letters whose size the module has fixed: those it refuses at any other. Sizes of some are given."""
    first = limits.base(target.letters) | given
    # Sizes that something divides (heads, groups) are no proof that a letter is fixed.
    for many in (1, 4, 60):
        refusal = target.refusal(limits.scaled(first, many) | given)
        if refusal is None:
            return {}
    assert refusal is not None
    known: list[int] = []
    if isinstance(target.target, nn.Module):
        known = sorted({size for tensor in parameters_and_buffers(target.target) for size in tensor.shape})
    free = [letter for letter in target.letters if letter not in given]
    attempts = (
        dict(zip(letters, sizes, strict=True))
        for number in (1, 2)
        for letters in itertools.combinations(free, number)
        for sizes in itertools.product(known, repeat=number)
    )
    for fixed in itertools.islice(attempts, MOST_ATTEMPTS):
        if target.refusal({**first, **fixed}) is None:
            _refuse_no_multiple(target, fixed, limits)
            return fixed
    # Fake tensors refuse a few things that real ones allow.
    if target.try_numbers(first, refusal):
        return {}
    raise _never(target, first)


def _refuse_no_multiple(target: Target, fixed: Mapping[str, int], limits: Limits) -> None:
    """Refuse to count at a size that is not one of those that were requested."""
    for letter, size in fixed.items():
        if size % limits.step_of(letter):
            raise RecipeError(
                f"cost: {target.name} runs at {letter}={size}, and at no multiple of {limits.step_of(letter)} that was "
                f"tried. Choose another number for {letter} in multiples, or leave it out."
            )


def _advice(target: Target, cause: BaseException) -> str:
    """What to do about a target that runs at no size."""
    if isinstance(cause, NEEDS_NUMBERS) and target.follows_gpu:
        return "It needs numbers, and none are on a GPU that is not there: count it with device='cpu'."
    if (isinstance(cause, NEEDS_NUMBERS) or "meta tensor" in str(cause)) and not target.has_weights:
        return "It needs numbers, and its weights have none: make it on the CPU, with few layers and small widths."
    if isinstance(cause, NotImplementedError) and " on CPU" in str(cause) and not target.follows_gpu:
        return "torch has no kernel for it on a CPU: count it with device='cuda', which needs no GPU."
    return (
        "Check the inputs, and that a letter means the same size wherever it stands; a size that something divides, "
        "as five halvings do, is written 32*N."
    )


def _never(target: Target, first: Mapping[str, int]) -> PorismError:
    refusal = target.refusal(first)
    assert refusal is not None
    if refusal.__cause__ is None or not first:
        return refusal
    at = ", ".join(f"{letter}={size}" for letter, size in first.items())
    error = ShapeError(
        f"cost: {target.name} runs at no size that was tried. At {at} it raised {first_line(refusal.__cause__)}. "
        f"{_advice(target, refusal.__cause__)}"
    )
    error.__cause__ = refusal.__cause__
    return error
