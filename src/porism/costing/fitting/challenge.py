"""Formulas held against counts at sizes where code likes to take another path: equal sizes, round ones, its constants.

The sizes that a formula is found from are small and odd and never equal. Code that pads to a multiple of 64, has a
case of its own for equal widths, or a window of 512, does something else exactly where none of them lie.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol

from sympy import Expr
from torch import nn

from porism.costing.fitting.basis import symbol
from porism.costing.fitting.samples import Limits, Sizes

ROUND = (64, 128)
MOST_CONSTANTS = 6
LARGEST_CONSTANT = 4096
OTHERS = ("torch.", "porism.")
"""Packages whose modules are not searched for constants: their layers have been held against counts at all sizes."""

MOST_OBSERVED = 4
"""Runs whose conditions on sizes are looked at: that at the base, and some on the other side of a condition."""
MOST_BOUNDARIES = 24
"""Sizes on the other side of a condition at which is counted."""

Count = Callable[[Sizes], Mapping[str, int] | None]


class Condition(Protocol):
    """Something that code asks of sizes."""

    @property
    def text(self) -> str: ...
    def changes(self, base: Sizes, largest: int, steps: Mapping[str, int]) -> Iterable[tuple[str, int]]:
        """The nearest sizes of each letter at which the answer is another one."""
        ...


Observe = Callable[[Sizes], Iterable[Condition]]


def challenge(
    count: Count,
    formulas: Mapping[str, Expr],
    base: Sizes,
    limits: Limits,
    constants: Sequence[int] = (),
    observe: Observe = lambda sizes: (),
) -> dict[str, str]:
    """The formulas that are wrong at some such size, with the condition: "T=64", "C=O", "T=49 (the code asks T > 48)".

    count: all quantities at some sizes; None where they cannot be counted.
    base: sizes at which everything can be counted.
    observe: the conditions on sizes that a run depends on.

    >>> square = {"flops": symbol("T") ** 2}
    >>> challenge(lambda x: {"flops": x["T"] ** 2 if x["T"] % 16 else 0}, square, {"T": 3}, Limits())
    {'flops': 'T=64'}
    """
    free = [letter for letter in base if letter not in limits.largest]
    wrong: dict[str, str] = {}
    for change, text in islice(_boundaries(observe, base, limits, free), MOST_BOUNDARIES):
        for name in (_differing(count, formulas, base | change) or set()) - wrong.keys():
            wrong[name] = f"{_condition(change)} (the code asks {text})"
    around = [size for constant in constants for size in (constant, constant + 1)]
    for size in dict.fromkeys((*ROUND, *around)):
        there = {letter: -(-size // limits.step_of(letter)) * limits.step_of(letter) for letter in free}
        single = [{letter: there[letter]} for letter in free]
        pairs = [{a: there[a], b: there[b]} for a, b in combinations(free, 2)]
        together = _differing(count, formulas, base | there)
        if together is None:  # refused: not all letters can be equal
            changes = single
        elif together - wrong.keys():
            changes = [*single, *pairs, there]
        else:
            continue
        for change in changes:
            for name in (_differing(count, formulas, base | change) or set()) - wrong.keys():
                wrong[name] = _condition(change)
    return wrong


def _boundaries(observe: Observe, base: Sizes, limits: Limits, free: Sequence[str]) -> Iterator[tuple[Sizes, str]]:
    """Sizes on the other side of a condition, as changes of the base, with the condition; and from there on."""
    waiting: list[Sizes] = [{}]  # grows on the way
    for here in islice(waiting, MOST_OBSERVED):
        for condition in observe(base | here):
            for letter, size in condition.changes(base | here, LARGEST_CONSTANT, limits.step):
                change = here | {letter: size}
                if letter in free and change not in waiting:
                    waiting.append(change)
                    yield change, condition.text


def _condition(change: Sizes) -> str:
    """In words: one letter at a size, or letters that are equal."""
    if len(change) == 1 or len(set(change.values())) > 1:
        return ", ".join(f"{letter}={size}" for letter, size in change.items())
    return "=".join(change)


def _differing(count: Count, formulas: Mapping[str, Expr], sizes: Sizes) -> set[str] | None:
    counted = count(sizes)
    if counted is None:
        return None
    numbers = {symbol(letter): size for letter, size in sizes.items()}
    return {name for name, formula in formulas.items() if name in counted and formula.subs(numbers) != counted[name]}


def constants_of(target: Any) -> list[int]:
    """Whole numbers in the code of a target and in attributes of its modules: sizes it may compare others with."""
    found = dict.fromkeys(number for number in _numbers(target) if 8 <= number <= LARGEST_CONSTANT)
    return list(found)[:MOST_CONSTANTS]


def _numbers(target: Any) -> Iterator[int]:
    if isinstance(target, MethodType):
        target = target.__self__
    if isinstance(target, nn.Module):
        for module in target.modules():
            if not type(module).__module__.startswith(OTHERS):
                yield from _of_code(getattr(type(module).forward, "__code__", None))
                yield from (value for name, value in vars(module).items() if type(value) is int and name[0] != "_")
    elif isinstance(target, FunctionType) and not (target.__module__ or "").startswith(OTHERS):
        yield from _of_code(target.__code__)
        inside = inspect.getclosurevars(target)
        for value in (*inside.nonlocals.values(), *inside.globals.values()):
            if type(value) is int:
                yield value
            elif isinstance(value, type) and issubclass(value, nn.Module) and not value.__module__.startswith(OTHERS):
                yield from _of_code(getattr(value.forward, "__code__", None))


def _of_code(code: Any) -> Iterator[int]:
    """
    >>> list(_of_code(compile("x if 48 < len(x) <= 64 else 2 * x", "", "eval")))
    [48, 64, 2]
    """
    if isinstance(code, CodeType):
        for value in code.co_consts:
            if type(value) is int:
                yield value
            elif isinstance(value, CodeType):
                yield from _of_code(value)
