"""The checks that every layer and functional form makes of its operands, before a kernel is called.

Kernels are called below torch's own guards: with operands of another device, dtype, layout or range they would read
memory that is not theirs and answer without a word.
"""

from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

MOST = 2**31 - 1
"""The largest size, window or offset: sums and products of two of them stay within 64 bits."""


FEW = 64
"""Up to so many numbers Python's own list is faster than an operation of torch's."""


def check_operands(layer: str, **operands: Tensor | None) -> None:
    """Refuses operands that are not dense tensors of one real floating dtype on one device; None is left out.

    Under autocast the dtypes may differ, unless one is float64, which autocast leaves alone.
    """
    first_name, first, mixed = "", None, ""
    for name, x in operands.items():
        if x is None:
            continue
        if not isinstance(x, Tensor):
            raise ShapeError(
                f"{layer}: {name} is a {type(x).__name__}, expected a tensor. Use torch.as_tensor({name})."
            )
        if x.layout is not torch.strided or x.is_nested:
            raise ShapeError(f"{layer}: {name} is {_layout(x)}, expected a dense tensor. Convert it with .to_dense().")
        if x.dtype not in FLOATS:
            kinds = ", ".join(str(dtype).removeprefix("torch.") for dtype in FLOATS)
            raise ShapeError(f"{layer}: {name} is {x.dtype}, expected one of {kinds}. Convert it with {name}.float().")
        if first is None:
            first_name, first = name, x
            continue
        if x.device != first.device:
            raise ShapeError(
                f"{layer}: {name} is on {x.device}, {first_name} on {first.device}, expected one device. "
                f"Move it with {name}.to({str(first.device)!r})."
            )
        if x.dtype is not first.dtype and not mixed:
            mixed = name
    if mixed and autocast_dtype(*(x for x in operands.values() if x is not None)) is None:
        one, other = operands[first_name], operands[mixed]
        assert one is not None
        assert other is not None
        raise ShapeError(
            f"{layer}: {first_name} is {one.dtype}, {mixed} is {other.dtype}, expected one type. "
            f"Convert {first_name} with {first_name}.to({other.dtype})."
        )


def recordable(x: Tensor) -> Tensor:
    """x, or a copy of what was made in inference mode, which autograd does not keep."""
    if torch.compiler.is_compiling() or not x.is_inference() or torch.is_inference_mode_enabled():
        return x
    return x.clone()


def check_indices(layer: str, name: str, indices: Tensor, size: int, like: Tensor | None = None) -> None:
    """Refuses indices that are not whole numbers from 0 to size - 1, or not on the device of `like`.

    On a CPU they are looked at now. Under the compiler and on a GPU the check runs with the kernels: there it raises
    torch's RuntimeError, or stops the device as torch's own indexing does, and nobody waits for it.
    """
    if not isinstance(indices, Tensor):
        raise ShapeError(f"{layer}: {name} are a {type(indices).__name__}, expected a tensor of whole numbers.")
    if indices.layout != torch.strided or indices.is_nested:
        raise ShapeError(f"{layer}: {name} are {_layout(indices)}, expected a dense tensor. Use .to_dense().")
    if indices.dtype not in INTEGERS:
        raise ShapeError(f"{layer}: {name} are {indices.dtype}, expected whole numbers. Convert with {name}.long().")
    if like is not None and indices.device != like.device:
        raise ShapeError(
            f"{layer}: {name} are on {indices.device}, expected {like.device}. "
            f"Move them with {name}.to({str(like.device)!r})."
        )
    if indices.numel() == 0:
        return
    if has_values(indices):
        least, most = _range(indices)
        if least < 0 or most >= size:
            raise ShapeError(
                f"{layer}: {name} run from {least} to {most}, expected 0 to {size - 1}. "
                "Number them by the layer's own vocabulary."
            )
    elif torch.compiler.is_compiling() or not _is_hollow(indices):
        # As int64: beside int8 torch would take 300 for 44.
        wide = indices.long()
        inside = ((wide >= 0) & (wide < size)).all()
        torch._assert_async(inside, f"{layer}: {name} are out of range, expected 0 to {size - 1}.")


def _range(indices: Tensor) -> tuple[int, int]:
    if indices.numel() > FEW:
        least, most = torch.aminmax(indices)
        return int(least), int(most)
    numbers = (indices if indices.dim() == 1 else indices.flatten()).tolist()
    return min(numbers), max(numbers)


def has_values(x: Tensor) -> bool:
    """Whether the numbers of x can be looked at now without waiting for a device."""
    return x.is_cpu and is_plain(x)


def is_plain(x: Tensor) -> bool:
    """Whether x has numbers, on any device: outside of compiled code, of transforms, and of fake and meta tensors."""
    return not torch.compiler.is_compiling() and not _is_hollow(x)


def readable(x: Tensor) -> Tensor:
    """x with its last dimension dense in memory, as kernels read it; x itself where it is so already."""
    if not torch.compiler.is_compiling() and x.is_neg():
        x = x.resolve_neg()
    return x if x.is_contiguous() or x.stride(-1) == 1 else x.contiguous()


def check_whole(layer: str, name: str, value: Any, least: int = 1, most: int = MOST) -> None:
    """Refuses what is not a whole number in a range. A bool is none, nor is a tensor."""
    # The type first: the question whether it is a number of any kind takes longer than all else here.
    whole = type(value) is int or (isinstance(value, (Integral, torch.SymInt)) and not isinstance(value, bool))
    if not whole or not least <= value <= most:
        too_large = whole and value > most
        expected = f"from {least} to {most}" if too_large or most != MOST else f"from {least} on"
        raise ShapeError(f"{layer}: {name} is {_short(value)}. Give a whole number {expected}.")


def check_dropout(layer: str, name: str, value: Any) -> None:
    """Refuses what is not the probability of dropping a weight. A bool is none, as in torch."""
    number = type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))
    if not number or not 0 <= value < 1:
        raise ShapeError(f"{layer}: {name} is {_short(value)}. Give the probability of dropping, from 0 to below 1.")


def is_transformed(*operands: Tensor | None) -> bool:
    """Whether a transform of torch.func, such as vmap or grad, has wrapped one of them. Compiled code knows none."""
    if torch.compiler.is_compiling():
        return False
    return any(x is not None and torch._C._functorch.is_functorch_wrapped_tensor(x) for x in operands)


def _is_hollow(x: Tensor) -> bool:
    """Whether x stands for numbers that are not there: while operations are counted, traced or vectorised."""
    return x.is_meta or isinstance(x, FakeTensor) or torch._C._functorch.is_functorch_wrapped_tensor(x)


def _layout(x: Tensor) -> str:
    return "nested" if x.is_nested else str(x.layout)


def _short(value: Any) -> str:
    """A value for a message: of a tensor what it is, not all its numbers."""
    return f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
