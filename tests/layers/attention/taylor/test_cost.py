"""The named terms are what is counted, whatever the length leaves over."""

import pytest
import torch
from sympy import Integer, simplify

from porism.costing.alphabet import A, B, H, M, T
from porism.costing.counting.count import count
from porism.costing.derive import derive
from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.taylor import TaylorAttention, taylor_attention
from porism.layers.attention.taylor.cost import core, cost, features, subject
from porism.layers.attention.taylor.feature_maps import MAPS


@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize("order", [2, 4, 6])
def test_the_number_of_features(map: str, order: int) -> None:
    for width in (1, 2, 7, 16, 63):
        assert features(map, order, Integer(width)) == MAPS[map].size(order, width)


@pytest.mark.sweep(1, each="length")
@pytest.mark.parametrize("length", [1, 2, 7, 255, 256, 257, 258, 512, 600])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_a_layer_costs_what_is_counted(length: int, causal: bool) -> None:
    layer = TaylorAttention(15, 3, batch_first=True, pattern=CAUSAL if causal else FULL, warn_above=None)
    counted = count(layer, torch.randn(2, length, 15, requires_grad=True))
    wanted = cost(heads=3, causal=causal).at(B=2, T=length, D=5)
    found = {
        "parameters": counted.parameters.count,
        "flops": counted.flops,
        "backward_flops": counted.backward_flops,
        "saved": counted.saved_bytes // 4,
    }
    assert (found, counted.uncounted) == (wanted, {})


@pytest.mark.parametrize(("map", "order"), [("exact", 2), ("exact", 4), ("rolled", 2), ("ordered", 4)])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_heads_that_share_keys_and_values_of_another_width(map: str, order: int, causal: bool) -> None:
    q, k, v = (torch.randn(2, *size, requires_grad=True) for size in ((6, 270, 4), (2, 270, 4), (2, 270, 7)))
    pattern = CAUSAL if causal else FULL
    counted = count(lambda: taylor_attention(q, k, v, pattern=pattern, feature_map=map, order=order))
    wanted = core(6, 2, causal).at(B=2, T=270, D=4, H=7, M=MAPS[map].size(order, 4))
    assert (counted.flops, counted.backward_flops) == (wanted["flops"], wanted["backward_flops"])
    assert counted.saved_bytes == 4 * wanted["saved"]


def test_the_formula_is_found_in_the_code() -> None:
    target, inputs = subject()
    derived = derive(target, *inputs)
    wanted = cost(feature_map="exact")
    assert simplify(derived.flops - wanted.total("flops")) == 0
    assert simplify(derived.backward_flops - wanted.total("backward_flops")) == 0
    assert simplify(derived.parameters - wanted.total("parameters")) == 0
    assert simplify(derived.activation_bytes - 4 * wanted.total("saved")) == 0
    assert not derived.uncounted


def test_the_products_of_the_core_are_those_of_the_textbook() -> None:
    # 2 T M D_v and T M multiplications, on each side M for every value and for the weight: twice as many flops.
    textbook = 2 * (2 * T * M * H + 2 * T * M)
    assert simplify(core().total("flops") - A * B * textbook) == 0
