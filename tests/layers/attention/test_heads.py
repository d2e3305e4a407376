"""Heads is nn.MultiheadAttention: the same calls, the same weights, the same numbers; and what that one lacks."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests import needs
from tests.layers.attention.auto.conftest import device  # noqa: F401  # nothing is measured here
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers import (
    Attention,
    AutoAttention,
    HybridAttention,
    TaylorAttention,
    WindowAttention,
    kernels,
    softmax_attention,
)
from porism.layers.attention.heads import Heads
from porism.layers.attention.method import Method
from porism.layers.attention.pattern import CAUSAL, Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes
from porism.testing.gradients import relative_error

E, A, B, T, S = 12, 3, 2, 7, 5
OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"batch_first": True},
    {"kdim": 5},
    {"vdim": 4, "batch_first": True},
    {"kdim": 5, "vdim": 4, "bias": False},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)
PADDING = torch.arange(S) >= torch.tensor([[3], [5]])


class Values(Heads):
    """The least that a kind of attention can do: each query gets the mean of all values."""

    class Mean(Method):
        name = "mean"
        exact = False

        def serves(self, sizes: RequestSizes) -> bool:
            return True

        def attend(self, request: AttentionRequest) -> Tensor:
            return request.v.mean(2, keepdim=True).expand(-1, -1, request.q.shape[2], -1)

        def work(self, sizes: RequestSizes) -> dict[str, float]:
            return {"flops": float(sizes.heads * sizes.S * sizes.H)}

        def trials(self, kind: str, device: str) -> list[RequestSizes]:  # noqa: F811
            return []

    method = Mean()


pytestmark = pytest.mark.usefixtures("double")


def twins(options: dict[str, Any], dtype: torch.dtype = torch.float64) -> tuple[nn.MultiheadAttention, Attention]:
    theirs = nn.MultiheadAttention(E, A, **options)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)  # biases too: zeros would hide them
    ours = Attention(E, A, **options)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return theirs.to(dtype), ours.to(dtype)


def inputs(options: dict[str, Any], unbatched: bool = False, dtype: torch.dtype = torch.float64) -> list[Any]:
    lengths = [(T, E), (S, options.get("kdim", E)), (S, options.get("vdim", E))]
    batch_first = options.get("batch_first")
    shapes = [(n, w) if unbatched else (B, n, w) if batch_first else (n, B, w) for n, w in lengths]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def assert_same(found: Tensor | None, wanted: Tensor | None, tolerance: float = 1e-12) -> None:
    assert found is not None
    assert wanted is not None
    assert found.shape == wanted.shape
    assert relative_error(found, wanted) <= tolerance


@each_option
@pytest.mark.parametrize("unbatched", [False, True], ids=["batch", "no batch"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)], ids=["float64", "float32"]
)
def test_equals_multihead_attention(
    options: dict[str, Any], unbatched: bool, dtype: torch.dtype, tolerance: float
) -> None:
    theirs, ours = twins(options, dtype)
    operands = inputs(options, unbatched, dtype)
    query, key, value = operands
    found, wanted = (layer(query, key, value, None, False)[0] for layer in (ours, theirs))
    assert_same(found, wanted, tolerance)
    gradients = [torch.autograd.grad(answer.square().sum(), operands) for answer in (found, wanted)]
    for found, wanted in zip(*gradients, strict=True):
        assert_same(found, wanted, tolerance)


@pytest.mark.parametrize("unbatched", [False, True], ids=["batch", "no batch"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "weights"])
@pytest.mark.parametrize("mask", ["none", "bool", "float", "each head", "padding", "bool and padding"])
def test_masks_are_those_of_multihead_attention(mask: str, need_weights: bool, unbatched: bool) -> None:
    theirs, ours = twins({})
    hidden = torch.rand(T, S) < 0.4
    hidden[:, 0] = False  # nn.MultiheadAttention has NaN where a query sees nothing
    masks = {
        "bool": hidden,
        "float": torch.randn(T, S).masked_fill(hidden, -torch.inf),
        "each head": torch.randn(A if unbatched else B * A, T, S),
        "bool and padding": hidden,
    }
    named: dict[str, Any] = {"attn_mask": masks.get(mask)}
    if "padding" in mask:
        named["key_padding_mask"] = PADDING[0] if unbatched else PADDING
    for average in (True, False):
        operands = inputs({}, unbatched)
        named |= {"need_weights": need_weights, "average_attn_weights": average}
        (found, found_weights), (wanted, wanted_weights) = ours(*operands, **named), theirs(*operands, **named)
        assert_same(found, wanted)
        if need_weights:
            assert_same(found_weights, wanted_weights)
        else:
            assert found_weights is None


def test_causal_with_and_without_the_mask_beside_it() -> None:
    theirs, ours = twins({})
    x = torch.randn(T, B, E)
    mask = nn.Transformer.generate_square_subsequent_mask(T)
    wanted, weights = theirs(x, x, x, attn_mask=mask, is_causal=True)
    assert_same(ours(x, is_causal=True)[0], wanted)
    assert_same(ours(x, attn_mask=mask, is_causal=True)[0], wanted)
    assert_same(ours(x, is_causal=True, need_weights=True)[1], weights)


@each_option
def test_the_same_seed_gives_the_same_weights(options: dict[str, Any]) -> None:
    states = []
    for kind in (Attention, nn.MultiheadAttention):
        torch.manual_seed(5)
        states.append(kind(E, A, **options).state_dict())
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_takes_the_place_inside_a_transformer(training: bool, padded: bool) -> None:
    layer = nn.TransformerEncoderLayer(E, 2, dim_feedforward=7, dropout=0.0, batch_first=True).train(training)
    x, padding = torch.randn(B, S, E), PADDING if padded else None
    wanted = layer(x, src_key_padding_mask=padding)
    attention = Attention(E, 2, batch_first=True)
    attention.load_state_dict(layer.self_attn.state_dict())
    layer.self_attn = attention  # type: ignore[assignment]
    found = layer.train(training)(x, src_key_padding_mask=padding)
    # On the way through its own kernel, torch answers 0 on pads.
    seen = torch.ones(B, S).bool() if padding is None or training else ~padding
    assert_same(found[seen], wanted[seen])


def test_a_transformer_does_not_take_the_weights_past_the_layer() -> None:
    # Without gradients torch would run softmax attention of 2 heads on these weights, whatever layer has them.
    layer = nn.TransformerEncoderLayer(E, 2, dim_feedforward=8, dropout=0.0, batch_first=True)
    layer.self_attn = Values(E, 2, batch_first=True)  # type: ignore[assignment]
    x = torch.randn(B, S, E)
    wanted = layer(x)
    with torch.no_grad():
        assert_same(layer.eval()(x), wanted)


def test_a_query_without_a_key_gives_zero_and_no_gradient() -> None:
    layer = Attention(E, A, out_proj=False, batch_first=True)
    x = torch.randn(B, S, E, requires_grad=True)
    padding = torch.tensor([[True] * S, [False] * S])
    for need_weights in (False, True):
        y, weights = layer(x, key_padding_mask=padding, need_weights=need_weights)
        assert not y[0].any()
        assert y[1].all()
        (dx,) = torch.autograd.grad(y.sum(), x)
        assert not dx[0].any()
        assert weights is None or not weights[0].any()


def test_sizes_of_ones_own() -> None:
    layer = Attention(E, 5, num_kv_heads=1, head_dim=4, v_head_dim=7, kdim=3, scale=1.0, batch_first=True)
    shapes = {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()}
    assert shapes == {
        "q_proj_weight": (20, E),
        "k_proj_weight": (4, 3),
        "v_proj_weight": (7, E),
        "in_proj_bias": (31,),
        "out_proj.weight": (E, 35),
        "out_proj.bias": (E,),
    }
    x, z, w = torch.randn(B, T, E), torch.randn(B, S, 3), torch.randn(B, S, E)
    q = (x @ layer.q_proj_weight.mT).view(B, T, 5, 4).transpose(1, 2)
    k, v = (z @ layer.k_proj_weight.mT)[:, None], (w @ layer.v_proj_weight.mT)[:, None]
    heads = softmax_attention(q, k, v, scale=1.0)
    assert_same(layer(x, z, w)[0], layer.out_proj(heads.transpose(1, 2).reshape(B, T, 35)))  # type: ignore[misc]


def test_without_an_output_projection_the_heads_stand_side_by_side() -> None:
    whole, bare = Attention(E, A, bias=False), Attention(E, A, bias=False, out_proj=False)
    bare.load_state_dict({"in_proj_weight": whole.in_proj_weight})
    x = torch.randn(T, B, E)
    assert whole.out_proj is not None
    assert_same(whole.out_proj(bare(x)[0]), whole(x)[0])


def test_normalised_heads_know_directions_and_a_temperature() -> None:
    layer = Attention(E, A, qk_norm=True, bias=False, out_proj=False, batch_first=True)
    assert layer.temperature is not None
    assert torch.equal(layer.temperature, torch.full((A,), (E // A) ** 0.5))
    nn.init.uniform_(layer.temperature, 0.5, 3)
    x = torch.randn(B, T, E, requires_grad=True)
    q, k, v = (part.unflatten(-1, (A, -1)).transpose(1, 2) for part in (x @ layer.in_proj_weight.mT).chunk(3, -1))
    cosine = nn.functional.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1)
    weights = torch.softmax(layer.temperature[:, None, None] * cosine, -1)
    assert_same(layer(x)[0], (weights @ v).transpose(1, 2).flatten(2))
    assert_same(layer(x, 100 * x, x)[0], layer(x)[0])
    (slope,) = torch.autograd.grad(layer(x)[0].sum(), layer.temperature)
    assert slope.all()


def test_normalised_heads_run_under_autocast() -> None:
    layer = Attention(E, A, qk_norm=True).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(2, 1, E, dtype=torch.float32), is_causal=True)[0].dtype == torch.bfloat16


@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 1, "v_head_dim": 2}, {"qk_norm": True}], ids=str)
@pytest.mark.parametrize("layout", ["T B", "B T", "T"])
def test_decoding_equals_the_causal_pass(options: dict[str, Any], layout: str) -> None:
    layer = Attention(E, A, batch_first=layout == "B T", dropout=0.5, **options).eval()
    x = torch.randn({"T B": (T, B, E), "B T": (B, T, E), "T": (T, E)}[layout])
    along = layout.split().index("T")
    state, answers = None, []
    for part in x.split([1, 3, 1, 1, 1], along):
        answer, state = layer.decode(part, state)
        answers.append(answer)
    assert_same(torch.cat(answers, along), layer(x, is_causal=True)[0])


def test_texts_end_to_end() -> None:
    layer = Attention(E, A, batch_first=True)
    x = torch.randn(1, T, E)
    found, _ = layer(x, is_causal=True, cu_seqlens=[0, 3, T])
    assert_same(found, torch.cat([layer(text, is_causal=True)[0] for text in x.split([3, T - 3], 1)], 1))


def test_weights_are_dropped_in_training_alone() -> None:
    layer = Attention(E, A, dropout=0.5)
    x = torch.randn(T, B, E)
    for need_weights in (False, True):
        assert not torch.equal(*(layer.train()(x, need_weights=need_weights)[0] for _ in range(2)))
        assert torch.equal(*(layer.eval()(x, need_weights=need_weights)[0] for _ in range(2)))


def test_what_a_layer_without_a_square_cannot_give_is_refused() -> None:
    layer, x = Values(E, A), torch.randn(T, B, E)
    assert layer(x)[0].shape == x.shape
    with pytest.raises(
        ShapeError, match="Values never holds all pairs, and need_weights=True asks for them. Leave it out, or take"
    ):
        layer(x, need_weights=True)
    with pytest.raises(ShapeError, match="Values never holds all pairs, and attn_mask asks for them"):
        layer(x, attn_mask=torch.zeros(T, T))
    with pytest.raises(ShapeError, match="Values never holds all pairs, and attn_mask, which is not the causal one,"):
        layer(x, attn_mask=torch.zeros(T, T), is_causal=True)


def test_masks_that_cannot_be_followed_are_refused() -> None:
    layer, x = Attention(E, A), torch.randn(T, 1, E)
    with pytest.raises(ShapeError, match="key_padding_mask adds 0.5, expected -inf for a pad and 0 for a key. Give a"):
        layer(x, key_padding_mask=torch.full((1, T), 0.5))
    with pytest.raises(ShapeError, match="cu_seqlens came with need_weights. Pad the sequences with"):
        layer(x, need_weights=True, cu_seqlens=[0, T])
    with pytest.raises(ShapeError, match=r"key_padding_mask is \(1, 6\), expected \(1, 7\)"):
        layer(x, key_padding_mask=torch.zeros(1, 6).bool())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiles_with_everything_on() -> None:
    torch.compiler.reset()
    layer = Attention(E, A, num_kv_heads=1, v_head_dim=2, qk_norm=True, batch_first=True)
    x, padding = torch.randn(B, S, E, requires_grad=True), torch.zeros(B, S).masked_fill(PADDING, -torch.inf)

    def call(x: Tensor) -> Tensor:
        answer: Tensor = layer(x, key_padding_mask=padding, is_causal=True)[0]
        return answer

    found, wanted = torch.compile(call, fullgraph=True, backend="aot_eager")(x), call(x)
    assert_same(found, wanted)
    found_slope, wanted_slope = (torch.autograd.grad(y.sum(), x)[0] for y in (found, wanted))
    assert_same(found_slope, wanted_slope)


def test_the_description_tells_the_sizes() -> None:
    text = repr(Attention(E, A, num_kv_heads=1))
    assert text.startswith(
        "Attention(\n  12, 3, dropout=0.0, kdim=12, vdim=12, batch_first=False, num_kv_heads=1, head_dim=4"
    )


def test_the_description_tells_which_code_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [
        TaylorAttention(32, 2, pattern=CAUSAL).float(),
        HybridAttention(32, 2, window_size=4, pattern=CAUSAL).float(),
        WindowAttention(32, 2, window_size=4).float(),
    ]
    assert all("kernel='torch'" in repr(layer) for layer in layers)
    monkeypatch.setattr(kernels, "DEVICES", {"cpu"})
    needs.triton()
    assert all("kernel='triton'" in repr(layer) for layer in layers)
    # No kernel has an order of 4, doubles, or attends ahead with both kinds of weights.
    others = [
        TaylorAttention(32, 2, order=4).float(),
        TaylorAttention(32, 2).double(),
        HybridAttention(32, 2, window_size=4).float(),
        Attention(32, 2).float(),
    ]
    assert all("kernel='torch'" in repr(layer) for layer in others)


KINDS: dict[str, Callable[..., Heads]] = {
    "softmax": lambda **options: Attention(E, A, **options),
    "window": lambda **options: WindowAttention(E, A, window_size=3, **options),
    "blocks": lambda **options: WindowAttention(E, A, pattern=Pattern("block", 3, is_causal=True), **options),
    "auto": lambda **options: AutoAttention(E, A, **options),
    "auto window": lambda **options: AutoAttention(E, A, pattern=Pattern("sliding", window_size=3), **options),
}
each_kind = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)


@each_kind
@pytest.mark.parametrize("start", [0.5, -0.5, 0.0], ids=str)
def test_a_scale_is_learned(build: Callable[..., Heads], start: float) -> None:
    layer = build(scale=nn.Parameter(torch.tensor(start)))
    assert [name for name, _ in layer.named_parameters()].count("scale") == 1
    x, weights = torch.randn(T, B, E), torch.randn(T, B, E)

    def decoded(x: Tensor) -> Tensor:
        first, state = layer.decode(x[:4])
        return torch.cat([first, layer.decode(x[4:], state)[0]])

    calls = [lambda x: layer(x)[0], lambda x: layer(x, is_causal=True)[0], decoded]
    if isinstance(layer, Attention):
        calls += [lambda x: layer(x, need_weights=True)[0], lambda x: layer(x, attn_mask=torch.zeros(T, T))[0]]
    for call in calls:
        assert isinstance(layer.scale, nn.Parameter)
        (found,) = torch.autograd.grad((call(x) * weights).sum(), layer.scale)
        step = 1e-6
        sums = []
        with torch.no_grad():
            for number in (start + step, start - step):
                layer.scale.fill_(number)
                sums.append(float((call(x) * weights).sum()))
            layer.scale.fill_(start)
        assert found == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=1e-6, abs=1e-6)


@each_kind
def test_a_learned_scale_is_copied_saved_and_told(build: Callable[..., Heads]) -> None:
    layer = build(scale=nn.Parameter(torch.tensor(0.5)))
    x = torch.randn(T, B, E)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), build(scale=nn.Parameter(torch.zeros(())))):
        twin.load_state_dict(layer.state_dict())
        assert twin.scale is not layer.scale
        assert torch.equal(twin(x)[0], layer(x)[0])
    assert "scale=Parameter" in repr(layer)
    half = copy.deepcopy(layer).bfloat16()
    assert isinstance(half.scale, nn.Parameter)
    (slope,) = torch.autograd.grad(half(x.bfloat16())[0].float().sum(), half.scale)
    assert slope.dtype == torch.bfloat16
    assert slope.isfinite()


@each_kind
def test_a_scale_that_is_a_tensor_goes_with_the_layer(build: Callable[..., Heads]) -> None:
    layer = build(scale=torch.tensor(0.5))
    assert "scale" not in layer.state_dict()
    assert "scale=Tensor" in repr(layer)
    x, twin = torch.randn(T, B, E), copy.deepcopy(layer)
    assert torch.equal(layer(x)[0], twin(x)[0])
    moved = twin.to("meta").scale
    assert isinstance(moved, Tensor)
    assert moved.is_meta


@each_kind
@pytest.mark.parametrize(
    "scale",
    [
        float("nan"),
        float("inf"),
        "1",
        True,
        torch.ones(2),
        torch.tensor(1),
        torch.tensor(torch.nan),
        nn.Parameter(torch.tensor(torch.inf)),
        torch.tensor(1.0, device="meta"),
    ],
    ids=str,
)
def test_a_scale_that_is_none_is_refused(build: Callable[..., Heads], scale: Any) -> None:
    with pytest.raises(ShapeError, match=r"^attention: scale is .*, expected "):
        build(scale=scale)
    layer = build()
    layer.scale = scale
    if not isinstance(scale, Tensor) or scale.numel() > 1 or scale.is_meta or not scale.is_floating_point():
        with pytest.raises(ShapeError, match=r"^attention: scale is .*, expected "):
            layer(torch.randn(T, B, E))


@each_kind
@pytest.mark.parametrize("dropout", [1.0, -0.1, float("nan"), "0.5", None], ids=repr)
def test_a_dropout_that_is_none_is_refused(build: Callable[..., Heads], dropout: Any) -> None:
    with pytest.raises(ShapeError, match=r"^attention: dropout is .*\. Give the probability of dropping"):
        build(dropout=dropout)
    layer = build()
    layer.dropout = dropout
    for need_weights in (False, True) if isinstance(layer, Attention) else (False,):
        with pytest.raises(ShapeError, match=r"^attention: dropout_p is .*\. Give the probability of dropping"):
            layer(torch.randn(T, B, E), need_weights=need_weights)


@pytest.mark.parametrize("name", ["embed_dim", "num_heads", "kdim", "vdim", "num_kv_heads", "head_dim", "v_head_dim"])
@pytest.mark.parametrize("size", [0, -1, 2.0, True, "2", float("nan"), 10**30, torch.tensor(2)], ids=repr)
def test_sizes_are_whole_numbers(name: str, size: Any) -> None:
    sizes: dict[str, Any] = {"embed_dim": 4, "num_heads": 2, "head_dim": 2, "v_head_dim": 2} | {name: size}
    with pytest.raises(ShapeError, match=rf"^attention: {name} is .*\. Give a whole number from 1 (on|to \d+)\.$"):
        Attention(**sizes)


def test_sizes_of_numpy_are_taken() -> None:
    layer = Attention(np.int64(E), np.int64(A), kdim=np.int64(5))  # type: ignore[arg-type]
    assert (type(layer.embed_dim), type(layer.head_dim), type(layer.kdim)) == (int, int, int)
    assert layer(torch.randn(T, B, E), torch.randn(S, B, 5), torch.randn(S, B, E))[0].shape == (T, B, E)


@each_kind
@pytest.mark.parametrize("part", ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"])
def test_a_part_that_was_never_materialised_is_refused(build: Callable[..., Heads], part: str) -> None:
    layer = build()
    *path, name = part.split(".")
    owner = layer.get_submodule(".".join(path))
    setattr(owner, name, nn.Parameter(getattr(owner, name).to("meta")))
    x = torch.randn(T, B, E)
    for call in (layer, layer.decode):
        with pytest.raises(ShapeError, match=rf"{part} is on meta, query on cpu, expected one device\."):
            call(x)


@each_kind
def test_inputs_on_another_device_or_of_another_kind_are_refused(build: Callable[..., Heads]) -> None:
    layer, x = build(), torch.randn(T, B, E)
    for query, key, value in ((x.to("meta"), x, x), (x, x.to("meta"), x), (x, x, x.to("meta"))):
        with pytest.raises(ShapeError, match=r"is on (meta|cpu), query on (meta|cpu), expected one device\."):
            layer(query, key, value)
    with pytest.raises(ShapeError, match=r"query is torch\.int64, expected one of float32"):
        layer(x.long())
    with pytest.raises(ShapeError, match=r"key is torch\.float32, expected one type|query is torch\.float64, key is"):
        layer(x, x.float(), x)
    with pytest.raises(ShapeError, match=r"query is a ndarray, expected a tensor"):
        layer(x.numpy())  # type: ignore[arg-type]


@each_kind
def test_float64_is_left_alone_by_autocast(build: Callable[..., Heads]) -> None:
    x = torch.randn(T, B, E, requires_grad=True)
    for options in ({}, {"qk_norm": True}, {"scale": nn.Parameter(torch.tensor(0.3))}):
        layer = build(**options)
        wanted = layer(x)[0]
        with torch.autocast("cpu", torch.bfloat16):
            found, (decoded, _) = layer(x)[0], layer.decode(x)
            with pytest.raises(
                ShapeError, match=r"query is torch\.float32, in_proj_weight is torch\.float64, expected one"
            ):
                layer(x.float())
        assert torch.equal(found, wanted)
        assert decoded.dtype == torch.float64
        assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (found, wanted)))


@each_kind
@pytest.mark.parametrize(("B", "T"), [(0, 7), (2, 0), (0, 0)])
def test_an_empty_batch_and_an_empty_text_are_answered(build: Callable[..., Heads], B: int, T: int) -> None:
    layer = build()
    x, other = torch.randn(T, B, E, requires_grad=True), torch.randn(5, B, E)
    for y in (layer(x)[0], layer(x, is_causal=True)[0], layer.decode(x)[0], layer(x, other)[0], layer(other, x)[0]):
        assert y.shape[1:] == (B, E)
        gradients = torch.autograd.grad(y.sum(), [x, *layer.parameters()], allow_unused=True)
        assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)
    if T == 0:
        # Without keys there is the bias of W_O and nothing else.
        assert not layer(other, x)[0].any()


@each_kind
def test_layers_can_be_copied(build: Callable[..., Heads]) -> None:
    layer, x = build(), torch.randn(T, B, E)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x)[0], layer(x)[0])
