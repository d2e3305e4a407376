"""The formulas serve torch's own counter, and each is needed: without it torch says something else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from porism.costing.counting.flops import CORRECTIONS

aten = torch.ops.aten

# torch says so of every CSR matrix, once a process.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")

B, T, D, H = 3, 7, 10, 6


def flops(work: Callable[[], Any], corrections: dict[Any, Any] | None) -> int:
    with FlopCounterMode(display=False, custom_mapping=corrections) as counter:
        work()
    return int(counter.get_total_flops())


def attend() -> None:
    x = torch.randn(B, 2, T, D, requires_grad=True)
    functional.scaled_dot_product_attention(x, x, x).sum().backward()


def convolve(groups: int) -> Callable[[], None]:
    def work() -> None:
        layer = nn.Conv2d(6, 6, 3, groups=groups)
        layer(torch.randn(B, 6, 6, 5, requires_grad=True)).sum().backward()

    return work


def gather_neighbours(layout: torch.layout) -> Callable[[], None]:
    def work() -> None:
        x = torch.randn(D, H, requires_grad=True)
        torch.sparse.mm(torch.eye(D).to_sparse(layout=layout), x).sum().backward()

    return work


@pytest.mark.parametrize(
    ("work", "by_hand"),
    [
        (attend, (2 + 5) * 2 * B * 2 * T * T * D),
        (convolve(groups=6), 3 * 2 * B * 12 * 6 * 9),
        (convolve(groups=2), 3 * 2 * B * 12 * 6 * 3 * 9),
        (gather_neighbours(torch.sparse_coo), 2 * 2 * D * H),
        (gather_neighbours(torch.sparse_csr), 2 * 2 * D * H),
        (lambda: nn.Bilinear(D, H, T)(torch.randn(B, D), torch.randn(B, H)), 2 * B * T * H * (D + 1)),
        (lambda: torch.mv(torch.randn(T, D), torch.randn(D)), 2 * T * D),
        (lambda: torch.zeros(T, H).addmm_(torch.randn(T, D), torch.randn(D, H)), 2 * T * D * H),
        (lambda: torch.zeros(B, T, H).baddbmm_(torch.randn(B, T, D), torch.randn(B, D, H)), 2 * B * T * D * H),
        (lambda: torch.fft.fft(torch.randn(B, 8, dtype=torch.complex64)), 5 * B * 8 * 3),
    ],
    ids=[
        "attention",
        "depthwise",
        "grouped",
        "sparse coo",
        "sparse csr",
        "bilinear",
        "mv",
        "addmm in place",
        "baddbmm in place",
        "fft",
    ],
)
def test_torch_counts_right_with_them_and_wrong_without(work: Callable[[], Any], by_hand: int) -> None:
    assert flops(work, CORRECTIONS) == by_hand
    assert flops(work, None) != by_hand


def test_what_torch_counts_right_stays() -> None:
    def work() -> None:
        layer = nn.Sequential(nn.Conv1d(4, 6, 3, stride=2, padding=1), nn.Linear(4, 5))
        layer(torch.randn(B, 4, T, requires_grad=True)).sum().backward()

    assert flops(work, CORRECTIONS) == flops(work, None) > 0


def meta(*shape: int) -> Tensor:
    return torch.empty(*shape, device="meta")


def cudnn_weights(gates: int, layers: int, directions: int) -> list[Tensor]:
    """As cuDNN is given them: input weight, recurrent weight and two biases for each layer and direction."""
    widths = [D] + [directions * H] * (layers - 1)
    return [
        meta(*shape)
        for width in widths
        for _ in range(directions)
        for shape in ((gates * H, width), (gates * H, H), (gates * H,), (gates * H,))
    ]


@pytest.mark.parametrize("gates", [1, 3, 4])
def test_cudnn_layers_count_every_layer_and_direction(gates: int) -> None:
    weights = cudnn_weights(gates, layers=2, directions=2)
    by_hand = 2 * B * T * gates * H * 2 * ((D + H) + (2 * H + H))
    forward = CORRECTIONS[aten._cudnn_rnn](meta(T, B, D), weights, 4, None, meta(4, B, H), None, out_val=None)
    assert forward == by_hand

    def backward(weights_asked: bool) -> int:
        mask = [True, False, False, weights_asked]
        return CORRECTIONS[aten._cudnn_rnn_backward](meta(T, B, D), weights, 4, None, None, mask, out_val=None)

    assert (backward(False), backward(True)) == (by_hand, 2 * by_hand)


def test_the_one_layer_kernel_of_the_cpu() -> None:
    arguments = (meta(T, B, D), meta(4 * H, D), meta(4 * H, H), meta(4 * H), meta(4 * H))
    by_hand = 8 * B * T * H * (D + H)
    assert CORRECTIONS[aten.mkldnn_rnn_layer](*arguments, out_val=None) == by_hand
    assert CORRECTIONS[aten.mkldnn_rnn_layer_backward](*arguments, out_val=None) == 2 * by_hand


@pytest.mark.parametrize(
    "name", ["flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention"]
)
def test_keys_shared_by_several_heads_count_for_each_query_head(name: str) -> None:
    query, key, value = meta(B, 8, T, D), meta(B, 2, 5, D), meta(B, 2, 5, H)
    score = 2 * B * 8 * T * 5
    forward = CORRECTIONS[getattr(aten, f"_scaled_dot_product_{name}")]
    backward = CORRECTIONS[getattr(aten, f"_scaled_dot_product_{name}_backward")]
    assert forward(query, key, value, out_val=None) == score * (D + H)
    assert backward(meta(B, 8, T, H), query, key, value, out_val=None) == score * (3 * D + 2 * H)


@pytest.mark.parametrize(
    ("mask", "products"),
    [((True, True, True), 2), ((True, False, True), 1), ((False, True, False), 1), ((False,) * 3, 0)],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_convolution_goes_back_by_the_products_that_are_asked_for(
    mask: tuple[bool, ...], products: int, transposed: bool
) -> None:
    x, weight, out = meta(B, 4, 5, 6), meta(4, 4, 3, 3), meta(B, 4, 7, 8)
    points = 5 * 6 if transposed else 7 * 8
    counted = CORRECTIONS[aten.convolution_backward](
        out, x, weight, [4], [1, 1], [0, 0], [1, 1], transposed, [0, 0], 1, mask, out_val=None
    )
    assert counted == products * 2 * B * points * weight.numel()


def test_a_cudnn_convolution_that_is_timed_first_is_not_taken_for_a_transposed_one() -> None:
    x, weight, out = meta(B, 4, 5, 5), meta(6, 4, 3, 3), meta(B, 6, 3, 3)
    counted = CORRECTIONS[aten.cudnn_convolution](x, weight, [0, 0], [1, 1], [1, 1], 1, True, False, True, out_val=out)
    assert counted == 2 * B * 9 * weight.numel()


@pytest.mark.parametrize(
    ("left", "right", "by_hand"),
    [
        ((T, D), (4, D, H), 2 * T * D * H),  # T rows shared among 4 groups
        ((4, T, D), (D, H), 2 * T * D * H),
        ((4, T, D), (4, D, H), 4 * 2 * T * D * H),
        ((D, T), (T, H), 2 * D * T * H),  # the gradient of the groups' weights
    ],
)
def test_groups_share_their_rows(left: tuple[int, ...], right: tuple[int, ...], by_hand: int) -> None:
    assert CORRECTIONS[aten._grouped_mm](meta(*left), meta(*right), out_val=None) == by_hand


def test_a_sparse_factor_counts_what_it_stores_on_either_side() -> None:
    matrix = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])  # 2 x 3, three stored
    product = CORRECTIONS[aten.mm]
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        stored = matrix.to_sparse(layout=layout)
        assert product(stored, torch.randn(3, D), out_val=None) == 2 * 3 * D
        assert product(torch.randn(D, 2), stored, out_val=None) == 2 * D * 3
        # Row by column: column 0 of the transpose holds 1 and meets 1, column 1 holds 2 and meets 2.
        assert product(stored.t(), stored, out_val=None) == 2 * (1 * 1 + 2 * 2)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("place", ["meta", "fake"])
def test_a_sparse_factor_of_shapes_only_is_no_silent_zero(layout: torch.layout, place: str) -> None:
    stored = torch.eye(D).to_sparse(layout=layout)
    shapes_only = stored.to("meta") if place == "meta" else FakeTensorMode().from_tensor(stored)
    for name in ("mm", "mv"):
        with pytest.raises(ValueError, match="a sparse matrix without values does not say how much it stores"):
            CORRECTIONS[getattr(aten, name)](shapes_only, meta(D, H), out_val=None)
    empty = torch.zeros(D, D).to_sparse(layout=layout)  # a real one knows that it stores no element
    assert CORRECTIONS[aten.mm](empty, meta(D, H), out_val=None) == 0


def test_reals_take_half_a_complex_transform_and_a_point_takes_nothing() -> None:
    complex_, real = CORRECTIONS[aten._fft_c2c], CORRECTIONS[aten._fft_r2c]
    assert 2 * real(meta(B, 16), [1], 0, True, out_val=None) == complex_(meta(B, 16), [1], 0, True, out_val=None)
    assert complex_(meta(B, 1), [1], 0, True, out_val=None) == 0
    assert complex_(meta(B, 4, 8), [1, 2], 0, True, out_val=None) == 5 * B * 32 * 5


@pytest.mark.parametrize("as_tensor", [False, True])
def test_alignments_count_states_and_steps_of_each_sequence(as_tensor: bool) -> None:
    steps, labels = [T, 5], [2, 0]
    lengths = (torch.tensor(steps), torch.tensor(labels)) if as_tensor else (steps, labels)
    states = T * 5 + 5 * 1
    assert CORRECTIONS[aten._ctc_loss](meta(T, 2, D), meta(2, 2), *lengths, out_val=None) == 3 * states
    arguments = (meta(2), meta(T, 2, D), meta(2, 2), *lengths)
    assert CORRECTIONS[aten._ctc_loss_backward](*arguments, out_val=None) == 5 * states
