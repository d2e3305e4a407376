"""Costs derived by hand: named terms of parameters, FLOPs and saved elements, each a formula in the alphabet."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol, Self

from sympy import Expr, expand, sympify

from porism.costing.alphabet import SYMBOLS, factored
from porism.costing.letters import ALPHABET
from porism.errors import CostError, RecipeError

NamedTerms = dict[str, Expr]


@dataclass(frozen=True)
class Terms:
    """Named terms of four kinds, each a formula in the alphabet.

    >>> from porism.costing.alphabet import B, D, H, T
    >>> product = Terms(parameters={"weight": D * H}, flops={"product": 2 * B * T * D * H}, saved={"x": B * T * D})
    >>> bias = Terms(parameters={"bias": H})
    >>> (product + bias).total("parameters")
    H*(D + 1)
    >>> (product + bias).at(B=4, T=10, D=50, H=100)
    {'parameters': 5100, 'flops': 400000, 'backward_flops': 0, 'saved': 2000}
    >>> list((product + bias).with_prefix("input").parameters)
    ['input.weight', 'input.bias']

    `flops` and `backward_flops` count matrix products only, two operations for a multiply-add. `saved` counts the
    elements (not the bytes) kept for the backward pass, parameters left out.
    """

    parameters: NamedTerms = field(default_factory=dict)
    flops: NamedTerms = field(default_factory=dict)
    backward_flops: NamedTerms = field(default_factory=dict)
    saved: NamedTerms = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A term may be written as a plain number; every term is a formula from here on.
        for kind in self.kinds():
            object.__setattr__(self, kind, {name: sympify(term) for name, term in self.terms(kind).items()})

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        return tuple(entry.name for entry in fields(cls))

    def terms(self, kind: str) -> NamedTerms:
        """The named terms of one kind."""
        if kind not in self.kinds():
            raise RecipeError(f"cost: there is no kind {kind!r}. Choose from {', '.join(self.kinds())}.")
        terms: NamedTerms = getattr(self, kind)
        return terms

    def total(self, kind: str) -> Expr:
        """The sum of one kind's terms, factored."""
        return factored(sum(self.terms(kind).values(), start=sympify(0)))

    def at(self, **letters: int) -> dict[str, int]:
        """The total of every kind with numbers for the letters. A letter that no term has is ignored."""
        for letter, size in letters.items():
            if letter not in ALPHABET:
                raise RecipeError(f"cost: {letter} is no letter of the alphabet. Choose from {', '.join(ALPHABET)}.")
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise RecipeError(f"cost: {letter}={size!r} is no size. Give a whole number from 1 on.")
        totals = {kind: self.total(kind) for kind in self.kinds()}
        needed = {symbol.name for total in totals.values() for symbol in total.free_symbols}
        if missing := [letter for letter in ALPHABET if letter in needed - set(letters)]:
            named = ", ".join(f"{letter} ({ALPHABET[letter]})" for letter in missing)
            raise RecipeError(f"cost: the formula has letters without a number: {named}. Give {missing[0]}=... too.")
        sizes = {SYMBOLS[letter]: size for letter, size in letters.items()}
        return {kind: _whole(kind, total.subs(sizes)) for kind, total in totals.items()}

    def with_prefix(self, name: str) -> Self:
        """The same cost with `name.` before every term, to tell parts apart in a sum."""
        return type(self)(
            **{kind: {f"{name}.{term}": cost for term, cost in self.terms(kind).items()} for kind in self.kinds()}
        )

    def check(self, cost: "Derived", kinds: Sequence[str] = ("parameters", "flops", "backward_flops")) -> None:
        """Raise CostError where these terms are not what `porism.cost` finds in the code.

        Formulas with floors and branches can be written in many ways, so they are compared at sizes too. Bytes are no
        elements: to compare `saved`, ask for a cost in one byte a number or divide by hand.
        """
        for kind in kinds:
            ours, theirs = self.total(kind), cost.formula(kind)
            if expand(ours - theirs) != 0 and (sizes := _difference(ours - theirs)) is not None:
                at = ", ".join(f"{letter}={size}" for letter, size in sizes.items())
                raise CostError(f"cost: {kind} by hand is {ours}, in the code {theirs}. They differ at {at}.")

    def __add__(self, other: "Terms") -> Self:
        if not isinstance(other, Terms):
            return NotImplemented
        return type(self)(**{kind: _merge(self.terms(kind), other.terms(kind)) for kind in self.kinds()})


class Derived(Protocol):
    """What has a formula of each kind: a `Cost`."""

    def formula(self, kind: str) -> Expr: ...


def _difference(apart: Expr) -> dict[str, int] | None:
    """Sizes at which two formulas are not the same, of some that are drawn; None where they are the same at all."""
    draw = random.Random(0)
    letters = sorted(apart.free_symbols, key=str)
    for most in (4, 20, 300):
        for _ in range(8):
            sizes = {letter: draw.randint(1, most) for letter in letters}
            if apart.subs(sizes) != 0:
                return {str(letter): size for letter, size in sizes.items()}
    return None


def _merge(ours: NamedTerms, theirs: NamedTerms) -> NamedTerms:
    return ours | {name: ours.get(name, sympify(0)) + term for name, term in theirs.items()}


def _whole(kind: str, total: Expr) -> int:
    if not total.is_integer:
        raise RecipeError(f"cost: {kind} is {total}, which is no whole number. Give sizes that divide evenly.")
    return int(total)
