"""Every call of the series and of the hybrid is refused in words, or right: answers, gradients and states."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from tests.layers.closeness import attention_errors, error
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers import (
    HybridAttention,
    TaylorAttention,
    hybrid_attention,
    hybrid_decode,
    taylor_attention,
    taylor_decode,
)
from porism.layers.attention.hybrid import naive as hybrid_naive
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.softmax import KVCache
from porism.layers.attention.taylor import naive as taylor_naive
from porism.layers.attention.taylor import series_error

EXACT = 1e-12
W = 3
ATTEND: dict[str, Callable[..., Any]] = {"taylor": taylor_attention, "hybrid": partial(hybrid_attention, window_size=W)}
DECODE: dict[str, Callable[..., Any]] = {"taylor": taylor_decode, "hybrid": partial(hybrid_decode, window_size=W)}
NAIVE: dict[str, Callable[..., Tensor]] = {
    "taylor": taylor_naive.taylor_attention,
    "hybrid": partial(hybrid_naive.hybrid_attention, window_size=W),
}
LAYERS: dict[str, Callable[..., Any]] = {
    "taylor": partial(TaylorAttention, 12, 3, warn_above=None, batch_first=True),
    "hybrid": partial(HybridAttention, 12, 3, window_size=W, batch_first=True),
}
each = pytest.mark.parametrize("name", ATTEND)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def draw(T: int = 7, S: int = 7, B: int = 2, D: int = 3, H: int = 2) -> list[Tensor]:
    sizes = (B, 2, T, D), (B, 2, S, D), (B, 2, S, H)
    return [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]


def assert_equal(found: Tensor, wanted: Tensor, variables: list[Tensor]) -> None:
    """Answers, and the gradients of the variables."""
    errors = attention_errors(found, wanted, variables)
    assert all(error <= EXACT for error in errors), errors


def calls(*names: str) -> Iterator[Callable[..., Any]]:
    """Of each name, the function, the decoder and the constructor of the layer, and the measurement of the series."""
    for name in names:
        yield lambda name=name, **options: ATTEND[name](*draw(), **options)
        yield lambda name=name, **options: DECODE[name](*draw(), **options)
        yield LAYERS[name]
    if "taylor" in names:
        yield lambda **options: series_error(*draw(), **options)


def refused(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    with pytest.raises(ShapeError) as caught:
        call(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@each
@pytest.mark.parametrize("part", ["q", "k", "v"])
def test_operands_that_no_kernel_may_read_are_refused(name: str, part: str) -> None:
    changes: list[Callable[[Tensor], Any]] = [
        lambda x: x.to("meta"),
        lambda x: x.long(),
        lambda x: x.bool(),
        lambda x: x.to(torch.complex128),
        lambda x: x.float(),
        lambda x: x.to_sparse(),
        lambda x: x[0],
        lambda x: x.numpy(),
    ]
    for other in changes:
        for call in (ATTEND[name], DECODE[name], series_error):
            given = dict(zip("qkv", (x.detach() for x in draw()), strict=True))
            given[part] = other(given[part])
            assert refused(call, *given.values()).startswith("taylor: " if call is series_error else f"{name}: ")


@each
def test_integers_bools_and_complex_numbers_are_refused_alike_for_all(name: str) -> None:
    for dtype in (torch.int64, torch.uint8, torch.bool, torch.complex128):
        x = torch.arange(6).view(1, 1, 3, 2).to(dtype)
        for call in (ATTEND[name], DECODE[name], series_error):
            assert "is torch." in refused(call, x, x, x)


@each
def test_padding_is_bool_or_minus_infinity_and_on_the_device_of_the_keys(name: str) -> None:
    q, k, v = draw()
    padding = torch.zeros(2, 7).bool()
    for wrong in (
        *(padding.to(dtype) for dtype in (torch.uint8, torch.int32, torch.int64)),
        padding.to("meta"),
        padding[:1],
        padding[:, :6],
        padding.tolist(),
    ):
        for call in (ATTEND[name], DECODE[name], series_error):
            assert "key_padding_mask is" in refused(call, q, k, v, key_padding_mask=wrong)
    for call in (ATTEND[name], DECODE[name], series_error):
        assert "key_padding_mask adds 1" in refused(call, q, k, v, key_padding_mask=padding.float() + 1)


NO_NUMBER = [True, 2.0, math.nan, math.inf, "2", 10**30, -(10**30), None, [2], torch.tensor(2)]


@pytest.mark.parametrize("value", NO_NUMBER, ids=repr)
def test_settings_that_are_no_whole_numbers_are_refused(value: Any) -> None:
    for call in calls("taylor", "hybrid"):
        assert "Give a whole number from" in refused(call, order=value)
    for call in calls("hybrid"):
        expected = "Give window_size=64 or so" if value is None else "Give a whole number from"
        assert expected in refused(call, window_size=value)
    for attend in ATTEND.values():
        assert "Give a whole number from" in refused(attend, *draw(), offset=value)
    assert "Give a whole number from" in refused(series_error, *draw(), pairs=value)


@pytest.mark.parametrize("value", ["yes", 1, None, 0.5], ids=repr)
def test_permission_for_odd_orders_is_yes_or_no(value: Any) -> None:
    for call in calls("taylor", "hybrid"):
        assert "expected True or False" in refused(call, allow_odd=value)


@pytest.mark.parametrize("value", [True, 2, math.nan, ["rolled"], "Rolled"], ids=repr)
def test_a_map_that_is_none_is_refused(value: Any) -> None:
    for call in calls("taylor"):
        assert "there is no map" in refused(call, feature_map=value)


@pytest.mark.parametrize("value", [True, False, math.nan, math.inf, "0.05", 0, -1, [0.05], 1j], ids=repr)
def test_a_limit_that_is_no_error_is_refused(value: Any) -> None:
    assert "Give an error above 0" in refused(TaylorAttention, 12, 3, warn_above=value)
    assert "Give an error above 0" in refused(series_error, *draw(), limit=value)


@pytest.mark.parametrize("value", ["causal", 3], ids=repr)
def test_a_pattern_that_is_none_is_refused(value: Any) -> None:
    for name in ATTEND:
        assert "expected a Pattern" in refused(ATTEND[name], *draw(), pattern=value)
        assert "expected a Pattern" in refused(LAYERS[name], pattern=value)
    assert "expected a Pattern" in refused(DECODE["hybrid"], *draw(), pattern=value)
    assert "expected a Pattern" in refused(series_error, *draw(), pattern=value)


def test_more_features_than_a_tensor_can_have_are_refused() -> None:
    functions: list[Callable[..., Any]] = [*ATTEND.values(), *DECODE.values(), series_error]
    for call in functions:
        assert "order 20 at width 64 has" in refused(call, *draw(D=64), order=20)


@each
@pytest.mark.parametrize(("B", "T", "S"), [(0, 7, 7), (2, 0, 0), (2, 0, 5), (2, 5, 0), (0, 0, 0)])
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=lambda pattern: pattern.kind)
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
def test_empty_sizes_have_answers_and_gradients(
    name: str, B: int, T: int, S: int, pattern: Pattern, padded: bool
) -> None:
    operands = draw(T, S, B)
    padding = torch.ones(B, S).bool() if padded else None
    answer = ATTEND[name](*operands, pattern=pattern, key_padding_mask=padding)
    assert answer.shape == (B, 2, T, 2)
    assert not answer.any()
    gradients = torch.autograd.grad(answer.sum(), operands)
    assert [x.shape for x in gradients] == [x.shape for x in operands]
    assert not any(x.any() for x in gradients)
    if T == S:
        for state in (None, DECODE[name](*draw(4, 4, B))[1]):
            answer, _ = DECODE[name](*operands, state, key_padding_mask=padding)
            assert answer.shape == (B, 2, T, 2)
            assert all(x.isfinite().all() for x in torch.autograd.grad(answer.sum(), operands))


@each
@pytest.mark.parametrize(("B", "T"), [(0, 5), (2, 0), (0, 0)])
def test_layers_answer_empty_batches_and_texts(name: str, B: int, T: int) -> None:
    layer = LAYERS[name](num_kv_heads=1)
    x = torch.randn(B, T, 12, requires_grad=True)
    for causal in (True, False):
        y, _ = layer(x, is_causal=causal)
        assert y.shape == (B, T, 12)
        y.sum().backward()
        assert all(parameter.grad is not None for parameter in layer.parameters())
    y, state = layer.decode(x)
    y, _ = layer.decode(x, state)
    assert y.shape == (B, T, 12)
    y.sum().backward()
    if name == "taylor":
        TaylorAttention(12, 3, batch_first=True)(x)  # which measures itself


@each
def test_float64_is_left_alone_by_autocast(name: str) -> None:
    layer, x = LAYERS[name](dtype=torch.float64), torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    wanted = layer(x, is_causal=True)[0]
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x, is_causal=True)[0]
        decoded, state = layer.decode(x[:, :3])
        decoded, _ = layer.decode(x[:, 3:], state)
    assert torch.equal(found, wanted)
    assert (error(decoded, wanted[:, 3:]) <= EXACT, decoded.dtype) == (True, torch.float64)
    slopes = [torch.autograd.grad(y.sum(), x)[0] for y in (found, wanted)]
    assert torch.equal(*slopes)


CHANGES: dict[str, Callable[[Tensor], Any]] = {
    "mul_": lambda y: y.mul_(2),
    "relu_": lambda y: y.relu_(),
    "part": lambda y: y[:, :, :2].mul_(3),
    "view": lambda y: y.transpose(1, 2).flatten(2).add_(1).relu_(),
    "twice": lambda y: y.mul_(2).sigmoid_(),
}


@each
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=lambda pattern: pattern.kind)
def test_answers_may_be_changed_in_place(name: str, change: str, pattern: Pattern) -> None:
    operands = draw()
    found = ATTEND[name](*operands, pattern=pattern)
    # Tokens stand before heads in memory, as a projection reads them.
    assert found.transpose(1, 2).is_contiguous()
    wanted = NAIVE[name](*operands, pattern=pattern).transpose(1, 2).clone(memory_format=torch.contiguous_format)
    wanted = wanted.transpose(1, 2)
    for answer in (found, wanted):
        CHANGES[change](answer)
    assert_equal(found, wanted, operands)


@each
def test_decoded_answers_and_those_of_a_layer_without_output_may_be_changed_too(name: str) -> None:
    operands = draw()
    answer, state = DECODE[name](*operands)
    later, _ = DECODE[name](*operands, state)
    wanted = NAIVE[name](*(torch.cat([x, x], 2) for x in operands), pattern=CAUSAL)
    found = torch.cat([answer.mul_(2), later.mul_(2)], 2)
    assert_equal(found, 2 * wanted, operands)
    layer = LAYERS[name](out_proj=False, dtype=torch.float64)
    x = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    found, wanted = layer(x)[0].relu_(), layer(x)[0].relu()
    assert torch.equal(found, wanted)
    assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (found, wanted)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile itself calls what torch deprecates
@each
def test_a_compiled_answer_may_be_changed_in_place(name: str) -> None:
    torch.compiler.reset()
    operands = draw()

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        answer: Tensor = ATTEND[name](q, k, v, pattern=CAUSAL)
        return answer.mul_(2).relu_()

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager", dynamic=False)
    wanted = (2 * NAIVE[name](*operands, pattern=CAUSAL)).relu()
    assert_equal(compiled(*operands), wanted, operands)


@each
@pytest.mark.parametrize("start", [0.7, -0.4, 0.0])
def test_a_learned_scale_learns(name: str, start: float) -> None:
    operands = draw()
    scale = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    q, k, v = operands
    wanted = NAIVE[name](scale * q, k, v, pattern=CAUSAL, scale=1.0)
    found = ATTEND[name](q, k, v, pattern=CAUSAL, scale=scale)
    assert_equal(found, wanted, [*operands, scale])
    first, state = DECODE[name](*(x[:, :, :4] for x in operands), scale=scale)
    second, _ = DECODE[name](*(x[:, :, 4:] for x in operands), state, scale=scale)
    assert_equal(torch.cat([first, second], 2), wanted, [*operands, scale])


@each
def test_a_layer_learns_its_scale(name: str) -> None:
    scale = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    layer = LAYERS[name](scale=scale, dtype=torch.float64)
    fixed = LAYERS[name](scale=0.3, dtype=torch.float64)
    fixed.load_state_dict({key: value for key, value in layer.state_dict().items() if key != "scale"})
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    assert error(layer(x)[0], fixed(x)[0]) <= EXACT
    step = 1e-6
    above, below = (
        LAYERS[name](scale=0.3 + change, dtype=torch.float64).requires_grad_(False) for change in (step, -step)
    )
    losses = []
    for moved in (above, below):
        moved.load_state_dict(fixed.state_dict())
        losses.append(moved(x, is_causal=True)[0].square().sum())
    (slope,) = torch.autograd.grad(layer(x, is_causal=True)[0].square().sum(), scale)
    assert slope == pytest.approx(float(losses[0] - losses[1]) / (2 * step), rel=1e-6)


def test_the_series_measures_a_layer_with_a_learned_scale() -> None:
    scale = nn.Parameter(torch.tensor(0.1))
    layer = TaylorAttention(12, 3, scale=scale, batch_first=True)
    layer(0.1 * torch.randn(2, 5, 12))[0].sum().backward()
    assert scale.grad is not None
    q, k, v = (x.float() for x in draw())
    assert series_error(q, k, v, scale=scale) == pytest.approx(series_error(q, k, v, scale=0.1), rel=1e-4)


def tensors(state: Any) -> Iterator[Tensor]:
    for part in state:
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, tuple | KVCache):
            yield from tensors(part)


@each
def test_a_state_is_nobody_elses_memory(name: str) -> None:
    for steps in ([2], [7], [1, 1], [4, 1], [2, 0]):
        given = [x.detach() for x in draw(sum(steps), sum(steps))]
        parts = [list(x.split(steps, 2)) for x in given]
        pads = torch.zeros(2, sum(steps)).bool()
        state = None
        for q, k, v, padding in zip(*parts, pads.split(steps, 1), strict=True):
            _, state = DECODE[name](q, k, v, state, key_padding_mask=padding)
        assert state is not None
        before = [x.clone() for x in tensors(state)]
        new = [x.detach() for x in draw(1, 1)]
        wanted = DECODE[name](*new, state)[0]
        for x in given:
            x.fill_(9)
        pads.fill_(True)
        assert all(torch.equal(*pair) for pair in zip(tensors(state), before, strict=True))
        # And used twice it gives the same twice.
        assert torch.equal(DECODE[name](*new, state)[0], wanted)
        assert all(torch.equal(*pair) for pair in zip(tensors(state), before, strict=True))


def test_a_state_is_taken_by_the_layer_that_it_is_of_and_by_no_other() -> None:
    q, k, v = (x.detach() for x in draw(D=1, H=3))
    _, rolled = taylor_decode(q, k, v)
    _, hybrid = hybrid_decode(q, k, v, window_size=3)
    _, fourth = taylor_decode(q, k, v, order=4)
    # At width 1 all maps of an order have as many features.
    assert rolled.sums.shape == taylor_decode(q, k, v, feature_map="exact")[1].sums.shape
    message = "of order 2 and the rolled map, expected order 2 and the exact map"
    assert message in refused(taylor_decode, q, k, v, rolled, feature_map="exact")
    assert message in refused(taylor_attention, q, k, v, initial_state=rolled, feature_map="exact")
    assert "expected (2, 2, 3, 3)" in refused(taylor_decode, q, k, v, fourth)
    assert "of window_size 3, and window_size is 4" in refused(hybrid_decode, q, k, v, hybrid, window_size=4)
    for call, state in (
        (taylor_decode, hybrid),
        (taylor_decode, tuple(rolled)),
        (DECODE["hybrid"], rolled),
        (DECODE["hybrid"], hybrid.near),
        (DECODE["hybrid"], (hybrid.near, hybrid.far)),
    ):
        assert "the state is a " in refused(call, q, k, v, state)
    # One made by hand, without a name for what it is of, has to have the sizes.
    unnamed = type(rolled)(rolled.sums, rolled.weights)
    assert torch.equal(taylor_decode(q, k, v, unnamed)[0], taylor_decode(q, k, v, rolled)[0])
    assert torch.equal(
        hybrid_decode(q, k, v, type(hybrid)(hybrid.near, unnamed_far(hybrid)), window_size=3)[0],
        hybrid_decode(q, k, v, hybrid, window_size=3)[0],
    )


def unnamed_far(state: Any) -> Any:
    return type(state.far)(state.far.sums, state.far.weights)


@each
def test_a_state_of_another_batch_type_or_device_is_refused(name: str) -> None:
    new = [x.detach() for x in draw()]
    decode = DECODE[name]
    _, state = decode(*(x.float() for x in new))
    assert "float32" in refused(decode, *new, state)
    _, state = decode(*new)
    assert "the state " in refused(decode, *(x[:1] for x in new), state)
    assert "the state " in refused(decode, *(x.float() for x in new), state)
    assert "the state " in refused(decode, *(x.to("meta") for x in new), state)
    far = state if name == "taylor" else state.far
    for wrong in (
        far._replace(weights=far.weights.to("meta")),
        far._replace(sums=far.sums.float()),
        far._replace(weights=far.weights[:1]),
    ):
        assert "the state " in refused(decode, *new, wrong if name == "taylor" else state._replace(far=wrong))
