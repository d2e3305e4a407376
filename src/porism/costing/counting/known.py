"""Numbers of fake tensors that are known all the same: they follow from constants, or from integers that go in.

A fake tensor holds no numbers, and yet `torch.arange(T)` can only be one thing, and the words of a text can be drawn as
they are for a real run. Each tensor that comes of these alone remembers the call that made it; the call is run when
code asks for its numbers, and not before.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map_only

from porism.costing.counting.arguments import tensors_in

aten = torch.ops.aten

MOST_ELEMENTS = 2**24
MOST_KEPT = 2**16
"""Elements up to which numbers are kept with their tensor: an index that picks from many tensors is asked for often."""
MOST_CALLS = 100
"""In a row, after which numbers are followed no further: a loop may go on for thousands of steps."""
SORTS = frozenset({aten.sort.default, aten.sort.stable})
"""They give two tensors, both of which are followed: FlexAttention lists the blocks of a mask by them."""
UNWRITTEN = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})


class _Origin(NamedTuple):
    """The call that made a tensor. `versions` tell whether one of its tensors was written to since."""

    operator: Any
    """Or what gives one of its tensors."""
    args: Any
    kwargs: Any
    versions: tuple[int, ...]
    is_drawn: bool
    """Whether the numbers follow from inputs, so that others may go in."""
    is_bounded: bool
    """Whether they are rows of a table as a run has them: not where 0 and 1 stand for integers without a bound."""
    depth: int
    """Calls, one after the other, that its numbers take."""


def draw(tensor: Tensor, make: Callable[[], Tensor], is_bounded: bool) -> None:
    """Give an input its numbers."""
    if type(tensor) is FakeTensor:
        versions = (tensor._version,)
        tensor.porism_origin = _Origin(make, (), {}, versions, is_drawn=True, is_bounded=is_bounded, depth=1)  # type: ignore[attr-defined]


def is_drawn(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor follow from inputs."""
    origin: _Origin | None = getattr(tensor, "porism_origin", None)
    return origin is not None and origin.is_drawn


def may_be_remembered(operator: Any) -> bool:
    """Whether calls of an operator are to be passed to `remember`."""
    return operator in SORTS or _is_decided(operator)


def remember(out: Any, operator: Any, args: Any, kwargs: Any) -> None:
    """Keep the call that made a tensor, if all that went in is known."""
    for value in args:
        if type(value) is FakeTensor and "porism_origin" not in value.__dict__:
            return  # the numbers of most tensors are not known
    if operator in SORTS and isinstance(out, tuple):
        for place, part in enumerate(out):
            _remember(part, partial(_part, operator, place), args, kwargs)
    elif type(out) is FakeTensor:
        _remember(out, operator, args, kwargs)


def _part(operator: Any, place: int, *args: Any, **kwargs: Any) -> Tensor:
    found: Tensor = operator(*args, **kwargs)[place]
    return found


def _remember(out: Tensor, operator: Any, args: Any, kwargs: Any) -> None:
    tensors = tensors_in((args, kwargs))
    depth = 1 + max((_depth(tensor) for tensor in tensors), default=0)
    if depth <= MOST_CALLS and all(_is_known(tensor) for tensor in tensors):
        versions = tuple(tensor._version for tensor in (*tensors, out))
        drawn, bounded = any(map(is_drawn, tensors)), all(map(_is_bounded, tensors))
        out.porism_origin = _Origin(operator, args, kwargs, versions, drawn, bounded, depth)  # type: ignore[attr-defined]


def _is_decided(operator: Any) -> bool:
    """Whether what goes into an operator decides the numbers that come out."""
    if not isinstance(operator, OpOverload) or operator.namespace != "aten" or operator._opname in UNWRITTEN:
        return False
    return not operator._schema.is_mutable and torch.Tag.nondeterministic_seeded not in operator.tags


def _is_known(tensor: Tensor) -> bool:
    return type(tensor) is not FakeTensor or hasattr(tensor, "porism_origin")


def _is_bounded(tensor: Tensor) -> bool:
    origin: _Origin | None = getattr(tensor, "porism_origin", None)
    return origin is None or origin.is_bounded


def _depth(tensor: Tensor) -> int:
    origin: _Origin | None = getattr(tensor, "porism_origin", None)
    return 0 if origin is None else origin.depth


Found = dict[int, Tensor | None]
"""Numbers of tensors by their id, so that what several calls read is computed once."""


def numbers_of(tensor: Tensor, found: Found | None = None) -> Tensor | None:
    """The numbers of a tensor on the CPU; None where they are not known. No mode may be active.

    found: one for tensors that are asked for together and come of the same calls, while nobody writes into them.
    """
    return _numbers_of(tensor, {} if found is None else found)


def _numbers_of(tensor: Tensor, found: Found) -> Tensor | None:
    if id(tensor) not in found:
        found[id(tensor)] = tensor if type(tensor) is not FakeTensor else _computed(tensor, found)
    return found[id(tensor)]


def _computed(tensor: Tensor, found: Found) -> Tensor | None:
    origin: _Origin | None = getattr(tensor, "porism_origin", None)
    if origin is None or tensor.numel() > MOST_ELEMENTS:
        return None
    tensors = tensors_in((origin.args, origin.kwargs))
    if origin.versions != tuple(leaf._version for leaf in (*tensors, tensor)):
        return None
    numbers = {id(leaf): _numbers_of(leaf, found) for leaf in tensors}
    if any(number is None for number in numbers.values()):
        return None
    if (kept := tensor.__dict__.get("porism_numbers")) is not None:
        return cast(Tensor, kept)
    args, kwargs = tree_map_only(Tensor, lambda leaf: numbers[id(leaf)], (origin.args, origin.kwargs))
    if "device" in kwargs:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    made = origin.operator(*args, **kwargs)
    if not isinstance(made, Tensor):
        return None
    if not origin.is_drawn and made.numel() <= MOST_KEPT:
        tensor.porism_numbers = made  # type: ignore[attr-defined]
    return made


PICKING = frozenset({aten.embedding.default, aten.index_select.default, aten.index.Tensor})
"""Operators that pick rows, which must be there."""
READERS = frozenset({aten._local_scalar_dense.default, aten.equal.default}) | PICKING
"""Operators that look at numbers."""


def answer(operator: Any, args: Any) -> Any:
    """What an operator gives that reads numbers, where they are known; None elsewhere."""
    if operator in PICKING:
        for size, indices, least in _picked(operator, *args):
            check_rows(size, indices, least)
        return None
    if operator is aten._local_scalar_dense.default:
        numbers = numbers_of(args[0])
        return None if numbers is None else numbers.item()
    if operator is aten.equal.default:
        first, second = (numbers_of(tensor) for tensor in args[:2])
        return None if first is None or second is None else torch.equal(first, second)
    return None


def _picked(operator: Any, table: Tensor, *args: Any) -> Iterator[tuple[int, Tensor, int]]:
    """Each size that an operator picks from, the indices, and the least index that it takes."""
    if operator is aten.embedding.default:
        yield table.shape[0], args[0], 0
    elif operator is aten.index_select.default:
        yield table.shape[args[0]], args[1], 0
    else:
        for size, indices in zip(table.shape, args[0], strict=False):
            if indices is not None and indices.dtype in (torch.int64, torch.int32):
                yield size, indices, -size
            elif indices is not None:
                return  # a mask stands for several dimensions


def check_rows(size: int, indices: Tensor, least: int = 0) -> None:
    """A row beyond the end of a table is an error on real tensors, and so it is here where the rows are known."""
    rows = numbers_of(indices) if _is_bounded(indices) else None
    if rows is not None and rows.numel() and not least <= int(rows.min()) <= int(rows.max()) < size:
        raise IndexError(f"index out of range: rows {int(rows.min())} to {int(rows.max())} of {size}")
