"""Porism's own layers keep the contract that others are put through."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import porism
from porism.testing import check_layer

SIZES = {
    "T": (1, 2, 7),
    "B": (1, 2, 5),
    "D": (2, 4),
    "H": (1, 3, 6),
    "A": (1, 2),
    "C": (1, 3),
    "Y": (1, 4),
    "X": (2, 5),
    "V": (2, 9),
    "N": (1, 5),
    "E": (1, 2, 12),
}
CAUSAL = porism.Pattern("causal")
HEADS = (*("B T A*D",) * 3, {"key_padding_mask": "B T : bool"})
LAYERS: dict[str, tuple[Callable[..., nn.Module], tuple[Any, ...], str]] = {
    "elman": (lambda D, H: porism.Elman(D, H), ("T B D",), "TBDH"),
    "lstm": (lambda D, H: porism.LSTM(D, H, 2, bidirectional=True), ("T B D",), "TBDH"),
    "grid": (lambda C, H: porism.Grid(C, H, cell="lstm", directions=4), ("B C Y X",), "BCHYX"),
    "attention": (lambda A, D: porism.Attention(A * D, A, batch_first=True), HEADS, "BTAD"),
    "window": (lambda A, D: porism.WindowAttention(A * D, A, batch_first=True, window_size=2), HEADS, "BTAD"),
    "taylor": (
        lambda A, D: porism.TaylorAttention(A * D, A, batch_first=True, pattern=CAUSAL, warn_above=None),
        HEADS,
        "BTAD",
    ),
    "hybrid": (
        lambda A, D: porism.HybridAttention(A * D, A, batch_first=True, window_size=2, pattern=CAUSAL),
        HEADS,
        "BTAD",
    ),
    "gcn": (lambda D, H: porism.GraphConvolution(D, H), ("N D", "2 E : int < N"), "NEDH"),
    "readout": (lambda H, V: porism.Readout(H, V), ("T B H",), "TBHV"),
    "skipgram": (lambda V, D: porism.SkipGram(V, D), ("B : int < V",) * 2, "BVD"),
}
EXPECTED = {"skipgram": {"dtypes": "a loss is in float32 or better, whatever the vectors are in"}}
if torch.cuda.is_available():
    EXPECTED["gcn"] = {"cuda_graph": "edges that are no Graph yet are checked and sorted at every call, on the host"}


@pytest.mark.sweep(1)
# torch.compile itself calls what torch deprecates, and torch's own kernel for softmax attention has no rule for vmap.
@pytest.mark.filterwarnings("ignore:There is a performance drop because we have not yet implemented:UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_keeps_the_contract(name: str) -> None:
    build, inputs, letters = LAYERS[name]
    sizes = {letter: SIZES[letter] for letter in letters}
    expected = EXPECTED.get(name, {})
    report = check_layer(build, *inputs, sizes=sizes, expected_failed_checks=expected)
    told_apart = {result.name for result in report.results if result.verdict == "expected"}
    assert told_apart == set(expected)
    assert len(report.passed) >= 11
    assert ("padding" in {result.name for result in report.passed}) == (inputs is HEADS)
