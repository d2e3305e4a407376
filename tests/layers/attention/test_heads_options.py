"""What Heads has beyond nn.MultiheadAttention: sizes of its own, normalised heads, decoding, packed sequences."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests import needs
from tests.layers.attention.auto.conftest import device  # noqa: F401  # nothing is measured here
from tests.layers.attention.kinds_of_heads import PADDING, A, B, E, S, T, assert_same, each_kind
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers import Attention, HybridAttention, TaylorAttention, WindowAttention, kernels, softmax_attention
from porism.layers.attention.heads import Heads
from porism.layers.attention.pattern import CAUSAL

pytestmark = pytest.mark.usefixtures("double")


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


def test_sizes_of_numpy_are_taken() -> None:
    layer = Attention(np.int64(E), np.int64(A), kdim=np.int64(5))  # type: ignore[arg-type]
    assert (type(layer.embed_dim), type(layer.head_dim), type(layer.kdim)) == (int, int, int)
    assert layer(torch.randn(T, B, E), torch.randn(S, B, 5), torch.randn(S, B, E))[0].shape == (T, B, E)


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
