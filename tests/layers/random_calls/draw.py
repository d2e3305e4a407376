"""Random choices, all from one seed: sizes, numbers, dtypes, and the layouts in which a tensor may lie in memory."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Choice = TypeVar("Choice")
View = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Operand:
    """A float64 leaf, and the view of it that a layer is given."""

    leaf: Tensor
    layout: str
    view: View


DTYPES = {torch.float64: 60, torch.float32: 24, torch.bfloat16: 8, torch.float16: 8}
"""How often each is drawn, in a hundred."""


class Draw:
    """Numbers are drawn on the CPU, so that a seed is the same call everywhere, and lie on the device."""

    def __init__(self, seed: int, dtypes: Mapping[torch.dtype, int] = DTYPES, device: str = "cpu") -> None:
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.dtypes, self.device = dtypes, device

    def one_of(self, *choices: Choice) -> Choice:
        return self.random.choice(choices)

    def happens(self, share: float) -> bool:
        return self.random.random() < share

    def whole(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(self.device)

    def indices(self, size: int, *shape: int) -> Tensor:
        return torch.randint(size, shape, generator=self.generator).to(self.device)

    def bools(self, share: float, *shape: int) -> Tensor:
        return (torch.rand(shape, generator=self.generator) < share).to(self.device)

    def dtype(self) -> torch.dtype:
        return self.random.choices(list(self.dtypes), weights=list(self.dtypes.values()))[0]

    def operand(self, shape: Sequence[int], dtype: torch.dtype, size: float = 1.0) -> Operand:
        """Numbers of a dtype in one of ten layouts."""
        layouts = _layouts(tuple(shape), self, dtype)
        name = self.random.choice(sorted(layouts))
        leaf_shape, view = layouts[name]
        leaf = (self.normal(*leaf_shape) * size).to(dtype).double()
        return Operand(leaf, name, view)


def _layouts(shape: tuple[int, ...], draw: Draw, dtype: torch.dtype) -> dict[str, tuple[tuple[int, ...], View]]:
    """For each layout the shape of the leaf, and the view that has the asked shape."""
    found: dict[str, tuple[tuple[int, ...], View]] = {"contiguous": (shape, lambda x: x)}
    if not shape:
        return found
    found["stepped"] = (*shape[:-1], 2 * shape[-1]), lambda x: x[..., ::2]
    found["sliced"] = tuple(size + 1 for size in shape), lambda x: x[(slice(1, None),) * x.dim()]
    place = draw.whole(0, len(shape) - 1)
    found["expanded"] = tuple(1 if at == place else size for at, size in enumerate(shape)), lambda x: x.expand(shape)
    found["expanded along the width"] = (*shape[:-1], 1), lambda x: x.expand(shape)
    if dtype in (torch.float32, torch.float64):
        found["negated"] = shape, _negated
    if len(shape) > 1:
        found["transposed"] = (*shape[:-2], shape[-1], shape[-2]), lambda x: x.mT
        found["stepped in length"] = (*shape[:-2], 2 * shape[-2], shape[-1]), lambda x: x[..., ::2, :]
        order = list(range(len(shape)))
        draw.random.shuffle(order)
        found["permuted"] = tuple(shape[at] for at in order), _permuted(order)
    if len(shape) == 4:
        found["channels last"] = shape, lambda x: x.contiguous(memory_format=torch.channels_last)
    return found


def _permuted(order: list[int]) -> View:
    back = [order.index(at) for at in range(len(order))]
    return lambda x: x.permute(back)


def _negated(x: Tensor) -> Tensor:
    """x as a view whose memory holds -x: the imaginary part of a conjugate."""
    return torch.complex(torch.zeros_like(x), -x).conj().imag


def spoiled(draw: Draw, x: Tensor) -> tuple[str, Any]:
    """An operand that no layer can take, and what is wrong with it."""
    other = torch.float32 if x.dtype == torch.float64 else torch.float64
    spoilers: dict[str, Callable[[], Any]] = {
        "whole numbers": lambda: x.detach().long(),
        "bools": lambda: x.detach() > 0,
        "complex": lambda: x.detach().to(torch.complex64),
        "on meta": lambda: x.detach().to("meta"),
        "another dtype": lambda: x.to(other),
        "one dimension more": lambda: x.unsqueeze(0).unsqueeze(0),
        "no tensor": lambda: x.detach().resolve_neg().double().cpu().numpy(),
        "sparse": lambda: x.detach().to_sparse(),
    }
    name = draw.random.choice(sorted(spoilers))
    return name, spoilers[name]()
