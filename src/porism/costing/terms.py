"""Costs derived by hand: named terms of parameters, FLOPs and saved elements, each a formula in the alphabet."""

from dataclasses import dataclass, field, fields
from typing import Self

from sympy import Expr, sympify

from porism.costing.alphabet import ALPHABET, SYMBOLS, factored
from porism.errors import RecipeError

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
        """The total of every kind with numbers for the letters. A letter that no term needs changes nothing."""
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

    def __add__(self, other: "Terms") -> Self:
        if not isinstance(other, Terms):
            return NotImplemented
        return type(self)(**{kind: _merge(self.terms(kind), other.terms(kind)) for kind in self.kinds()})


def _merge(ours: NamedTerms, theirs: NamedTerms) -> NamedTerms:
    return ours | {name: ours.get(name, sympify(0)) + term for name, term in theirs.items()}


def _whole(kind: str, total: Expr) -> int:
    if not total.is_integer:
        raise RecipeError(f"cost: {kind} is {total}, which is no whole number. Give sizes that divide evenly.")
    return int(total)
