"""Random calls of the series and of the hybrid equal the oracle in float64, forward and backward, however operands lie.

Layouts, patterns, offsets, windows, scales, padding and sizes are drawn from a seed. The GPU's kernels are put through
the same: without a GPU Triton's interpreter runs them.
"""

import random
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from tests.layers.closeness import attention_errors
from tests.layers.layouts import LAYOUTS
from torch import Tensor

from porism.layers import hybrid_attention, kernels, taylor_attention
from porism.layers.attention.hybrid import naive as hybrid_naive
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.taylor import naive as taylor_naive
from porism.layers.attention.taylor.kernels.triton.sizes import SeriesLaunch, Sizes

FUNCTIONS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "taylor": (taylor_attention, taylor_naive.taylor_attention),
    "hybrid": (hybrid_attention, hybrid_naive.hybrid_attention),
}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TILES = SeriesLaunch(32, 16, 64, 4, 1)
SMALL = Sizes(SeriesLaunch(16, 1, 64, 4, 1), TILES, TILES, TILES)


class Draw:
    """The settings and sizes of a call."""

    def __init__(self, name: str, seed: int) -> None:
        self._choice = random.Random(seed).choice
        torch.manual_seed(seed)
        patterns = [Pattern(), Pattern("causal"), Pattern("causal")]
        self.options: dict[str, Any] = {
            "pattern": self._choice(patterns + [Pattern("block-causal", window_size=3)] * (name == "taylor")),
            "offset": self._choice([0, 0, 0, 1, -3, 9, 50]),
            "scale": self._choice([None, 0.5, 2.0, -0.5, 0.0]),
            "order": self._choice([2, 2, 4]),
        }
        if name == "hybrid":
            self.options["window_size"] = self._choice([1, 2, 5, 30, 1000])
        self.B, self.G, self.shared = self._choice([1, 2]), self._choice([1, 2]), self._choice([1, 2])
        self.T = self._choice([1, 2, 7, 40, 300])
        self.S = self.T if self._choice([True, True, False]) else self._choice([1, 3, 33])
        self.D, self.H = self._choice([1, 2, 3, 8]), self._choice([1, 2, 7])

    def for_kernels(self) -> "Draw":
        """Sizes and settings that kernels serve."""
        self.T, self.D = min(self.T, 40), 8
        if "window_size" in self.options or self.options["pattern"].kind != "full":
            self.options["pattern"], self.S = Pattern("causal"), self.T
        self.S = min(self.S, 40)
        self.options |= {"offset": 0, "order": 2}
        return self

    def padding(self) -> Tensor | None:
        part = self._choice([None, None, 0.2, 0.9, 1.0])
        return None if part is None else torch.rand(self.B, self.S) < part

    def operands(self) -> tuple[list[Tensor], list[Tensor]]:
        """Leaves in float64 with numbers that float32 has too, and how they lie."""
        A = self.G * self.shared
        sizes = (self.B, A, self.T, self.D), (self.B, self.G, self.S, self.D), (self.B, self.G, self.S, self.H)
        leaves = [torch.randn(size).double().requires_grad_() for size in sizes]
        return leaves, [self.layout()(leaf) for leaf in leaves]

    def layout(self) -> Callable[[Tensor], Tensor]:
        return LAYOUTS[self._choice(sorted(LAYOUTS))]


@pytest.mark.sweep(10, each="name")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", range(60))
def test_random_calls_equal_the_oracle(name: str, seed: int) -> None:
    draw = Draw(name, seed)
    ours, oracle = FUNCTIONS[name]
    leaves, given = draw.operands()
    options = {**draw.options, "key_padding_mask": draw.padding()}
    found, wanted = ours(*given, **options), oracle(*given, **options)
    errors = attention_errors(found, wanted, leaves, layout=draw.layout())
    assert all(error <= 1e-12 for error in errors), (errors, draw.__dict__)


@pytest.mark.usefixtures("triton_runs")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_random_calls_of_kernels_equal_the_oracle(
    name: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config, is_whole: bool
) -> None:
    launches = [
        import_module(f"porism.layers.attention.{layer}.kernels.triton.launches") for layer in ("taylor", "hybrid")
    ]
    for module in launches:
        monkeypatch.setattr(module, "sizes", lambda *_: SMALL)
    monkeypatch.setattr(launches[0], "chunk", lambda *_: 32)
    monkeypatch.setattr(kernels, "DEVICES", {DEVICE})
    served = import_module(f"porism.layers.attention.{name}.kernels.triton")
    forward, counted = served.forward, [0]

    def counting(*args: Any) -> Any:
        counted[0] += 1
        return forward(*args)

    monkeypatch.setattr(served, "forward", counting)
    ours, oracle = FUNCTIONS[name]
    seeds = range(8) if is_whole else random.Random(pytestconfig.option.seed).sample(range(8), 2)
    for seed in seeds:
        draw = Draw(name, seed).for_kernels()
        leaves, exact = draw.operands()
        padding, layout = draw.padding(), draw.layout()
        given = [x.float().to(DEVICE) for x in exact]
        found = ours(*given, **draw.options, key_padding_mask=None if padding is None else padding.to(DEVICE))
        wanted = oracle(*exact, **draw.options, key_padding_mask=padding)
        errors = attention_errors(found.cpu(), wanted, leaves, layout=layout)
        assert all(error <= 1e-5 for error in errors), (seed, errors, draw.__dict__)
    assert counted[0] == len(seeds)
