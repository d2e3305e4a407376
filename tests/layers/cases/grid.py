"""The case of grid."""

from collections.abc import Callable
from typing import Any

import torch
from tests.layers.cases.case import Case, Inputs, Mistake
from torch import Tensor

from porism.layers.recurrent.grid import Grid, grid
from porism.layers.recurrent.grid import naive as grid_naive
from porism.layers.recurrent.grid.cost import cost as grid_cost


def _naive_grid(layer: Grid, inputs: Inputs) -> Tensor:
    weight_in, weight_left, weight_top, bias = layer.parameters()
    return grid_naive.grid(inputs["x"], weight_in.mT, weight_left.mT, weight_top.mT, bias)


_GRID = Grid(3, 5)


def _grid(x: tuple[int, ...] = (2, 3, 4, 6), **parts: Any) -> Callable[[], Tensor]:
    weights = {"weight_in": torch.zeros(5, 3), "weight_left": torch.zeros(5, 5), "weight_top": torch.zeros(5, 5)}
    return lambda: grid(torch.zeros(x), **{**weights, **parts})


GRID = Case(
    build=lambda n: Grid(n["C"], n["H"], bias=True),
    inputs=lambda n: {"x": torch.randn(n["B"], n["C"], n["Y"], n["X"])},
    run=lambda layer, inputs: layer(inputs["x"]),
    naive=_naive_grid,
    cost=lambda: grid_cost(bias=True),
    mistakes=(
        Mistake("no hidden", lambda: Grid(3, 0), r"hidden_size is 0\. Give a whole number from 1 on\."),
        Mistake("no input", lambda: Grid(-1, 5), r"in_channels is -1\. Give"),
        Mistake("part of a unit", lambda: Grid(3, 1.5), r"hidden_size is 1\.5\. Give"),  # type: ignore[arg-type]
        Mistake("a bool for a size", lambda: Grid(True, 5), r"in_channels is True\. Give"),
        Mistake("a fraction for a size", lambda: Grid(3, 5.0), r"hidden_size is 5\.0\. Give"),  # type: ignore[arg-type]
        Mistake(
            "a bool for directions",
            lambda: Grid(3, 5, directions=True),
            r"directions is True\. Give 1, 2 or 4, or names",
        ),
        Mistake("a fraction for directions", lambda: Grid(3, 5, directions=1.0), r"directions is 1\.0\. Give 1, 2"),  # type: ignore[arg-type]
        Mistake("no text", lambda: Grid(3, 5, cell=["lstm"]), r"cell is \['lstm'\]\. Choose from"),  # type: ignore[arg-type]
        Mistake(
            "nonlinearity",
            lambda: Grid(3, 5, nonlinearity="sigmoids"),
            r"nonlinearity is 'sigmoids'\. Choose from sigmoid, tanh, relu\.",
        ),
        Mistake("cell", lambda: Grid(3, 5, cell="gru"), r"cell is 'gru'\. Choose from rnn, lstm\."),
        Mistake(
            "nonlinearity of an lstm",
            lambda: Grid(3, 5, cell="lstm", nonlinearity="relu"),
            r"nonlinearity is 'relu', and an lstm cell has its own\. Leave it out\.",
        ),
        Mistake(
            "merge_mode", lambda: Grid(3, 5, merge_mode="mean"), r"merge_mode is 'mean'\. Choose from sum, concat\."
        ),
        Mistake(
            "three corners",
            lambda: Grid(3, 5, directions=3),
            r"directions is 3\. Give 1, 2 or 4, or names from top-left, top",
        ),
        Mistake(
            "no direction",
            lambda: Grid(3, 5, directions=()),
            r"directions is \(\)\. Give each of top-left.*, and one or more",
        ),
        Mistake(
            "a direction twice",
            lambda: Grid(3, 5, directions=("top-left", "top-left")),
            r"directions is \('top-left', 'top-left'\)\. Give each of .* once at most",
        ),
        Mistake(
            "a direction that is none",
            lambda: Grid(3, 5, directions=["left"]),
            r"directions is \['left'\]\. Give each of",
        ),
        Mistake(
            "a direction of one walk",
            _grid(direction="left"),
            r"direction is 'left'\. Choose from top-left, top-right, bot",
        ),
        Mistake(
            "channels",
            lambda: _GRID(torch.zeros(2, 4, 6, 3)),
            r"input is \(2, 4, 6, 3\), 4 channels, expected 3, the in_channels\. Build the layer with in_channels=4",
        ),
        Mistake(
            "a matrix",
            lambda: _GRID(torch.zeros(3, 7)),
            r"input is \(3, 7\), 2 dimensions, expected \(B, C, Y, X\) or \(C, Y",
        ),
        Mistake("no batch", _grid(x=(3, 4, 6)), r"input is \(3, 4, 6\), expected \(B, C, Y, X\)\. Reshape it\."),
        Mistake(
            "no rows",
            lambda: _GRID(torch.zeros(2, 3, 0, 6)),
            r"input is \(2, 3, 0, 6\), no pixels, expected \(B, C, Y, X",
        ),
        Mistake("no columns", _grid(x=(2, 3, 4, 0)), r"input is \(2, 3, 4, 0\), no pixels, expected"),
        Mistake(
            "weight",
            _grid(weight_top=torch.zeros(5, 4)),
            r"weight_top is \(5, 4\), expected \(5, 5\) for input \(2, 3, 4, 6\) and 5 hidden units\. Reshape weight",
        ),
        Mistake("bias", _grid(bias=torch.zeros(4)), r"bias is \(4,\), expected \(5,\) for input"),
        Mistake("gates", _grid(cell="lstm"), r"weight_in is \(5, 3\), expected \(25, 3\) for input"),
        Mistake(
            "type",
            lambda: _GRID(torch.zeros(2, 3, 4, 6, dtype=torch.float64)),
            r"input is torch\.float64, weight_in is torch\.float32, expected one type\. Convert input with input\.to",
        ),
    ),
)
