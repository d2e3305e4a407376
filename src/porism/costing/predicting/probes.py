"""The small programs that are timed to learn what a device can do, a kind of work at a time.

They are single operators on a grid of sizes, powers of four in the main, and none of them is a layer.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from porism.costing.counting.kernels import POINTWISE_KINDS
from porism.costing.predicting.clock import Call, Timing, busy
from porism.costing.predicting.rates import Rates

aten = torch.ops.aten

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Probe:
    """A kind of work, a grid of sizes, and how to make a call of that size. `amount` is in the kind's own unit."""

    kind: str
    axes: tuple[Sizes, ...]
    build: Callable[..., Call]
    amount: Callable[..., int]
    saturates: bool = True
    """Whether a call that takes long runs at a rate that larger ones keep."""

    def points(self) -> Iterator[Sizes]:
        """All sizes of the grid, the last axis fastest."""
        yield from product(*self.axes)


@dataclass(frozen=True)
class ProbeBench:
    """Where the probes run: what tensors they get and which sizes suit the device."""

    device: torch.device
    dtype: torch.dtype

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @cached_property
    def _numbers(self) -> Tensor:
        return torch.randn(4**10, device=self.device).to(self.dtype)

    def tensor(self, *shape: int) -> Tensor:
        """Random numbers, since a GPU is faster on zeros; the same ones again and again, since drawing them is slow."""
        number = prod(shape)
        return self._numbers.repeat(-(-number // 4**10))[:number].clone().view(shape)

    def indices(self, number: int) -> Tensor:
        return torch.randint(number, (number,), device=self.device)

    def probes(self) -> list[Probe]:
        return [
            *self._products(),
            *self._convolutions(),
            *self._attention(),
            *self._recurrences(),
            *self._rows(),
            *self._memory(),
            *self._pointwise(),
        ]

    def _products(self) -> list[Probe]:
        one = (1, 4, 16, 64, 256, 1024, 4096) if self.on_gpu else (1, 4, 16, 64, 256, 1024)
        many = (16, 64, 256, 1024) if self.on_gpu else (16, 64, 256)
        batch = (4, 64, 1024) if self.on_gpu else (4, 64)

        def single(layout: str) -> Callable[..., Call]:
            def build(M: int, K: int, N: int) -> Call:
                left, right = self._factor(layout[0], M, K), self._factor(layout[1], K, N)
                return lambda: torch.mm(left, right)

            return build

        def batched(layout: str) -> Callable[..., Call]:
            def build(B: int, M: int, K: int, N: int) -> Call:
                left, right = self._factor(layout[0], B, M, K), self._factor(layout[1], B, K, N)
                return lambda: torch.bmm(left, right)

            return build

        def flops(*sizes: int) -> int:
            return 2 * prod(sizes)

        layouts = ("nn", "nt", "tn")
        return [
            *(Probe(f"product_{layout}", (one,) * 3, single(layout), flops) for layout in layouts),
            *(Probe(f"batched_{layout}", (batch, *(many,) * 3), batched(layout), flops) for layout in layouts),
        ]

    def _factor(self, layout: str, *shape: int) -> Tensor:
        *batch, rows, columns = shape
        return self.tensor(*shape) if layout == "n" else self.tensor(*batch, columns, rows).mT

    def _convolutions(self) -> list[Probe]:
        """3 x 3 on images of 16 by 16 points, four or more: a single image may go another way than a batch."""
        points = (1024, 8192, 65536) if self.on_gpu else (1024, 4096, 16384)
        channels = (4, 32, 256)

        def images(points: int, C: int) -> Tensor:
            return self.tensor(points // 256, C, 16, 16)

        def forward(points: int, C: int, C_out: int, groups: int = 1) -> Call:
            x, weight = images(points, C), self.tensor(C_out, C // groups, 3, 3)
            return lambda: torch.conv2d(x, weight, padding=1, groups=groups)

        def backward(points: int, C: int, C_out: int, groups: int = 1) -> Call:
            x, weight, dy = images(points, C), self.tensor(C_out, C // groups, 3, 3), images(points, C_out)
            one, output_mask = [1, 1], [True, True, True]
            return lambda: aten.convolution_backward(
                dy, x, weight, [C_out], one, one, one, False, [0, 0], groups, output_mask
            )

        dense, apart = (points, channels, channels), (points, (16, 128, 1024))
        return [
            Probe("convolution", dense, forward, lambda P, C, C_out: 18 * P * C * C_out),
            Probe("convolution_backward", dense, backward, lambda P, C, C_out: 36 * P * C * C_out),
            Probe("depthwise", apart, lambda P, C: forward(P, C, C, C), lambda P, C: 18 * P * C),
            Probe("depthwise_backward", apart, lambda P, C: backward(P, C, C, C), lambda P, C: 36 * P * C),
        ]

    def _attention(self) -> list[Probe]:
        axes = ((4, 64, 1024), (32, 256, 2048), (16, 64, 128)) if self.on_gpu else ((2, 16), (32, 128, 512), (16, 64))

        def forward(heads: int, T: int, D: int) -> Callable[[], Tensor]:
            query, key, value = (self.tensor(1, heads, T, D).requires_grad_() for _ in range(3))
            return lambda: functional.scaled_dot_product_attention(query, key, value)

        backward = _backward(lambda *sizes: forward(*sizes)())
        return [
            Probe("attention", axes, forward, lambda A, T, D: 4 * A * T * T * D),
            Probe("attention_backward", axes, backward, lambda A, T, D: 10 * A * T * T * D),
        ]

    def _recurrences(self) -> list[Probe]:
        """On inputs so narrow that the steps are what is timed. Without a GPU only the LSTM is one kernel."""
        gates = (1, 4) if self.on_gpu else (4,)
        rows, widths = ((1, 16, 128), (64, 256, 1024)) if self.on_gpu else ((1, 8, 64), (32, 128, 512))
        axes = (gates, (8, 64), rows, widths)

        def forward(gates: int, T: int, B: int, H: int) -> Callable[[], Tensor]:
            kind = torch.nn.LSTM if gates == 4 else torch.nn.RNN
            layer = kind(4, H, device=self.device, dtype=self.dtype)
            x = self.tensor(T, B, 4).requires_grad_()
            return lambda: layer(x)[0]

        def flops(gates: int, T: int, B: int, H: int) -> int:
            return 2 * T * gates * B * H * H

        # The steps of a GPU wait for each other, so that many of them take long without keeping it busy.
        saturates = not self.on_gpu
        backward = _backward(lambda *sizes: forward(*sizes)())
        return [
            Probe("recurrence", axes, forward, flops, saturates),
            Probe("recurrence_backward", axes, backward, flops, saturates),
        ]

    def _rows(self) -> list[Probe]:
        rows = (16, 256, 4096, 65536) if self.on_gpu else (16, 256, 4096)
        widths = (16, 128, 1024, 4096) if self.on_gpu else (16, 128, 1024)
        axes = (rows, widths)

        def norm(N: int, D: int) -> Call:
            x, weight, bias = self.tensor(N, D), self.tensor(D), self.tensor(D)
            return lambda: aten.native_layer_norm(x, [D], weight, bias, 1e-5)

        def norm_backward(N: int, D: int) -> Call:
            x, weight, bias, dy = self.tensor(N, D), self.tensor(D), self.tensor(D), self.tensor(N, D)
            _, mean, scale = aten.native_layer_norm(x, [D], weight, bias, 1e-5)
            output_mask = [True, True, True]
            return lambda: aten.native_layer_norm_backward(dy, x, [D], mean, scale, weight, bias, output_mask)

        def softmax(N: int, D: int) -> Call:
            x = self.tensor(N, D)
            return lambda: x.softmax(-1)

        def softmax_backward(N: int, D: int) -> Call:
            y, dy = self.tensor(N, D).softmax(-1), self.tensor(N, D)
            return lambda: aten._softmax_backward_data(dy, y, -1, self.dtype)

        def column_sum(N: int, D: int) -> Call:
            x = self.tensor(N, D)
            return lambda: x.sum(0)

        builders = {
            "norm": norm,
            "norm_backward": norm_backward,
            "softmax": softmax,
            "softmax_backward": softmax_backward,
            "column_sum": column_sum,
        }
        return [Probe(kind, axes, build, lambda N, D: N * D) for kind, build in builders.items()]

    def _memory(self) -> list[Probe]:
        largest = 15 if self.on_gpu else 13
        lengths = (tuple(4**power for power in range(6, largest + 1)),)
        rows = ((16, 256, 4096, 65536) if self.on_gpu else (16, 256, 4096), (16, 128, 1024))
        item = self.dtype.itemsize

        def copy(moved: int) -> Call:
            x = self.tensor(moved // (2 * item))
            return lambda: x.clone()

        def copy_strided(moved: int) -> Call:
            """As attention lays out its heads: T A D to A T D."""
            x = self.tensor(moved // (2 * item * 8 * 16), 8, 16).transpose(0, 1)
            return lambda: x.contiguous()

        def arithmetic(moved: int) -> Call:
            x, y = (self.tensor(moved // (3 * item)) for _ in range(2))
            return lambda: x + y

        def fill(moved: int) -> Call:
            return lambda: torch.zeros(moved // item, dtype=self.dtype, device=self.device)

        def gather(N: int, D: int) -> Call:
            table, indices = self.tensor(N, D), self.indices(N)
            return lambda: functional.embedding(indices, table)

        def scatter(N: int, D: int) -> Call:
            table, indices, rows = self.tensor(N, D), self.indices(N), self.tensor(N, D)
            return lambda: table.index_add_(0, indices, rows)

        def embedding_backward(N: int, D: int) -> Call:
            dy, indices = self.tensor(N, D), self.indices(N)
            return lambda: aten.embedding_dense_backward(dy, indices, N, -1, False)

        builders = {"copy": copy, "copy_strided": copy_strided, "arithmetic": arithmetic, "fill": fill}
        return [
            *(Probe(kind, lengths, build, lambda moved: moved) for kind, build in builders.items()),
            Probe("gather", rows, gather, lambda N, D: 2 * N * D * item + 8 * N),
            Probe("scatter", rows, scatter, lambda N, D: 3 * N * D * item),
            Probe("embedding_backward", rows, embedding_backward, lambda N, D: 3 * N * D * item),
        ]

    def _pointwise(self) -> list[Probe]:
        elements = ((4**5, 4**8, 4**11, 4**13) if self.on_gpu else (4**5, 4**7, 4**9, 4**11),)

        def apply(name: str) -> Callable[[int], Call]:
            operator = getattr(aten, name)

            def build(number: int) -> Call:
                x = self.tensor(number).abs_()
                others: tuple[Any, ...] = (self.tensor(number),) if name.endswith("_backward") else ()
                exponent: tuple[Any, ...] = (3,) if name == "pow" else ()
                return lambda: operator(x, *others, *exponent)

            return build

        def random(number: int) -> Call:
            x = self.tensor(number)
            return (lambda: torch.native_dropout(x, 0.5, True)) if self.on_gpu else (lambda: x.bernoulli_(0.5))

        builders = {**{name: apply(name) for name in POINTWISE_KINDS}, "random": random}
        return [Probe(kind, elements, build, lambda number: number) for kind, build in builders.items()]


def _backward(output: Callable[..., Tensor]) -> Callable[..., Call]:
    """The last node of what `output` makes, on its way back again and again, without autograd's engine around it."""

    def build(*sizes: int) -> Call:
        y = output(*sizes)
        node: Any = y.grad_fn
        gradients: list[Tensor | None] = [None] * len(node._input_metadata)
        gradients[y.output_nr] = torch.ones_like(y)
        # As in the engine: a node that could be differentiated again may take a slower way.
        return torch.no_grad()(lambda: node(*gradients))

    return build


BUDGET = {"cpu": 0.004, "cuda": 0.002}
"""Seconds of timing at each point of a grid."""

LONG_ENOUGH = {"cpu": 0.008, "cuda": 0.001}
"""Seconds of one call from which on a larger one would run at the same rate, and need not be timed."""


def survey(probes: Iterable[Probe], device: torch.device, patience: float) -> tuple[dict[str, Rates], float]:
    """The rates of every probe's kind, and the share of points that were never undisturbed."""
    grids = [_Grid(probe, device) for probe in probes]
    end = time.perf_counter() + patience
    for grid in grids:
        grid.go_over()
    while any(grid.disturbed for grid in grids) and time.perf_counter() < end:
        time.sleep(0.05)
        for grid in grids:
            if time.perf_counter() < end:
                grid.go_over()
    points = sum(len(grid.timings) for grid in grids)
    return {grid.probe.kind: grid.rates() for grid in grids}, sum(len(grid.disturbed) for grid in grids) / points


class _Grid:
    """A probe and what is known of its points."""

    def __init__(self, probe: Probe, device: torch.device) -> None:
        self.probe = probe
        self.device = device
        self.timings: dict[Sizes, Timing] = {}
        self.hosts: dict[Sizes, float] = {}

    @property
    def disturbed(self) -> list[Sizes]:
        return [sizes for sizes, timing in self.timings.items() if timing.disturbed]

    def go_over(self) -> None:
        """Time each point that is not known well: not at all, or not undisturbed."""
        for sizes in self.probe.points():
            before = self.timings.get(sizes)
            if before is None or before.disturbed:
                found, host = self._from_neighbour(sizes) or self._timed(sizes)
                if before is None or not found.disturbed or found.low < before.low:
                    self.timings[sizes], self.hosts[sizes] = found, host

    def _timed(self, sizes: Sizes) -> tuple[Timing, float]:
        return busy(self.probe.build(*sizes), self.device, BUDGET[self.device.type])

    def _from_neighbour(self, sizes: Sizes) -> tuple[Timing, float] | None:
        """The time at the rate of a smaller neighbour, if that takes long enough already."""
        if not self.probe.saturates:
            return None
        smaller = _one_smaller(self.probe.axes, sizes)
        neighbour = self.timings.get(smaller)
        if neighbour is None or neighbour.disturbed or neighbour.low < LONG_ENOUGH[self.device.type]:
            return None
        times = self.probe.amount(*sizes) / self.probe.amount(*smaller)
        longer = replace(
            neighbour, median=times * neighbour.median, low=times * neighbour.low, high=times * neighbour.high
        )
        return longer, self.hosts[smaller]

    def rates(self) -> Rates:
        per_unit = tuple(self.timings[sizes].low / self.probe.amount(*sizes) for sizes in self.probe.points())
        least = self.timings[next(self.probe.points())].low
        # A CPU is its own host: what a call takes there however small is all that is not work.
        hosts = tuple(self.hosts[sizes] if self.device.type == "cuda" else least for sizes in self.probe.points())
        return Rates(self.probe.axes, per_unit, hosts, least)


def _one_smaller(axes: tuple[Sizes, ...], sizes: Sizes) -> Sizes:
    """The neighbour of a point one step down its highest axis; the first point is its own."""
    positions = [axis.index(size) for axis, size in zip(axes, sizes, strict=True)]
    highest = positions.index(max(positions))
    positions[highest] = max(0, positions[highest] - 1)
    return tuple(axis[position] for axis, position in zip(axes, positions, strict=True))
