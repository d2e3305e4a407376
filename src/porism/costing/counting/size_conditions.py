"""Which conditions on sizes a run depends on: what code compares sizes with, divides them by, or cuts tensors at.

Sizes are handed to the code as whole numbers that note what is asked of them, and are whole numbers in all else.
"""

import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

Sizes = Mapping[str, int]

LONGEST_TEXT = 60
"""An expression that is longer is followed no further."""
UNOBSERVED = ("torch.", "porism.")
"""Packages whose own questions about sizes are not noted: their layers have been held against counts at all sizes."""
MOST_OPERATORS = 3_000
"""Operators of a run after which it is followed no further: a deep stack repeats itself."""

aten = torch.ops.aten


@dataclass(frozen=True)
class SizeCondition:
    """Something that a run asked of sizes: whether one is larger than another, what is left when it is divided.

    >>> found = SizeCondition("T > 48", frozenset("T"), lambda sizes: sizes["T"] > 48)
    >>> list(found.changes({"B": 3, "T": 11}, 4096))
    [('T', 49)]
    """

    text: str
    letters: frozenset[str]
    at: Callable[[Sizes], int]

    def changes(self, base: Sizes, largest: int, steps: Sizes | None = None) -> Iterator[tuple[str, int]]:
        """The nearest size of each letter, above and below its base, at which the answer is another one."""
        answer = self.at(base)
        for letter in sorted(self.letters):
            step = (steps or {}).get(letter, 1)
            for sizes in (range(base[letter], largest + 1, step), range(base[letter], 0, -step)):
                found = next((size for size in sizes if self._answer(base, letter, size) not in (answer, None)), None)
                if found is not None:
                    yield letter, found

    def _answer(self, base: Sizes, letter: str, size: int) -> int | None:
        try:
            return self.at({**base, letter: size})
        except ArithmeticError:
            return None


class _Notes:
    """The conditions of one run, each once, and the expression that a number stands for."""

    def __init__(self, sizes: Sizes) -> None:
        self.found: dict[str, SizeCondition] = {}
        self._known: dict[int, ObservedSize | None] = {}
        for letter, size in sizes.items():
            self._name(size, ObservedSize(size, letter, frozenset((letter,)), operator.itemgetter(letter), self))
        for one, other in combinations([size for size in self._known.values() if size is not None], 2):
            both: Any = one * other
            self._name(int(both), both)

    def _name(self, number: int, meaning: "ObservedSize | None") -> None:
        # A number that two expressions have stands for neither.
        self._known[number] = None if number in self._known else meaning

    def observed(self, number: int) -> int:
        """A number as the size of which it is, where that is known."""
        meaning = self._known.get(number)
        return number if meaning is None else meaning

    def note_cut(self, size: int, at: int) -> None:
        """That something is cut at a length which it has not: a longer one would be cut."""
        known = self.observed(size)
        if isinstance(known, ObservedSize) and size < at:
            self.note(*_joined("{} > {}", operator.gt, known, int(at)))

    def note(self, text: str, letters: frozenset[str], at: Callable[[Sizes], int]) -> None:
        self.found.setdefault(text, SizeCondition(text, letters, at))


class ObservedSize(int):
    """A whole number that knows of which letters it is computed, and notes what it is compared with."""

    text: str
    letters: frozenset[str]
    at: Callable[[Sizes], int]
    notes: _Notes

    def __new__(
        cls, value: int, text: str, letters: frozenset[str], at: Callable[[Sizes], int], notes: _Notes
    ) -> "ObservedSize":
        made = super().__new__(cls, value)
        made.text, made.letters, made.at, made.notes = text, letters, at, notes
        return made

    def __deepcopy__(self, memo: Any) -> "ObservedSize":
        return self

    def __copy__(self) -> "ObservedSize":
        return self

    def __reduce__(self) -> Any:
        return int, (int(self),)

    def __hash__(self) -> int:
        # Not that of a whole number: what a cache keeps for this one must not be handed out for others.
        return hash(("observed", int(self)))

    def __neg__(self) -> "ObservedSize":
        return ObservedSize(-int(self), f"-{self.text}", self.letters, lambda at: -self.at(at), self.notes)

    def __bool__(self) -> bool:
        return bool(self._ask("{} != 0", operator.ne, 0))

    def __truediv__(self, other: Any) -> Any:
        if type(other) is int and other > 1:  # what follows is mostly rounded
            self._ask("ceil({} / {})", lambda a, b: -(-a // b), other)
        return int(self) / other

    def bit_length(self) -> int:
        return int(self._ask("{}.bit_length()", lambda a, _: a.bit_length(), 0))

    def _ask(self, form: str, ask: Callable[[Any, Any], Any], other: Any, reverse: bool = False) -> Any:
        """What is asked of this and another number: noted, and answered."""
        if not _is_unobserved(sys._getframe(2)):
            text, letters, at = _joined(form, ask, *((other, self) if reverse else (self, other)))
            self.notes.note(text, letters, at)
        return ask(int(self), int(other))


def _is_unobserved(frame: Any) -> bool:
    return f"{frame.f_globals.get('__name__', '')}.".startswith(UNOBSERVED)


def _joined(form: str, combine: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """The text of two numbers joined, their letters, and their value at other sizes."""

    def value(one: Any, at: Sizes) -> int:
        return one.at(at) if isinstance(one, ObservedSize) else int(one)

    texts = [one.text if isinstance(one, ObservedSize) else str(one) for one in (a, b)]
    letters = frozenset[str]().union(*(one.letters for one in (a, b) if isinstance(one, ObservedSize)))
    return form.format(*texts), letters, lambda at: combine(value(a, at), value(b, at))


def _arithmetic(sign: str, combine: Callable[[Any, Any], Any], reverse: bool) -> Callable[[ObservedSize, Any], Any]:
    def compute(self: ObservedSize, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        pair = (other, self) if reverse else (self, other)
        result = combine(int(pair[0]), int(pair[1]))
        text, letters, at = _joined(f"{{}} {sign} {{}}", combine, *pair)
        if len(text) > LONGEST_TEXT or type(result) is not int:
            return result
        if sign in ("%", "//") and type(other) is int and not reverse and not _is_unobserved(sys._getframe(1)):
            self.notes.note(*_joined("{} % {} == 0", lambda a, b: a % b == 0, *pair))
        grouped = text if sign in ("*", "//", "%") else f"({text})"
        return ObservedSize(result, grouped, letters, at, self.notes)

    return compute


def _comparison(sign: str, compare: Callable[[Any, Any], Any]) -> Callable[[ObservedSize, Any], Any]:
    def ask(self: ObservedSize, other: Any) -> Any:
        return self._ask(f"{{}} {sign} {{}}", compare, other) if isinstance(other, int) else NotImplemented

    return ask


for _name, _sign, _combine in (
    *(("add", "+", operator.add), ("sub", "-", operator.sub), ("mul", "*", operator.mul)),
    *(("floordiv", "//", operator.floordiv), ("mod", "%", operator.mod), ("and", "&", operator.and_)),
    *(("rshift", ">>", operator.rshift), ("lshift", "<<", operator.lshift), ("pow", "**", operator.pow)),
):
    setattr(ObservedSize, f"__{_name}__", _arithmetic(_sign, _combine, reverse=False))
    setattr(ObservedSize, f"__r{_name}__", _arithmetic(_sign, _combine, reverse=True))
for _name, _sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    setattr(ObservedSize, f"__{_name}__", _comparison(_sign, getattr(operator, _name)))


class Enough(Exception):
    """A run was followed far enough."""


class _Operators(TorchDispatchMode):
    """Notes where tensors are split into parts that are longer than they are: longer ones would be cut.

    A condition on numbers that are not known is supposed to hold, or not to; any other such number is supposed to be 1.
    What the code asks of sizes after it is noted too that way.
    """

    def __init__(self, notes: _Notes, holds: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._notes = notes
        self._holds = holds
        self._operators = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # What C++ asks of a tensor, such as its device, comes here too: an exception from there ends the process.
        if getattr(func, "namespace", "") != "prim":
            self._operators += 1
            if self._operators > MOST_OPERATORS:
                raise Enough
        if func in (aten.split.Tensor, aten.unsafe_split.Tensor):
            self._notes.note_cut(args[0].size((*args, 0)[2]), args[1])
        try:
            return func(*args, **(kwargs or {}))
        except DataDependentOutputException:
            if func is not aten._local_scalar_dense.default:
                raise
            return self._holds if args[0].dtype is torch.bool else 1


@contextmanager
def observed_sizes(sizes: Sizes, holds: bool = True) -> Iterator[tuple[dict[str, int], dict[str, SizeCondition]]]:
    """Inside, shapes of fake tensors note what is asked of them; yields sizes that do so too, and the conditions.

    holds: the answer to conditions on numbers that are not known.
    """
    notes = _Notes(sizes)
    shape: Any = FakeTensor.shape
    size: Any = FakeTensor.size
    item: Any = FakeTensor.__getitem__

    def observed_shape(tensor: FakeTensor) -> Any:
        plain = shape.__get__(tensor)
        return plain if _is_unobserved(sys._getframe(1)) else torch.Size([notes.observed(number) for number in plain])

    def observed_size(tensor: FakeTensor, *dim: Any, **named: Any) -> Any:
        plain = size(tensor, *dim, **named)
        if _is_unobserved(sys._getframe(1)):
            return plain
        return notes.observed(plain) if isinstance(plain, int) else torch.Size([notes.observed(x) for x in plain])

    def observed_item(tensor: FakeTensor, index: Any) -> Any:
        if not _is_unobserved(sys._getframe(1)):
            for dim, part in enumerate(index if isinstance(index, tuple) else (index,)):
                if not isinstance(part, slice | int):
                    break  # what comes after it belongs to another dimension
                if isinstance(part, slice) and isinstance(part.stop, int) and dim < tensor.dim():
                    notes.note_cut(size(tensor, dim), part.stop)
        return item(tensor, index)

    FakeTensor.__getitem__ = observed_item  # type: ignore[assignment, method-assign]
    FakeTensor.shape, FakeTensor.size = property(observed_shape), observed_size  # type: ignore[assignment, method-assign]
    try:
        with _Operators(notes, holds):
            yield {letter: notes.observed(number) for letter, number in sizes.items()}, notes.found
    finally:
        del FakeTensor.shape, FakeTensor.size, FakeTensor.__getitem__  # those of Tensor come back
