"""How fast are recurrent nets on a GPU, against cuDNN and against the loop of the same net?

    python benchmarks/recurrent_gpu.py                       writes results/recurrent_gpu.json
    python benchmarks/recurrent_gpu.py --out result.json

Elman with a sigmoid beside its loop in torch, and beside nn.RNN with a tanh, the nearest net that cuDNN has (it has no
sigmoid); LSTM beside nn.LSTM. One layer, input as wide as the state, forward, and forward with backward to input and
weights; bfloat16, float32 in full precision on both sides, and float32 where cuDNN may compute in TF32. All take turns,
eagerly (milliseconds by the clock, with the time of Python) and captured in a CUDA graph (without it). Before they are
timed both layers are held against float64.
"""

import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor, nn

from kept import Kept, machine
from porism import LSTM, Elman
from porism.layers.recurrent.elman import naive as elman_loop
from porism.layers.recurrent.elman.functional import runs_on_chip
from porism.layers.recurrent.lstm import naive as lstm_loop
from porism.layers.recurrent.lstm.functional import torch_is_faster
from turns import Step, captured, in_turns, in_turns_on_gpu, spread, times_faster

MEASURES = (
    "layers/recurrent/elman",
    "layers/recurrent/elman/naive.py",
    "layers/recurrent/lstm",
    "layers/recurrent/lstm/naive.py",
    "layers/recurrent/kernels",
)
RESULT = Path(__file__).parent / "results" / "recurrent_gpu.json"
SIZES = ((256, 10, 200), (64, 35, 512), (16, 1024, 768))  # B, T, H
PRECISIONS = ("bfloat16", "float32", "TF32")
PEERS = (("elman", "sigmoid loop"), ("elman", "nn.RNN tanh"), ("lstm", "nn.LSTM"))
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


class SigmoidLoop(nn.Module):
    """The Elman net as people write it where no kernel has its activation."""

    def __init__(self, width: int, **options: Any) -> None:
        super().__init__()
        self.input, self.recurrent = nn.Linear(width, width, **options), nn.Linear(width, width, bias=False, **options)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros_like(x[0])
        states = []
        for step in self.input(x):
            h = torch.sigmoid(step + self.recurrent(h))
            states.append(h)
        return torch.stack(states), h


def passes(layer: nn.Module, x: Tensor, dy: Tensor) -> dict[str, Step]:
    """Forward alone, and with backward to input and weights."""
    leaves = [x, *layer.parameters()]

    def both() -> None:
        torch.autograd.grad(layer(x)[0], leaves, dy)

    @torch.no_grad()
    def forward() -> None:
        layer(x)

    return {"forward": forward, "both": both}


def measured(B: int, T: int, H: int, precision: str, turns: int) -> dict[str, Any]:
    """All layers at one size and precision, in turns."""
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "TF32"
    torch.manual_seed(0)
    options: dict[str, Any] = {"device": "cuda", "dtype": dtype}
    layers = {
        "elman": Elman(H, H, **options),
        "sigmoid loop": SigmoidLoop(H, **options),
        "nn.RNN tanh": nn.RNN(H, H, **options),
        "lstm": LSTM(H, H, **options),
        "nn.LSTM": nn.LSTM(H, H, **options),
    }
    x, dy = (torch.randn(T, B, H, **options) for _ in range(2))
    x.requires_grad_()
    row: dict[str, Any] = {"B": B, "T": T, "H": H, "precision": precision, "errors": {}, "kernels": {}, "ms": {}}
    for name, layer in layers.items():
        if isinstance(layer, Elman | LSTM):
            row["errors"][name] = float(f"{error(layer, min(T, 64), B):.2g}")
            weight = layer.get_parameter("weight_hh_l0")
            on_chip = runs_on_chip(x, weight) if isinstance(layer, Elman) else not torch_is_faster(x, B, weight)
            row["kernels"][name] = "all steps in one" if on_chip else "cuDNN"
            # Under TF32 the products before the steps may be rounded.
            assert not on_chip or precision == "TF32" or row["errors"][name] <= WORST_ERROR[dtype], row
    for kind in ("forward", "both"):
        eager = {name: passes(layer, x, dy)[kind] for name, layer in layers.items()}
        for mode, times in (
            ("eager", in_turns(eager, turns, warm_up=3)),
            ("captured", in_turns_on_gpu({name: captured(step) for name, step in eager.items()}, turns)),
        ):
            for name, taken in times.items():
                row["ms"].setdefault(name, {})[f"{mode}, {kind}"] = spread(taken)
            for ours, peer in PEERS:
                found = row.setdefault("times_faster", {}).setdefault(f"{ours} / {peer}", {})
                found[f"{mode}, {kind}"] = times_faster(times[ours], times[peer])
    return row


def main(turns: int = 10, resume: bool = False, out: Path = RESULT) -> None:
    """Check, measure, print and keep.

    resume: keep the parts that the result has, and measure the others.
    """
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    kept = Kept(out, machine(torch.device("cuda"), ["triton"]), {"turns": turns}, resume, MEASURES)
    for (B, T, H), precision in product(SIZES, PRECISIONS):
        kept.part(f"B={B}, T={T}, H={H}, {precision}", partial(measured, B, T, H, precision, turns))


if __name__ == "__main__":
    tyro.cli(main)
