"""The case of readout."""

from collections.abc import Callable
from typing import Any

import torch
from tests.layers.cases.case import Case, Inputs, Mistake
from torch import Tensor, nn

from porism.layers import Readout
from porism.layers.readout import linear_cross_entropy
from porism.layers.readout import naive as readout_naive
from porism.layers.readout.cost import cost as readout_cost


def _run_readout(layer: Readout, inputs: Inputs) -> Tensor:
    return layer.loss(inputs["h"], inputs["targets"], reduction="sum")


def _naive_readout(layer: Readout, inputs: Inputs) -> Tensor:
    h, targets = inputs["h"].flatten(0, -2), inputs["targets"].flatten()
    return readout_naive.cross_entropy(h, layer.weight, layer.bias, targets)


def _loss(h: tuple[int, ...] = (3, 5), targets: Any = None, **options: Any) -> Callable[[], Tensor]:
    targets = torch.zeros(3, dtype=torch.long) if targets is None else targets
    return lambda: linear_cross_entropy(
        torch.zeros(h), torch.zeros(9, 5), targets, linear_bias=torch.zeros(9), **options
    )


def _mixed(**parts: Any) -> Callable[[], Tensor]:
    whole = {"input": torch.zeros(3, 5), "linear_weight": torch.zeros(9, 5), "linear_bias": torch.zeros(9)}
    operands: dict[str, Any] = whole | parts
    return lambda: linear_cross_entropy(**operands, target=torch.zeros(3, dtype=torch.long))


READOUT = Case(
    build=lambda n: Readout(n["H"], n["V"]),
    inputs=lambda n: {"h": torch.randn(n["T"], n["B"], n["H"]), "targets": torch.randint(n["V"], (n["T"], n["B"]))},
    run=_run_readout,
    naive=_naive_readout,
    cost=lambda: readout_cost(reduction="sum"),
    mistakes=(
        Mistake("no width", lambda: Readout(0, 9), r"in_features is 0\. Give a whole number from 1 on"),
        Mistake("width of a half", lambda: Readout(2.5, 9), r"in_features is 2\.5\. Give a whole number"),  # type: ignore[arg-type]
        Mistake("width of truth", lambda: Readout(True, 9), r"in_features is True\. Give a whole number"),
        Mistake("no words", lambda: Readout(5, 0), r"out_features is 0\. Give"),
        Mistake(
            "tied to another width",
            lambda: Readout(5, 9, weight=nn.Parameter(torch.zeros(9, 6))),
            r"the tied weight is \(9, 6\), expected \(9, 5\): out_features, in_features\. Make the embedding as wide",
        ),
        Mistake(
            "width", _loss(h=(3, 6)), r"input is \(3, 6\), expected \(\.\.\., 5\), the width of the weight \(9, 5\)"
        ),
        Mistake(
            "width of the scores",
            lambda: Readout(5, 9)(torch.zeros(3, 6)),
            r"input is \(3, 6\), expected \(\.\.\., 5\)",
        ),
        Mistake("too few", _loss(h=(4, 5)), r"target is \(3,\), expected \(4,\), one for each row of input \(4, 5\)"),
        Mistake(
            "none", _loss(h=(0, 5), targets=torch.zeros(0).long()), r"target is empty, \(0,\), expected one or more"
        ),
        Mistake(
            "fractions", _loss(targets=torch.zeros(3)), r"targets are torch\.float32, expected whole numbers\. Convert"
        ),
        Mistake(
            "beyond", _loss(targets=torch.tensor([0, 9, 2])), r"targets run from 0 to 9, expected 0 to 8\. Number them"
        ),
        Mistake("below", _loss(targets=torch.tensor([0, -1, 2])), r"targets run from -1 to 2, expected 0 to 8"),
        Mistake("another index ignored", _loss(targets=torch.tensor([0, -100, 2]), ignore_index=-1), r"from -100 to 2"),
        Mistake("smoothing", _loss(label_smoothing=1.5), r"label_smoothing is 1\.5\. Give a number from 0 to 1"),
        Mistake("ignored fraction", _loss(ignore_index=0.5), r"ignore_index is 0\.5\. Give a whole number"),
        Mistake("no tensor", _loss(targets=[0, 1, 2]), r"targets are a list, expected a tensor of whole numbers"),
        Mistake("truths", _loss(targets=torch.zeros(3).bool()), r"targets are torch\.bool, expected whole numbers"),
        Mistake(
            "targets elsewhere",
            _loss(targets=torch.zeros(3, device="meta").long()),
            r"targets are on meta, expected cpu",
        ),
        Mistake(
            "states elsewhere",
            _mixed(input=torch.zeros(3, 5, device="meta")),
            r"linear_weight is on cpu, input on meta, expected",
        ),
        Mistake(
            "weight elsewhere",
            _mixed(linear_weight=torch.zeros(9, 5, device="meta")),
            r"linear_weight is on meta, input on cpu",
        ),
        Mistake(
            "bias elsewhere",
            _mixed(linear_bias=torch.zeros(9, device="meta")),
            r"linear_bias is on meta, input on cpu, expected one",
        ),
        Mistake(
            "whole states", _mixed(input=torch.zeros(3, 5).int()), r"input is torch\.int32, expected one of float32"
        ),
        Mistake(
            "true weights",
            _mixed(linear_weight=torch.zeros(9, 5).bool()),
            r"linear_weight is torch\.bool, expected one of float32",
        ),
        Mistake(
            "complex states",
            _mixed(input=torch.zeros(3, 5) + 0j),
            r"input is torch\.complex64, expected one of float32",
        ),
        Mistake(
            "a weight of one row", _mixed(linear_weight=torch.zeros(5)), r"linear_weight is \(5,\), expected \(V, H\)"
        ),
        Mistake(
            "bias of another type",
            _mixed(linear_bias=torch.zeros(9, dtype=torch.float64)),
            r"input is torch\.float32, linear_bias is torch\.float64, expected one type",
        ),
        Mistake(
            "scores of whole numbers",
            lambda: Readout(5, 9)(torch.zeros(3, 5).int()),
            r"input is torch\.int32, expected one of",
        ),
        Mistake(
            "reduction", _loss(reduction="none"), r"reduction is 'none'\. Choose mean or sum; for the loss of each row"
        ),
        Mistake("block", _loss(batch_chunk_size=0), r"batch_chunk_size is 0\. Give a whole number from 1 on"),
        Mistake(
            "bias",
            lambda: linear_cross_entropy(
                torch.zeros(3, 5), torch.zeros(9, 5), torch.zeros(3).long(), linear_bias=torch.zeros(5)
            ),
            r"linear_bias is \(5,\), expected \(9,\), one for each word",
        ),
        Mistake(
            "type",
            lambda: Readout(5, 9).loss(torch.zeros(3, 5, dtype=torch.float64), torch.zeros(3).long()),
            r"input is torch\.float64, linear_weight is torch\.float32, expected one type\. Convert input with",
        ),
    ),
)
