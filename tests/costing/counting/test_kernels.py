"""Every call that does work is listed with its bytes, its sizes and its kind, as worked out by hand."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.costing.counting.count import Count, count
from porism.costing.counting.kernels import Kernel, KernelWork

B, T, D, H, V = 3, 7, 10, 6, 11


def real(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def kernel(function: Callable[..., Any], *args: Any) -> Kernel:
    """The one kernel of a call."""
    (only,) = count(function, *args, backward=False).kernels
    return only


class Moved(NamedTuple):
    name: str
    call: Callable[[], tuple[Any, ...]]
    bytes: int


INDICES = torch.zeros(T, dtype=torch.long)

MOVED = [
    Moved("addition", lambda: (torch.add, torch.zeros(B, D), torch.zeros(B, D)), 3 * 4 * B * D),
    Moved("broadcast bias", lambda: (torch.add, torch.zeros(B, D), torch.zeros(D)), 4 * (2 * B * D + D)),
    Moved("expanded", lambda: (torch.exp, torch.zeros(1, D).expand(B, D)), 4 * (D + B * D)),
    Moved("in place", lambda: (torch.Tensor.add_, torch.zeros(B, D), torch.zeros(B, D)), 3 * 4 * B * D),
    Moved("copy", lambda: (torch.Tensor.copy_, torch.zeros(B, D), torch.zeros(B, D)), 2 * 4 * B * D),
    Moved("half", lambda: (torch.neg, torch.zeros(B, D, dtype=torch.half)), 2 * 2 * B * D),
    Moved("fill", lambda: (torch.Tensor.zero_, torch.zeros(B, D)), 4 * B * D),
    Moved("ones", lambda: (torch.ones, (B, D)), 4 * B * D),
    Moved("transposed", lambda: (lambda x: x.t().contiguous(), torch.zeros(B, D)), 2 * 4 * B * D),
    Moved("sum", lambda: (torch.sum, torch.zeros(B, D)), 4 * (B * D + 1)),
    Moved("product", lambda: (torch.mm, torch.zeros(B, D), torch.zeros(D, H)), 4 * (B * D + D * H + B * H)),
    Moved("out given", lambda: (mm_into, torch.zeros(B, D), torch.zeros(D, H), torch.zeros(B, H)), 4 * 108),
    # Of a table of V rows the T that are requested are read, and their indices.
    Moved("embedding", lambda: (functional.embedding, INDICES, torch.zeros(V, D)), 8 * T + 2 * 4 * T * D),
    Moved("index select", lambda: (torch.index_select, torch.zeros(V, D), 0, INDICES), 8 * T + 2 * 4 * T * D),
    # What is added is read, and so is what it is added to, which is then written.
    Moved(
        "index add",
        lambda: (torch.Tensor.index_add_, torch.zeros(V, D), 0, INDICES, torch.zeros(T, D)),
        8 * T + 3 * 4 * T * D,
    ),
]


def mm_into(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    return torch.mm(left, right, out=out)


@pytest.mark.parametrize("case", MOVED, ids=lambda case: case.name)
def test_bytes_equal_the_hand_count(case: Moved) -> None:
    assert kernel(*case.call()).bytes == case.bytes


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(-1),
        lambda x: x.t(),
        lambda x: x[1:].expand(2, B - 1, D),
        lambda x: x.detach().unsqueeze(0),
        lambda x: torch.empty_like(x),
        lambda x: x.new_empty(3),
    ],
    ids=["view", "transpose", "slice", "detach", "empty_like", "new_empty"],
)
def test_views_and_memory_set_aside_are_no_kernels(view: Callable[[Tensor], Tensor]) -> None:
    assert count(view, torch.zeros(B, D), backward=False).kernels == ()


def test_the_views_before_a_kernel_are_its_calls() -> None:
    assert kernel(lambda x: x.t().unsqueeze(0).exp(), torch.zeros(B, D)).calls == 3


WORK: dict[str, tuple[Callable[[], tuple[Any, ...]], tuple[int, ...], int]] = {
    "product_nn": (lambda: (torch.mm, torch.zeros(B, D), torch.zeros(D, H)), (B, D, H), 2 * B * D * H),
    "product_nt": (lambda: (functional.linear, torch.zeros(B, D), torch.zeros(H, D)), (B, D, H), 2 * B * D * H),
    "product_tn": (lambda: (torch.mm, torch.zeros(D, B).t(), torch.zeros(D, H)), (B, D, H), 2 * B * D * H),
    "batched_nn": (
        lambda: (torch.bmm, torch.zeros(T, B, D), torch.zeros(T, D, H)),
        (T, B, D, H),
        2 * T * B * D * H,
    ),
    "convolution": (
        lambda: (torch.conv2d, torch.zeros(B, 4, 6, 5), torch.zeros(8, 4, 3, 3)),
        (B * 4 * 3, 4, 8),
        2 * B * 12 * 8 * 36,
    ),
    "depthwise": (
        lambda: (nn.Conv2d(4, 4, 3, groups=4), torch.zeros(B, 4, 6, 5)),
        (B * 4 * 3, 4),
        2 * B * 12 * 4 * 9,
    ),
    "attention": (
        lambda: (functional.scaled_dot_product_attention, *(torch.zeros(B, 2, T, D) for _ in range(3))),
        (2 * B, T, D),
        4 * 2 * B * T * T * D,
    ),
    "norm": (lambda: (nn.LayerNorm(D), torch.zeros(B, T, D)), (B * T, D), B * T * D),
    "softmax": (lambda: (torch.softmax, torch.zeros(B, T, D), -1), (B * T, D), B * T * D),
    "gelu": (lambda: (nn.GELU(), torch.zeros(B, D)), (B * D,), B * D),
    "column_sum": (lambda: (torch.sum, torch.zeros(B, D), 0), (B, D), B * D),
    "arithmetic": (lambda: (torch.mul, torch.zeros(B, D), 2.0), (8 * B * D,), 8 * B * D),
    "copy": (lambda: (torch.clone, torch.zeros(B, D)), (8 * B * D,), 8 * B * D),
    "copy_strided": (lambda: (torch.Tensor.contiguous, torch.zeros(D, B).t()), (8 * B * D,), 8 * B * D),
    "fill": (lambda: (torch.zeros, B, D), (4 * B * D,), 4 * B * D),
    "random": (lambda: (torch.Tensor.bernoulli_, torch.zeros(B, D)), (B * D,), B * D),
    "gather": (lambda: (nn.Embedding(V, D), INDICES), (T, D), 8 * T + 8 * T * D),
    "scatter": (
        lambda: (torch.Tensor.index_add_, torch.zeros(V, D), 0, INDICES, torch.zeros(T, D)),
        (T, D),
        3 * 4 * T * D,
    ),
}


@pytest.mark.parametrize("kind", WORK)
def test_the_work_of_a_kind_has_its_sizes_and_amount(kind: str) -> None:
    call, sizes, amount = WORK[kind]
    assert kernel(*call()).work[0] == KernelWork(kind, sizes, amount)


def test_a_recurrent_kernel_is_its_steps_and_the_product_with_its_inputs() -> None:
    found = [entry for entry in count(nn.LSTM(D, H), torch.zeros(T, B, D), backward=False).kernels if entry.flops]
    if len(found) > 1:
        pytest.skip("torch runs the steps one by one here")
    assert found[0].work == (
        KernelWork("recurrence", (4, T, B, H), 2 * T * B * 4 * H * H),
        KernelWork("product_nt", (T * B, D, 4 * H), 2 * T * B * 4 * H * D),
    )


def test_a_causal_mask_halves_the_work_of_attention() -> None:
    def attend(x: Tensor, causal: bool) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, is_causal=causal)

    full, half = (kernel(attend, torch.zeros(B, 2, T, D), causal) for causal in (False, True))
    assert 2 * half.work[0].amount == full.work[0].amount
    assert half.flops == full.flops


def models() -> list[tuple[Any, ...]]:
    return [
        (nn.Sequential(nn.Linear(D, H), nn.GELU(), nn.Linear(H, D)), real(B, D)),
        (nn.TransformerEncoderLayer(D, 2, V, batch_first=True), real(B, T, D)),
        (nn.LSTM(D, H, num_layers=2), real(T, B, D)),
        (nn.Conv2d(4, 6, 3), real(B, 4, 6, 5)),
        (nn.Embedding(V, D), torch.zeros(B, T, dtype=torch.long)),
        (nn.BatchNorm1d(D), real(B, D)),
    ]


@pytest.mark.parametrize("place", range(len(models())))
def test_the_kernels_add_up_to_the_count(place: int) -> None:
    counted: Count = count(*models()[place])
    sums = {
        direction: sum(entry.flops for entry in counted.kernels if entry.direction == direction)
        for direction in ("forward", "backward")
    }
    assert sums == {"forward": counted.flops, "backward": counted.backward_flops}
    assert all(entry.bytes > 0 and entry.work for entry in counted.kernels)


def test_kernels_come_in_the_order_they_ran_and_know_their_module() -> None:
    model = nn.Sequential(nn.Linear(D, H), nn.Tanh())
    seen = [(entry.direction, entry.path, entry.name) for entry in count(model, torch.zeros(B, D)).kernels]
    assert seen[:2] == [("forward", "0", "addmm"), ("forward", "1", "tanh")]
    assert seen[2] == ("backward", "1", "tanh_backward")
    assert {path for direction, path, _ in seen[3:]} == {"0"}
