"""Packed sequences in compiled code: the right answer, or a refusal that says why."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from porism.layers import LSTM, Elman

LAYERS = {"elman": Elman(3, 4, 2, bidirectional=True), "lstm": LSTM(3, 4, 2, bidirectional=True)}


def packed() -> PackedSequence:
    return pack_sequence([torch.randn(T, 3) for T in (5, 2, 3)], enforce_sorted=False)


# torch.compile itself calls what torch deprecates.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_compiled_layers_answer_for_packed_sequences(name: str) -> None:
    layer, x = LAYERS[name], packed()
    parameters = list(layer.parameters())

    def outcome(called: Callable[..., Any]) -> list[torch.Tensor]:
        output, h_n = called(x)
        assert torch.equal(output.batch_sizes, x.batch_sizes)
        loss = output.data.square().sum() + sum(part.sum() for part in (h_n if isinstance(h_n, tuple) else (h_n,)))
        return [output.data, *torch.autograd.grad(loss, parameters)]

    compiled = torch.compile(layer, backend="aot_eager")
    for one, other in zip(outcome(compiled), outcome(layer), strict=True):
        assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_a_full_graph_of_packed_sequences_is_refused_with_the_reason(name: str) -> None:
    torch._dynamo.reset()  # what was compiled without fullgraph would serve here too
    compiled = torch.compile(LAYERS[name], backend="aot_eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=f"{name}: input is a PackedSequence.*give a padded batch"):
        compiled(packed())
