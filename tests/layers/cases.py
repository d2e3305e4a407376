"""One case for every layer: how the contract builds it, runs it, and what it must refuse."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from porism.cost import Cost
from porism.layers import Elman, Readout
from porism.layers.elman import naive as elman_naive
from porism.layers.elman.cost import cost as elman_cost
from porism.layers.readout import linear_cross_entropy
from porism.layers.readout import naive as readout_naive
from porism.layers.readout.cost import cost as readout_cost

Sizes = dict[str, int]
Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Mistake:
    """A call that must be refused, and the words of the refusal."""

    name: str
    call: Callable[[], Any]
    message: str


@dataclass(frozen=True)
class Case:
    """A layer at given sizes; `run` is the fast way, `naive` the slow way to the same tensor."""

    build: Callable[[Sizes], nn.Module]
    inputs: Callable[[Sizes], Inputs]
    run: Callable[[Any, Inputs], Tensor]
    naive: Callable[[Any, Inputs], Tensor]
    cost: Callable[[], Cost]
    mistakes: tuple[Mistake, ...]


def _run_elman(layer: Elman, inputs: Inputs) -> Tensor:
    y: Tensor = layer(inputs["x"], inputs["h"])[0]
    return y


def _naive_elman(layer: Elman, inputs: Inputs) -> Tensor:
    weight_ih, weight_hh, bias = layer.parameters()
    return elman_naive.elman(inputs["x"], inputs["h"][0], weight_ih.mT, weight_hh.mT, bias)


_ELMAN = Elman(7, 5)

ELMAN = Case(
    build=lambda n: Elman(n["D"], n["H"]),
    inputs=lambda n: {"x": torch.randn(n["T"], n["B"], n["D"]), "h": torch.rand(1, n["B"], n["H"])},
    run=_run_elman,
    naive=_naive_elman,
    cost=elman_cost,
    mistakes=(
        Mistake("no hidden", lambda: Elman(7, 0), r"hidden_size is 0\. Give a whole number from 1 on\."),
        Mistake("no input", lambda: Elman(-1, 5), r"input_size is -1\. Give"),
        Mistake("no layers", lambda: Elman(7, 5, num_layers=0), r"num_layers is 0\. Give"),
        Mistake("part of a layer", lambda: Elman(7, 5, num_layers=1.5), r"num_layers is 1\.5\. Give"),  # type: ignore[arg-type]
        Mistake("all dropped", lambda: Elman(7, 5, 2, dropout=1.0), r"dropout is 1\.0\. Give the probability"),
        Mistake("dropout below 0", lambda: Elman(7, 5, 2, dropout=-0.1), r"dropout is -0\.1\."),
        Mistake(
            "nonlinearity",
            lambda: Elman(7, 5, nonlinearity="sigmoids"),
            r"nonlinearity is 'sigmoids'\. Choose from sigmoid, tanh, relu\.",
        ),
        Mistake(
            "width",
            lambda: _ELMAN(torch.zeros(3, 2, 6)),
            r"x is \(3, 2, 6\), width 6, wanted width 7, the input_size\. Build the layer with input_size=6",
        ),
        Mistake(
            "a vector", lambda: _ELMAN(torch.zeros(7)), r"x is \(7,\), 1 dimensions, wanted \(T, B, D\) or \(T, D\)"
        ),
        Mistake("no steps", lambda: _ELMAN(torch.zeros(0, 2, 7)), r"x is \(0, 2, 7\), no steps, wanted \(T, B, D\)"),
        Mistake(
            "no steps, batch first",
            lambda: Elman(7, 5, batch_first=True)(torch.zeros(2, 0, 7)),
            r"x is \(2, 0, 7\), no steps, wanted \(B, T, D\), batch_first, with T from 1 on",
        ),
        Mistake(
            "state",
            lambda: _ELMAN(torch.zeros(3, 2, 7), torch.zeros(2, 5)),
            r"hx is \(2, 5\), wanted \(1, 2, 5\): layers \* directions, B, hidden_size",
        ),
        Mistake(
            "state without a batch",
            lambda: _ELMAN(torch.zeros(3, 7), torch.zeros(1, 1, 5)),
            r"hx is \(1, 1, 5\), wanted \(1, 5\): layers \* directions, hidden_size",
        ),
        Mistake(
            "type",
            lambda: _ELMAN(torch.zeros(3, 2, 7, dtype=torch.float64)),
            r"x is torch\.float64, weight_ih is torch\.float32, wanted one type\. Convert x with x\.to",
        ),
    ),
)


def _run_readout(layer: Readout, inputs: Inputs) -> Tensor:
    return layer.loss(inputs["h"], inputs["targets"], reduction="sum")


def _naive_readout(layer: Readout, inputs: Inputs) -> Tensor:
    h, targets = inputs["h"].flatten(0, -2), inputs["targets"].flatten()
    return readout_naive.cross_entropy(h, layer.weight, layer.bias, targets)


def _loss(h: tuple[int, ...] = (3, 5), targets: Tensor | None = None, **options: Any) -> Callable[[], Tensor]:
    targets = torch.zeros(3, dtype=torch.long) if targets is None else targets
    return lambda: linear_cross_entropy(torch.zeros(h), torch.zeros(9, 5), torch.zeros(9), targets, **options)


READOUT = Case(
    build=lambda n: Readout(n["H"], n["V"]),
    inputs=lambda n: {"h": torch.randn(n["T"], n["B"], n["H"]), "targets": torch.randint(n["V"], (n["T"], n["B"]))},
    run=_run_readout,
    naive=_naive_readout,
    cost=readout_cost,
    mistakes=(
        Mistake("no width", lambda: Readout(0, 9), r"width is 0\. Give a whole number from 1 on\."),
        Mistake("no words", lambda: Readout(5, 0), r"vocabulary is 0\. Give"),
        Mistake(
            "tied to another width",
            lambda: Readout(5, 9, weight=nn.Parameter(torch.zeros(9, 6))),
            r"the tied weight is \(9, 6\), wanted \(9, 5\): vocabulary, width\. Make the embedding as wide",
        ),
        Mistake("width", _loss(h=(3, 6)), r"h is \(3, 6\), wanted \(\.\.\., 5\), the width of the weight \(9, 5\)"),
        Mistake(
            "width of the scores", lambda: Readout(5, 9)(torch.zeros(3, 6)), r"h is \(3, 6\), wanted \(\.\.\., 5\)"
        ),
        Mistake("too few", _loss(h=(4, 5)), r"targets are \(3,\), wanted \(4,\), one for each row of h \(4, 5\)"),
        Mistake(
            "none", _loss(h=(0, 5), targets=torch.zeros(0).long()), r"targets are empty, \(0,\), wanted one or more"
        ),
        Mistake(
            "fractions", _loss(targets=torch.zeros(3)), r"targets are torch\.float32, wanted whole numbers\. Convert"
        ),
        Mistake(
            "beyond", _loss(targets=torch.tensor([0, 9, 2])), r"targets run from 0 to 9, wanted 0 to 8\. Use the layer"
        ),
        Mistake("below", _loss(targets=torch.tensor([0, -1, 2])), r"targets run from -1 to 2, wanted 0 to 8"),
        Mistake("reduction", _loss(reduction="none"), r"reduction is 'none'\. Choose mean or sum\."),
        Mistake("block", _loss(block=0), r"block is 0\. Give a number of rows from 1 on"),
        Mistake(
            "bias",
            lambda: linear_cross_entropy(torch.zeros(3, 5), torch.zeros(9, 5), torch.zeros(5), torch.zeros(3).long()),
            r"bias is \(5,\), wanted \(9,\), one for each word",
        ),
        Mistake(
            "type",
            lambda: Readout(5, 9).loss(torch.zeros(3, 5, dtype=torch.float64), torch.zeros(3).long()),
            r"h is torch\.float64, weight is torch\.float32, wanted one type\. Convert h with h\.to\(torch\.float32\)",
        ),
    ),
)

CASES = {"elman": ELMAN, "readout": READOUT}
