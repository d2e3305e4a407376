"""The case of lstm."""

import torch
from tests.layers.cases.case import Case, Inputs, Mistake
from torch import Tensor

from porism.layers import LSTM
from porism.layers.recurrent.lstm import naive as lstm_naive
from porism.layers.recurrent.lstm.cost import cost as lstm_cost


def _run_lstm(layer: LSTM, inputs: Inputs) -> Tensor:
    y: Tensor = layer(inputs["x"], (inputs["h"], inputs["c"]))[0]
    return y


def _naive_lstm(layer: LSTM, inputs: Inputs) -> Tensor:
    weight_ih, weight_hh, bias_ih, bias_hh = layer.parameters()
    state = inputs["h"][0], inputs["c"][0]
    return lstm_naive.lstm(inputs["x"], *state, weight_ih.mT, weight_hh.mT, bias_ih + bias_hh)[0]


_LSTM = LSTM(7, 5)
_STATE = torch.zeros(1, 2, 5)

LSTM_CASE = Case(
    build=lambda n: LSTM(n["D"], n["H"]),
    inputs=lambda n: {
        "x": torch.randn(n["T"], n["B"], n["D"]),
        "h": torch.rand(1, n["B"], n["H"]),
        "c": torch.rand(1, n["B"], n["H"]),
    },
    run=_run_lstm,
    naive=_naive_lstm,
    cost=lstm_cost,
    mistakes=(
        Mistake("no hidden", lambda: LSTM(7, 0), r"hidden_size is 0\. Give a whole number from 1 on\."),
        Mistake("all dropped", lambda: LSTM(7, 5, recurrent_dropout=1.0), r"recurrent_dropout is 1\.0\. Give the prob"),
        Mistake("too wide a projection", lambda: LSTM(7, 5, proj_size=5), r"proj_size is 5\. Give a whole number"),
        Mistake(
            "a projection and a mask",
            lambda: LSTM(7, 5, proj_size=2, recurrent_dropout=0.5),
            r"proj_size is 2, and variational and recurrent_dropout take states as wide",
        ),
        Mistake("width", lambda: _LSTM(torch.zeros(3, 2, 6)), r"width 6, expected width 7, the input_size\. Build"),
        Mistake("a vector", lambda: _LSTM(torch.zeros(7)), r"input is \(7,\), expected three dimensions"),
        Mistake("no steps", lambda: _LSTM(torch.zeros(0, 2, 7)), r"no steps, expected T from 1 on\. Skip the batch"),
        Mistake("one state", lambda: _LSTM(torch.zeros(3, 2, 7), _STATE), r"hx is a Tensor, expected the two tensors"),  # type: ignore[arg-type]
        Mistake(
            "state of another batch",
            lambda: _LSTM(torch.zeros(3, 1, 7), (_STATE, _STATE)),
            r"h_0 is \(1, 2, 5\), expected \(1, 1, 5\): layers \* directions, B, width",
        ),
        Mistake("type", lambda: _LSTM(torch.zeros(3, 2, 7).double()), r"input is torch\.float64, weight_ih is torch"),
    ),
)
