"""How fast are recurrent nets on a GPU, against cuDNN?

    python benchmarks/recurrent_gpu.py                       writes results/recurrent_gpu.json
    python benchmarks/recurrent_gpu.py --out result.json

Elman with a sigmoid beside nn.RNN with a tanh, since cuDNN has no sigmoid, and LSTM beside nn.LSTM: one layer, input as
wide as the state, forward, and forward with backward to input and weights. Milliseconds by CUDA events, medians; of
eager calls, and of the same captured in a CUDA graph, where the time of Python is left out. Before they are timed both
layers are held against float64: layers that are too wide for a kernel of ours go through cuDNN, which computes in TF32.
"""

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor, nn

from porism import LSTM, Elman
from porism.layers.recurrent.elman import naive as elman_loop
from porism.layers.recurrent.elman.functional import runs_on_chip
from porism.layers.recurrent.lstm import naive as lstm_loop
from porism.training.device import hardware, versions

RESULT = Path(__file__).parent / "results" / "recurrent_gpu.json"
SIZES = ((256, 10, 200), (64, 35, 512), (16, 1024, 768))  # B, T, H
WORST_ERROR = {torch.bfloat16: 3e-2, torch.float32: 5e-6}


def error(layer: Elman | LSTM, T: int, B: int) -> float:
    """The largest relative error of the states and of the gradients of input and weights against float64."""
    x = torch.randn(
        T, B, layer.input_size, device="cuda", dtype=layer.get_parameter("weight_ih_l0").dtype
    ).requires_grad_()
    leaves: list[Any] = [x, *layer.parameters()]
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    h = x.new_zeros(B, layer.hidden_size, dtype=torch.float64)
    if isinstance(layer, LSTM):
        expected, _ = lstm_loop.lstm(exact[0], h, h, exact[1].mT, exact[2].mT, exact[3] + exact[4])
    else:
        expected = elman_loop.elman(exact[0], h, exact[1].mT, exact[2].mT, exact[3], layer.nonlinearity)
    found = layer(x)[0]
    weights = torch.randn_like(expected)
    pairs = [(found, expected)]
    pairs += zip(
        torch.autograd.grad(found, leaves, weights.to(found.dtype)),
        torch.autograd.grad(expected, exact, weights),
        strict=True,
    )
    return max(float((one.double() - other).norm() / other.norm()) for one, other in pairs)


def milliseconds(step: Callable[[], Any], turns: int) -> float:
    """One step, of as many as take some milliseconds, so that the clock is not what is measured."""
    times: list[float] = []
    for turn in range(turns + 3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            step()
        end.record()
        end.synchronize()
        if turn >= 3:
            times.append(start.elapsed_time(end) / 10)
    return statistics.median(times)


def captured(step: Callable[[], Any]) -> Callable[[], Any]:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measured(layer: nn.Module, x: Tensor, dy: Tensor, turns: int) -> dict[str, float]:
    leaves = [x, *layer.parameters()]

    def both() -> None:
        torch.autograd.grad(layer(x)[0], leaves, dy)

    @torch.no_grad()
    def forward() -> None:
        layer(x)

    times = {"forward_ms": forward, "both_ms": both}
    found = {name: milliseconds(step, turns) for name, step in times.items()}
    found |= {f"captured_{name}": milliseconds(captured(step), turns) for name, step in times.items()}
    return {name: round(value, 4) for name, value in found.items()}


def main(turns: int = 10, out: Path = RESULT) -> None:
    """Check, measure, print and keep."""
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    rows = []
    for B, T, H in SIZES:
        for dtype in (torch.bfloat16, torch.float32):
            torch.manual_seed(0)
            options: dict[str, Any] = {"device": "cuda", "dtype": dtype}
            layers = {
                "elman": Elman(H, H, **options),
                "nn.RNN tanh": nn.RNN(H, H, **options),
                "lstm": LSTM(H, H, **options),
                "nn.LSTM": nn.LSTM(H, H, **options),
            }
            x = torch.randn(T, B, H, **options).requires_grad_()
            dy = torch.randn(T, B, H, **options)
            for name, layer in layers.items():
                row: dict[str, Any] = {
                    "B": B,
                    "T": T,
                    "H": H,
                    "dtype": str(dtype)[6:],
                    "layer": name,
                    "kernel": "cuDNN",
                }
                if isinstance(layer, Elman | LSTM):
                    row["error"] = float(f"{error(layer, min(T, 64), B):.2g}")
                    if isinstance(layer, Elman) and runs_on_chip(x, layer.get_parameter("weight_hh_l0")):
                        row["kernel"] = "all steps in one"
                        assert row["error"] <= WORST_ERROR[dtype], row
                row |= measured(layer, x, dy, turns)
                rows.append(row)
                print(json.dumps(row), flush=True)
    machine = {"hardware": hardware(torch.device("cuda")), "versions": versions()}
    out.write_text(json.dumps({**machine, "results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
