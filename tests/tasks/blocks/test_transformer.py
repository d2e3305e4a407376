"""Attention with kept keys and values against torch's own."""

import pytest
import torch
from torch import nn

from porism.tasks.blocks.padding import is_padding
from porism.tasks.blocks.transformer import CachedAttention, KeyValues

B, T, H = 3, 7, 8


def layer_and_torchs() -> tuple[CachedAttention, nn.MultiheadAttention]:
    torch.manual_seed(1)
    ours, theirs = CachedAttention(H, heads=2).double(), nn.MultiheadAttention(H, 2, batch_first=True).double()
    with torch.no_grad():
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        # A bias of the keys changes no softmax.
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, torch.randn(H).double(), ours.value.bias]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    return ours, theirs


@pytest.mark.parametrize("need_weights", [False, True])
def test_cross_attention_equals_torchs(need_weights: bool) -> None:
    ours, theirs = layer_and_torchs()
    x, y = torch.randn(B, T, H).double(), torch.randn(B, 5, H).double()
    padding = is_padding(torch.tensor([1, 5, 3]), 5)
    output, weights = ours(x, ours.project(y, padding), need_weights=need_weights)
    expected, expected_weights = theirs(x, y, y, key_padding_mask=padding, average_attn_weights=False)
    torch.testing.assert_close(output, expected)
    assert (weights is not None) == need_weights
    if weights is not None:
        torch.testing.assert_close(weights, expected_weights)


@pytest.mark.parametrize("need_weights", [False, True])
def test_step_by_step_equals_one_pass(need_weights: bool) -> None:
    ours, theirs = layer_and_torchs()
    x = torch.randn(B, T, H).double()
    mask = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.double)
    expected, _ = theirs(x, x, x, attn_mask=mask)
    cache, outputs = None, []
    for t in range(T):
        new = ours.project(x[:, t : t + 1])
        cache = new if cache is None else KeyValues(torch.cat([cache.k, new.k], 2), torch.cat([cache.v, new.v], 2))
        outputs.append(ours(x[:, t : t + 1], cache, causal=True, need_weights=need_weights)[0])
    torch.testing.assert_close(torch.cat(outputs, 1), expected)


def test_rows_of_a_cache_are_selected_with_their_padding() -> None:
    ours, _ = layer_and_torchs()
    x, y = torch.randn(B, T, H).double(), torch.randn(B, 5, H).double()
    rows, cache = torch.tensor([2, 0, 0]), ours.project(y, is_padding(torch.tensor([1, 5, 3]), 5))
    assert torch.equal(ours(x[rows], cache.select(rows))[0], ours(x, cache)[0][rows])
