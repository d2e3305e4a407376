"""What is counted equals what is worked out by hand, forward and backward, at sizes that hide no factor."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from porism.costing.counting.count import Count, count, total
from porism.costing.counting.recorder import PRODUCTS
from porism.errors import ShapeError
from porism.layers import Elman, Readout

# torch says so of every CSR matrix, once a process.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")

B, T, D, H, V = 3, 7, 10, 6, 11


class Case(NamedTuple):
    name: str
    build: Callable[[], tuple[Any, ...]]  # the function and its arguments
    forward: int
    backward: int
    device: str = "meta"


def real(*shape: int) -> Tensor:
    """An input that needs a gradient."""
    return torch.randn(*shape, requires_grad=True)


def lstm_layer(width: int, gates: int = 4) -> tuple[int, int]:
    """Both passes of a layer run step by step. Nobody asks for the gradient of the first state: T - 1 of T products."""
    forward = gates * 2 * B * T * H * (width + H)
    return forward, gates * 2 * B * H * (2 * T * width + (2 * T - 1) * H)


def attention_layer() -> tuple[int, int]:
    """Four projections of width D and two products of all heads together; the backward has two for each."""
    forward = 4 * 2 * B * T * D * D + 2 * 2 * B * T * T * D
    return forward, 2 * forward


def sparse(layout: torch.layout) -> Tensor:
    """D x D with the diagonal and one more: D + 1 stored."""
    dense = torch.eye(D)
    dense[0, 3] = 2.0
    return dense.to_sparse(layout=layout)


def ctc() -> tuple[Any, ...]:
    steps, labels = torch.tensor([T, T - 1, T - 2]), torch.tensor([2, 1, 0])
    return (
        lambda x: functional.ctc_loss(x.log_softmax(-1), torch.ones(B, 2, dtype=torch.long), steps, labels),
        real(T, B, V),
    )


CTC_STATES = T * 5 + (T - 1) * 3 + (T - 2) * 1
SCORES = 2 * B * 2 * T * 5  # one multiply-add for each score and each of the width: B, 2 heads, T queries, 5 keys
CONV = 2 * B * 6 * (4 * 3)  # 6 output channels on 4 x 3 points
BAG = (lambda: nn.EmbeddingBag(V, D, mode="sum"), lambda: torch.zeros(B, T, dtype=torch.long))

CASES = [
    Case("linear", lambda: (nn.Linear(D, H), real(B, T, D)), 2 * B * T * D * H, 4 * B * T * D * H),
    Case("linear, x fixed", lambda: (nn.Linear(D, H), torch.randn(B, D)), 2 * B * D * H, 2 * B * D * H),
    Case("linear, weight fixed", lambda: (frozen(nn.Linear(D, H)), real(B, D)), 2 * B * D * H, 2 * B * D * H),
    Case("linear, no batch", lambda: (nn.Linear(D, H, bias=False), real(D)), 2 * D * H, 4 * D * H),
    Case(
        "bilinear",
        lambda: (nn.Bilinear(D, H, V), real(B, D), real(B, H)),
        2 * B * V * H * (D + 1),
        # One contraction for each of x1, x2 and the weight; the outer product before or after it is elementwise.
        3 * 2 * B * V * D * H,
    ),
    Case("rnn", lambda: (nn.RNN(D, H), real(T, B, D)), *lstm_layer(D, gates=1)),
    Case("rnn cell", lambda: (nn.RNNCell(D, H), real(B, D)), 2 * B * H * (D + H), 2 * B * H * (2 * D + H)),
    Case("lstm cell", lambda: (nn.LSTMCell(D, H), real(B, D)), 8 * B * H * (D + H), 8 * B * H * (2 * D + H)),
    Case("gru", lambda: (nn.GRU(D, H), real(T, B, D)), *lstm_layer(D, gates=3)),
    Case("lstm", lambda: (nn.LSTM(D, H), real(T, B, D)), *lstm_layer(D)),
    Case(
        "lstm, two layers, both directions",
        lambda: (nn.LSTM(D, H, num_layers=2, bidirectional=True), real(T, B, D)),
        2 * lstm_layer(D)[0] + 2 * lstm_layer(2 * H)[0],
        2 * lstm_layer(D)[1] + 2 * lstm_layer(2 * H)[1],
    ),
    Case("multihead attention", lambda: (attend(nn.MultiheadAttention(D, 2)), real(T, B, D)), *attention_layer()),
    Case(
        "encoder layer",
        lambda: (nn.TransformerEncoderLayer(D, 2, V), real(T, B, D)),
        attention_layer()[0] + 4 * B * T * D * V,
        attention_layer()[1] + 8 * B * T * D * V,
    ),
    Case(
        "attention by products",
        lambda: (functional.scaled_dot_product_attention, real(B, 2, T, D), real(B, 2, 5, D), real(B, 2, 5, D)),
        2 * SCORES * D,
        4 * SCORES * D,
    ),
    Case(
        "attention fused, which computes the scores again",
        lambda: (functional.scaled_dot_product_attention, real(B, 2, T, D), real(B, 2, 5, D), real(B, 2, 5, D)),
        2 * SCORES * D,
        5 * SCORES * D,
        "cpu",
    ),
    Case("conv1d", lambda: (nn.Conv1d(4, 6, 3), real(B, 4, T)), 2 * B * 6 * 4 * 3 * 5, 4 * B * 6 * 4 * 3 * 5),
    Case("conv2d", lambda: (nn.Conv2d(4, 6, 3), real(B, 4, 6, 5)), CONV * 36, 2 * CONV * 36),
    Case("conv2d, x fixed", lambda: (nn.Conv2d(4, 6, 3), torch.randn(B, 4, 6, 5)), CONV * 36, CONV * 36),
    Case("conv2d, one image", lambda: (nn.Conv2d(4, 6, 3), real(4, 6, 5)), CONV * 36 // B, 2 * CONV * 36 // B),
    Case(
        "conv2d strided and padded",
        lambda: (nn.Conv2d(4, 6, 3, stride=2, padding=1), real(B, 4, 7, 5)),
        CONV * 36,
        2 * CONV * 36,
    ),
    Case("conv2d grouped", lambda: (nn.Conv2d(4, 6, 3, groups=2), real(B, 4, 6, 5)), CONV * 18, 2 * CONV * 18),
    Case("conv2d depthwise", lambda: (nn.Conv2d(6, 6, 3, groups=6), real(B, 6, 6, 5)), CONV * 9, 2 * CONV * 9),
    Case("conv3d", lambda: (nn.Conv3d(4, 6, 2), real(B, 4, 5, 4, 3)), 2 * B * 6 * 24 * 32, 4 * B * 6 * 24 * 32),
    Case(
        "conv2d transposed",
        lambda: (nn.ConvTranspose2d(6, 4, 3, stride=2), real(B, 6, 4, 3)),
        CONV * 36,
        2 * CONV * 36,
    ),
    Case(
        "conv1d transposed and grouped",
        lambda: (nn.ConvTranspose1d(6, 4, 3, groups=2), real(B, 6, T)),
        2 * B * T * 6 * 2 * 3,
        4 * B * T * 6 * 2 * 3,
    ),
    Case("embedding", lambda: (nn.Embedding(V, D), torch.zeros(B, T, dtype=torch.long)), 0, 0),
    Case("embedding bag", lambda: (BAG[0](), BAG[1]()), 0, 0),
    Case(
        "embedding bag, weighted",
        lambda: (lambda bag, w: bag(BAG[1](), per_sample_weights=w), BAG[0](), real(B, T)),
        2 * B * T * D,
        4 * B * T * D,
        "cpu",
    ),
    Case("layer norm", lambda: (nn.LayerNorm(D), real(B, D)), 0, 0),
    Case("batch norm", lambda: (nn.BatchNorm1d(D), real(B, D)), 0, 0),
    Case("sparse mm, coo", lambda: (torch.sparse.mm, sparse(torch.sparse_coo), real(D, H)), *2 * (22 * H,), "cpu"),
    Case("sparse mm, csr", lambda: (torch.sparse.mm, sparse(torch.sparse_csr), real(D, H)), *2 * (22 * H,), "cpu"),
    Case("sparse @", lambda: (torch.matmul, sparse(torch.sparse_csr), real(D, H)), *2 * (22 * H,), "cpu"),
    Case(
        "sparse mm, weights learned",  # the gradient of the stored elements: a dot product of length H for each
        lambda: (torch.sparse.mm, sparse(torch.sparse_csr).requires_grad_(), real(D, H)),
        22 * H,
        44 * H,
        "cpu",
    ),
    Case(
        "sparse times sparse",
        lambda: (torch.sparse.mm, sparse(torch.sparse_coo), sparse(torch.sparse_coo)),
        24,
        0,
        "cpu",
    ),
    Case("fft of 8, complex", lambda: (torch.fft.fft, torch.randn(B, 8, dtype=torch.complex64)), 5 * B * 8 * 3, 0),
    Case("fft of 8, real", lambda: (torch.fft.rfft, torch.randn(B, 8)), 5 * B * 8 * 3 // 2, 0),
    Case(
        "fft back to 8 reals",
        lambda: (torch.fft.irfft, torch.randn(B, 5, dtype=torch.complex64)),
        5 * B * 8 * 3 // 2,
        0,
    ),
    Case("fft of 4 x 8", lambda: (torch.fft.fft2, torch.randn(B, 4, 8, dtype=torch.complex64)), 5 * B * 32 * 5, 0),
    Case("ctc", ctc, 3 * CTC_STATES, 5 * CTC_STATES, "cpu"),
    Case(
        "baddbmm",
        lambda: (torch.baddbmm, real(B, T, H), real(B, T, D), real(B, D, H)),
        2 * B * T * D * H,
        4 * B * T * D * H,
    ),
    Case(
        "addbmm",
        lambda: (torch.addbmm, real(T, H), real(B, T, D), real(B, D, H)),
        2 * B * T * D * H,
        4 * B * T * D * H,
    ),
    Case(
        "einsum",
        lambda: (lambda x, y: torch.einsum("btd,bhd->bth", x, y), real(B, T, D), real(B, H, D)),
        2 * B * T * D * H,
        4 * B * T * D * H,
    ),
    Case("mv", lambda: (torch.mv, torch.randn(T, D), real(D)), 2 * T * D, 2 * T * D),
    Case("addmv", lambda: (torch.addmv, real(T), torch.randn(T, D), real(D)), 2 * T * D, 2 * T * D),
    Case("dot", lambda: (torch.dot, real(D), real(D)), 2 * D, 0),
    Case("addr", lambda: (torch.addr, torch.randn(T, D), torch.randn(T), torch.randn(D)), 2 * T * D, 0),
    Case(
        "cdist by product",
        lambda: (torch.cdist, torch.randn(B, 30, D), torch.randn(B, 29, D)),
        2 * B * 870 * (D + 2),
        0,
    ),
    Case("cdist by pair", lambda: (torch.cdist, real(B, T, D), torch.randn(B, H, D)), *2 * (2 * B * T * H * D,)),
    Case(
        "elman",
        lambda: (Elman(D, H), real(T, B, D)),
        2 * T * B * H * (D + H),
        2 * B * H * (2 * T * D + (2 * T - 1) * H),
    ),
    Case("readout", lambda: (Readout(H, V), real(T, B, H)), 2 * T * B * H * V, 4 * T * B * H * V),
]


def frozen(module: nn.Module) -> nn.Module:
    return module.requires_grad_(False)


def attend(module: nn.MultiheadAttention) -> Callable[[Tensor], Tensor]:
    return lambda x: module(x, x, x, need_weights=False)[0]


def run(case: Case) -> Count:
    with torch.device(case.device):
        return count(*case.build())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_products_equal_the_hand_count(case: Case) -> None:
    counted = run(case)
    assert (counted.flops, counted.backward_flops) == (case.forward, case.backward)
    assert counted.uncounted == {}


@pytest.mark.parametrize("backward", [True, False])
def test_the_fused_lstm_of_the_cpu_counts_as_the_steps_do(backward: bool) -> None:
    counted = count(nn.LSTM(D, H), real(T, B, D), backward=backward)
    assert counted.flops == lstm_layer(D)[0]
    # The fused kernel returns the gradient of the first state too; elsewhere torch may run the steps one by one.
    assert counted.backward_flops in ({2 * counted.flops, lstm_layer(D)[1]} if backward else {0})


def test_elementwise_work_is_counted_apart() -> None:
    counted = count(lambda x: x.exp().sum(dim=1), real(B, D))
    assert counted.flops == 0
    assert counted.elementwise_forward == {"": {"exp": B * D, "sum": B * D}}
    assert counted.elementwise_backward == {"": {"mul": B * D}}


def test_additions_into_a_tensor_count_what_is_added() -> None:
    index = torch.zeros(T, dtype=torch.long)
    counted = count(lambda x: torch.zeros(V, D).index_add(0, index, x), real(T, D))
    assert counted.elementwise_forward == {"": {"index_add": T * D}}
    bag = count(BAG[0](), BAG[1]())
    assert (total(bag.elementwise_forward), total(bag.elementwise_backward)) == (B * T * D, B * T * D)


def test_writing_in_place_over_a_list_is_counted() -> None:
    tensors = [torch.zeros(B), torch.zeros(D)]
    assert count(torch._foreach_add_, tensors, 1.0).elementwise_forward == {"": {"_foreach_add_": B + D}}


def test_work_belongs_to_the_innermost_module_in_both_passes() -> None:
    model = nn.Sequential(nn.Linear(D, H), nn.Sequential(nn.Tanh(), nn.Linear(H, V)))
    counted = count(model, torch.randn(B, D))
    assert counted.forward == {"0": {"addmm": 2 * B * D * H}, "1.1": {"addmm": 2 * B * H * V}}
    assert counted.backward == {"1.1": {"mm": 4 * B * H * V}, "0": {"mm": 2 * B * D * H}}
    assert counted.elementwise_forward == {"1.0": {"tanh": B * H}}
    assert counted.elementwise_backward["1.0"] == {"tanh_backward": B * H}
    assert total(counted.backward, "1") == 4 * B * H * V


def test_a_shared_module_counts_under_its_first_name() -> None:
    layer = nn.Linear(D, D)
    counted = count(nn.Sequential(layer, layer), torch.randn(B, D))
    assert counted.forward == {"0": {"addmm": 4 * B * D * D}}
    assert counted.backward == {"0": {"mm": 6 * B * D * D}}
    assert counted.parameters.count == D * D + D


def test_modules_inside_a_function_are_named_by_their_class() -> None:
    layer = nn.Linear(D, H)
    counted = count(lambda x: layer(x).relu(), torch.randn(B, D))
    assert counted.forward == {"Linear": {"addmm": 2 * B * D * H}}
    assert counted.saved_bytes == 4 * B * (D + H)  # the weight is no activation, though nobody handed the module over


@dataclass
class Answer:
    hidden: Tensor
    logits: Tensor


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x, y: (x, y),
        lambda x, y: [x, (y, 3)],
        lambda x, y: {"x": x, "more": {"y": y}},
        Answer,
        lambda x, y: (x, y, torch.zeros(2, dtype=torch.long), None),
    ],
    ids=["tuple", "list", "mapping", "dataclass", "with integers"],
)
def test_the_backward_pass_starts_from_every_output(wrap: Callable[[Tensor, Tensor], Any]) -> None:
    counted = count(lambda x, w, u: wrap(x @ w, x @ u), torch.randn(B, D), real(D, H), real(D, V))
    assert counted.backward_flops == 2 * B * D * (H + V)


def test_nothing_that_needs_a_gradient_has_no_backward_pass() -> None:
    counted = count(frozen(nn.Linear(D, H)), torch.randn(B, D))
    assert (counted.backward, counted.saved) == ({}, {})
    assert count(torch.no_grad()(nn.Linear(D, H).forward), torch.randn(B, D)).backward == {}
    assert count(nn.Linear(D, H), torch.randn(B, D), backward=False).backward == {}


def test_inference_mode_is_counted() -> None:
    with torch.inference_mode():
        assert count(nn.Linear(D, H), torch.randn(B, D)).flops == 2 * B * D * H
        layer = nn.TransformerEncoderLayer(D, 2, V, batch_first=True).eval()
        assert count(layer, torch.randn(B, T, D)).flops == attention_layer()[0] + 4 * B * T * D * V


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_segment_keeps_its_input_and_runs_twice(reentrant: bool) -> None:
    class Segment(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(D, H), nn.Tanh(), nn.Linear(H, D), nn.Tanh())

        def forward(self, x: Tensor) -> Any:
            return checkpoint(self.body, x, use_reentrant=reentrant)

    counted = count(Segment(), real(B, D))
    assert counted.flops == 4 * B * D * H
    assert counted.backward_flops == 3 * counted.flops
    assert counted.saved_bytes == 4 * B * D
    assert counted.backward == {
        "body.0": {"addmm": 2 * B * D * H, "mm": 4 * B * D * H},
        "body.2": {"addmm": 2 * B * D * H, "mm": 4 * B * D * H},
    }


def test_autocast_counts_the_products_and_keeps_half_precision() -> None:
    def mixed(layer: nn.Module, x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(x)

    counted = count(mixed, nn.Linear(D, H), torch.randn(B, D))
    assert (counted.flops, counted.backward_flops) == (2 * B * D * H, 2 * B * D * H)
    assert counted.saved_bytes == 2 * B * D


def test_a_ragged_batch_counts_its_rows() -> None:
    rows = torch.nested.nested_tensor([torch.randn(T, D), torch.randn(5, D)], layout=torch.jagged)
    assert count(nn.Linear(D, H, bias=False), rows, backward=False).flops == 2 * (T + 5) * D * H


def test_dropout_and_work_in_place_are_known() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(D, H), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(H, V))
        counted = count(model, torch.randn(B, D))
    assert counted.uncounted == {}
    assert counted.flops == 2 * B * H * (D + V)


def test_a_compiled_module_is_counted_as_its_original() -> None:
    model = nn.Sequential(nn.Linear(D, H), nn.Tanh())
    assert count(torch.compile(model, backend="eager"), torch.randn(B, D)) == count(model, torch.randn(B, D))
    outer = nn.Sequential()
    outer.add_module("inner", cast(nn.Module, torch.compile(nn.Linear(D, H), backend="eager")))
    assert count(outer, torch.randn(B, D)).forward == {"inner": {"addmm": 2 * B * D * H}}


@pytest.fixture
def unknown_operator() -> Iterator[None]:
    library = torch.library.Library("porism_test", "DEF")
    library.define("sum(Tensor x) -> Tensor")  # its name must not pass for torch's own
    library.impl("sum", lambda x: x.cos(), "CompositeExplicitAutograd")
    yield
    library._destroy()


def test_an_unknown_operator_is_named(unknown_operator: None) -> None:
    def unknown(x: Tensor) -> Any:
        return torch.ops.porism_test.sum(torch.ops.porism_test.sum(torch.linalg.inv(x)))

    counted = count(unknown, torch.eye(D))
    assert counted.uncounted == {"linalg_inv_ex": 1, "porism_test.sum": 2}


def test_a_formula_that_fails_leaves_the_operator_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise ValueError("no such layout")

    monkeypatch.setitem(PRODUCTS, torch.ops.aten.mm, refuse)
    assert count(torch.mm, torch.randn(B, D), torch.randn(D, H)).uncounted == {"mm": 1}


def test_parameters_count_tied_ones_once_and_frozen_ones_apart() -> None:
    model = nn.ModuleList([nn.Embedding(V, D), nn.Linear(D, V), frozen(nn.Linear(D, H).half())])
    model[1].weight = model[0].weight
    model.forward = lambda x: model[0](x)
    parameters = count(model, torch.zeros(B, dtype=torch.long)).parameters
    assert (parameters.count, parameters.bytes) == (V * D + V, 4 * (V * D + V))
    assert (parameters.frozen_count, parameters.frozen_bytes) == (D * H + H, 2 * (D * H + H))


def test_gradients_are_left_as_they_were() -> None:
    layer, x = nn.Linear(D, H), real(B, D)
    before = torch.ones_like(layer.weight)
    layer.weight.grad = before
    count(lambda: layer(x))
    assert layer.weight.grad is before
    assert before.eq(1).all()
    assert (layer.bias.grad, x.grad) == (None, None)


def test_a_function_that_raises_is_told_in_one_line() -> None:
    with pytest.raises(ShapeError) as caught:
        count(nn.Linear(D, H), torch.randn(B, D + 1))
    assert str(caught.value) == (
        "cost: Linear raised RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x11 and 10x6). "
        "Give inputs it runs on, on a device it runs on."
    )
    assert isinstance(caught.value.__cause__, RuntimeError)

    def silent() -> None:
        raise KeyError

    with pytest.raises(ShapeError, match="^cost: silent raised KeyError. Give inputs"):
        count(silent)


def test_a_failure_leaves_nothing_behind() -> None:
    with pytest.raises(ShapeError):
        count(nn.Linear(D, H), torch.randn(B, D + 1))
    assert count(nn.Linear(D, H), torch.randn(B, D)).forward == {"": {"addmm": 2 * B * D * H}}
