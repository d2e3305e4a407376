"""The case of elman."""

import torch
from tests.layers.cases.case import Case, Inputs, Mistake
from torch import Tensor

from porism.layers import Elman
from porism.layers.recurrent.elman import naive as elman_naive
from porism.layers.recurrent.elman.cost import cost as elman_cost


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
        Mistake("a bool for a size", lambda: Elman(True, 5), r"input_size is True\. Give"),
        Mistake("a fraction for a size", lambda: Elman(7, 5.0), r"hidden_size is 5\.0\. Give"),  # type: ignore[arg-type]
        Mistake(
            "dropout of nan", lambda: Elman(7, 5, 2, dropout=float("nan")), r"dropout is nan\. Give the probability"
        ),
        Mistake("dropout of bool", lambda: Elman(7, 5, 2, dropout=False), r"dropout is False\. Give"),
        Mistake("dropout of text", lambda: Elman(7, 5, 2, dropout="0.5"), r"dropout is '0\.5'\. Give"),  # type: ignore[arg-type]
        Mistake(
            "no text",
            lambda: Elman(7, 5, nonlinearity=["relu"]),  # type: ignore[arg-type]
            r"nonlinearity is \['relu'\]\. Choose from sigmoid, tanh, relu\.",
        ),
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
            r"input is \(3, 2, 6\), width 6, expected width 7, the input_size\. Build the layer with input_size=6",
        ),
        Mistake(
            "a vector",
            lambda: _ELMAN(torch.zeros(7)),
            r"input is \(7,\), 1 dimensions, expected \(T, B, D\) or \(T, D\)",
        ),
        Mistake(
            "no steps", lambda: _ELMAN(torch.zeros(0, 2, 7)), r"input is \(0, 2, 7\), no steps, expected \(T, B, D\)"
        ),
        Mistake(
            "no steps, batch first",
            lambda: Elman(7, 5, batch_first=True)(torch.zeros(2, 0, 7)),
            r"input is \(2, 0, 7\), no steps, expected \(B, T, D\), batch_first, with T from 1 on",
        ),
        Mistake(
            "state",
            lambda: _ELMAN(torch.zeros(3, 2, 7), torch.zeros(2, 5)),
            r"hx is \(2, 5\), expected \(1, 2, 5\): layers \* directions, B, hidden_size",
        ),
        Mistake(
            "state without a batch",
            lambda: _ELMAN(torch.zeros(3, 7), torch.zeros(1, 1, 5)),
            r"hx is \(1, 1, 5\), expected \(1, 5\): layers \* directions, hidden_size",
        ),
        Mistake(
            "type",
            lambda: _ELMAN(torch.zeros(3, 2, 7, dtype=torch.float64)),
            r"input is torch\.float64, weight_ih is torch\.float32, expected one type\. Convert input with input\.to",
        ),
    ),
)
