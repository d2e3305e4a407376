"""The error estimate is a measurement, and a layer warns where it passes the limit and nowhere else."""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from porism.costing.counting.count import count
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.taylor import SeriesWarning, TaylorAttention, series_error, taylor_attention
from porism.layers.attention.taylor.error import Watch, _positions

pytestmark = pytest.mark.sample(30)

LIMIT = 0.05


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def operands(deviation: float, T: int = 256, A: int = 4, D: int = 64, H: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Random vectors whose logits deviate by so much."""
    return deviation * torch.randn(1, A, T, D), torch.randn(1, A, T, D), torch.randn(1, A, T, H)


def measured(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, **options: Any) -> float:
    """The error over all queries, by the operations themselves."""
    wanted = scaled_dot_product_attention(q, k, v, is_causal=causal)
    found = taylor_attention(q, k, v, pattern=CAUSAL if causal else FULL, **options)
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("map", "order"), [(None, 2), (None, 4), ("diagonal", 2)])
def test_where_all_queries_are_looked_at_it_is_the_error(causal: bool, map: str | None, order: int) -> None:
    q, k, v = operands(0.3, D=8)
    found = series_error(q, k, v, order=order, feature_map=map, pattern=CAUSAL if causal else FULL)
    assert found == pytest.approx(measured(q, k, v, causal, order=order, feature_map=map), rel=1e-3)


@pytest.mark.parametrize(("deviation", "wanted"), [(0.25, 0.01), (0.5, 0.07), (1.0, 0.39), (2.0, 0.88)])
def test_the_errors_of_order_two(deviation: float, wanted: float) -> None:
    q, k, v = operands(deviation, T=2048, A=2)
    assert series_error(q, k, v) == pytest.approx(wanted, rel=0.1)
    # Values that have nothing to do with the keys show the error of the weights.
    assert series_error(q, k) == pytest.approx(series_error(q, k, v), rel=0.1)


def test_a_higher_order_is_closer() -> None:
    q, k, v = operands(0.7)
    errors = [series_error(q, k, v, order=order) for order in (2, 4, 6)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2]


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("T", [64, 257, 700])
def test_a_layer_warns_exactly_where_the_error_passes_the_limit(order: int, T: int) -> None:
    sides = set()
    for deviation in torch.linspace(0.2, 1.2, 11).tolist():
        q, k, v = operands(deviation, T, D=8)
        layer = TaylorAttention(32, 4, order=order, warn_above=LIMIT)
        passes = measured(q, k, v, order=order) > LIMIT
        sides.add(passes)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            layer.observe(AttentionRequest.make(q, k, v, order=order))
        assert [warning.category for warning in caught] == [SeriesWarning] * passes, deviation
    assert sides == {True, False}


def test_the_warning_says_what_to_do_and_comes_once() -> None:
    layer = TaylorAttention(12, 3)
    assert layer.watch is not None
    layer.watch.every = 1
    x = 9 * torch.randn(7, 2, 12)
    with pytest.warns(SeriesWarning, match=r"order 2 is \d+% away from softmax .* more than 5%.* order=4, or Hybrid"):
        layer(x)
    layer(x)  # a second warning would be an error


def test_only_some_calls_are_measured() -> None:
    watch = Watch(LIMIT, every=3)
    q = torch.zeros(1, 1, 1, 1)
    assert [watch.is_due(q) for _ in range(7)] == [True, False, False] * 2 + [True]
    assert all(Watch(LIMIT, every=1).is_due(q) for _ in range(3))


def test_nothing_is_measured_where_it_would_be_counted_faked_or_compiled() -> None:
    layer = TaylorAttention(12, 3)
    x = 9 * torch.randn(7, 2, 12)
    watch = layer.watch
    assert watch is not None
    counted = count(layer, x)
    layer.to("meta")(x.to("meta"))
    assert watch.calls == 0
    assert counted.flops == count(TaylorAttention(12, 3, warn_above=None), x).flops


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_layer_that_watches_compiles() -> None:
    torch.compiler.reset()
    layer = TaylorAttention(12, 3)
    x = 9 * torch.randn(7, 2, 12)
    compiled = torch.compile(layer, fullgraph=True, backend="eager", dynamic=False)
    answer, _ = compiled(x)
    with pytest.warns(SeriesWarning):
        assert torch.equal(answer, layer(x)[0])


def test_the_price_is_bounded() -> None:
    q, k, v = operands(0.4, T=4096, D=16)
    counted = count(lambda: series_error(q, k, v, pairs=2**16))
    # The logits of softmax and of the series, and the answers of softmax and of the difference.
    assert counted.flops <= 2 * 2**16 * (2 * 16 + 2 * 32)
    assert series_error(q, k, v, pairs=2**18) == pytest.approx(measured(q, k, v), rel=0.15)
    # At least one query of one text, and not the first: that one looks at a single key.
    assert series_error(q, k, v, pattern=CAUSAL, pairs=1) > 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("pattern", [FULL, CAUSAL], ids=lambda pattern: pattern.kind)
def test_near_a_limit_it_looks_at_more_queries_until_the_side_is_right(pattern: Pattern) -> None:
    wrong_by_few = 0
    for deviation in torch.linspace(0.36, 0.5, 60).tolist():
        q, k, v = operands(deviation, T=512, D=8, H=8)
        error = series_error(q, k, v, pattern=pattern, pairs=q.shape[1] * 512 * 512)
        few: dict[str, Any] = {"pattern": pattern, "pairs": q.shape[1] * 512 * 64}
        wrong_by_few += (series_error(q, k, v, **few) > LIMIT) != (error > LIMIT)
        assert (series_error(q, k, v, limit=LIMIT, **few) > LIMIT) == (error > LIMIT), (deviation, error)
    assert wrong_by_few > 0


def test_it_looks_at_no_more_queries_than_it_takes() -> None:
    q, k, v = operands(1.0, T=2048, A=2, D=8, H=8)
    few = count(lambda: series_error(q, k, v, pairs=2**19)).flops
    assert count(lambda: series_error(q, k, v, pairs=2**19, limit=LIMIT)).flops == few  # 39 % is no matter of doubt
    assert count(lambda: series_error(q, k, v, pairs=2**19, limit=series_error(q, k, v))).flops > few


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("T", [0, 1, 2, 63, 1000, 131072])
@pytest.mark.parametrize("most", [0, 1, 7, 256, 2000])
def test_the_queries_looked_at_stand_for_all(T: int, most: int, alike: bool) -> None:
    positions, weight = _positions(T, most, alike)
    assert len(positions) <= max(1, most)
    assert float(weight.sum()) == pytest.approx(T)
    assert positions.tolist() == sorted(set(positions.tolist()))
    assert all(0 <= place < T for place in positions)
    # Where the first ones matter most, they all are among them if there are enough of any.
    if not alike and most >= 256:
        assert set(range(min(T, 8))) <= set(positions.tolist())


def test_an_empty_text_has_no_error() -> None:
    q, k, v = (x[:, :, :0] for x in operands(1.0))
    assert series_error(q, k, v, pattern=CAUSAL, limit=LIMIT) == 0


def test_pads_behind_texts_are_no_queries() -> None:
    q, k, v = operands(0.8, T=40, D=4)
    packed = series_error(q, k, v, cu_seqlens=[0, 30, 33, 40])
    parts = list(zip(*(x.split([30, 3, 7], 2) for x in (q, k, v)), strict=True))
    wanted = [scaled_dot_product_attention(q, k, v) for q, k, v in parts]
    off = [taylor_attention(q, k, v) - answer for (q, k, v), answer in zip(parts, wanted, strict=True)]
    assert packed == pytest.approx(float(torch.cat(off, 2).norm() / torch.cat(wanted, 2).norm()), rel=1e-4)


def test_it_looks_where_attention_looks() -> None:
    q, k, v = operands(0.8, T=40, D=4)
    padding = (torch.arange(40) >= 30)[None]
    cut = series_error(q, k[:, :, :30], v[:, :, :30])
    assert series_error(q, k, v, key_padding_mask=padding) == pytest.approx(cut, rel=1e-5)
    assert series_error(q, k, v, key_padding_mask=torch.ones(1, 40).bool()) == 0
    parts = [x.view(1, 4, 2, 20, -1).transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
    ends = series_error(q, k, v, cu_seqlens=[0, 20, 40], pattern=CAUSAL)
    assert ends == pytest.approx(series_error(*parts, pattern=CAUSAL), rel=1e-5)
    shared = series_error(q, k[:, :2], v[:, :2], pattern=Pattern("block-causal", window_size=7), offset=3)
    alone = series_error(
        q,
        k[:, :2].repeat_interleave(2, 1),
        v[:, :2].repeat_interleave(2, 1),
        pattern=Pattern("block-causal", window_size=7),
        offset=3,
    )
    assert shared == pytest.approx(alone, rel=1e-5)


def test_a_low_temperature_keeps_the_series_close() -> None:
    layer = TaylorAttention(64, 4, qk_norm=True)
    assert layer.temperature is not None
    assert torch.allclose(layer.temperature, torch.full((4,), 16**0.5 / 4))
    layer(9 * torch.randn(300, 1, 64))  # no warning, however large the inputs
