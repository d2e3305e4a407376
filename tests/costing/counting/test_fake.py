"""The short cuts of fake tensors give what torch's own fake tensors give, call by call."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

import porism
from porism.costing.counting.count import count
from porism.costing.counting.fake import ShapeMode


def described(nest: Any, given: list[Tensor]) -> list[Any]:
    """All that is known of the tensors of a result: also whose memory they share."""
    return [
        (
            tuple(leaf.shape),
            # A dimension of one element has any step: torch's mode and torch's kernels choose different ones.
            tuple(step for size, step in zip(leaf.shape, leaf.stride(), strict=True) if size > 1),
            leaf.dtype,
            leaf.device,
            leaf.storage_offset(),
            leaf.untyped_storage().nbytes(),
            [leaf is tensor for tensor in given],
            [leaf.untyped_storage()._cdata == tensor.untyped_storage()._cdata for tensor in given],
        )
        if isinstance(leaf, Tensor)
        else leaf
        for leaf in tree_leaves(nest)
    ]


class Compared(ShapeMode):
    """Asks torch's own mode after every call, and lists what differs."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: list[str] = []
        self.left_to_torch = 0
        self.different: list[str] = []

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.left_to_torch += 1
        return super().dispatch(func, types, args, kwargs)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = self.left_to_torch
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if self.left_to_torch > before:
            return out
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        with self:
            expected = FakeTensorMode.dispatch(self, func, types, args, kwargs or {})
        ours, theirs = described(out, given), described(expected, given)
        self.compared.append(str(func))
        if func is torch.ops.aten.mkldnn_rnn_layer.default:
            ours, theirs = ours[:3], theirs[:3]  # torch knows nothing of its workspace
        if ours != theirs:
            self.different.append(f"{func}: {ours}, torch has {theirs}")
        return out


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.Conv2d(8, 5, 1), nn.Flatten()
    )


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolutions": (convolutions, (2, 3, 9, 7)),
    "encoder": (lambda: nn.TransformerEncoderLayer(12, 3, 20, batch_first=True), (2, 5, 12)),
    "lstm": (lambda: nn.LSTM(5, 7, 2, bidirectional=True), (4, 3, 5)),
    "elman": (lambda: porism.Elman(5, 7, 2), (4, 3, 5)),
    "grid": (lambda: porism.Grid(3, 5, cell="lstm", directions=2), (2, 3, 2, 3)),
    "taylor": (lambda: porism.TaylorAttention(12, 3, batch_first=True, pattern=porism.Pattern("causal")), (2, 5, 12)),
    "hybrid": (lambda: porism.HybridAttention(12, 3, batch_first=True, window_size=2), (2, 5, 12)),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", MODULES)
def test_every_short_cut_gives_what_torch_gives(name: str) -> None:
    make, shape = MODULES[name]
    mode = Compared()
    with mode:
        module = make()
        for sizes in (shape, (shape[0] + 1, *shape[1:])):
            count(module, torch.empty(sizes, requires_grad=True))
    assert mode.different == []
    assert len(mode.compared) > 50


def arithmetic(x: Tensor, row: Tensor, number: Tensor, whole: Tensor) -> list[Tensor]:
    """Broadcasts, dtypes, layouts and operators that write in place."""
    turned = x.mT
    made = [
        x + row,
        x * number,
        whole / 2,
        whole + 1,
        whole + 1.5,
        x > row,
        turned + turned,
        turned + x.mT.contiguous(),
    ]
    made += [x.expand(2, *x.shape) * row, x.clone().mul_(row), x.clone().mT.add_(1), torch.empty_like(turned)]
    made += [torch.addmm(row, x, turned @ x), torch.bmm(x.expand(3, 4, 5), turned.expand(3, 5, 4)), x.new_zeros(3, 2)]
    return [*made, *x.unbind(), *x.split(2), x.mean(0), x.softmax(-1), torch.where(x > 0, x, number)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_dtypes_layouts_and_broadcasts_too(dtype: torch.dtype) -> None:
    mode = Compared()
    with mode:
        for _ in range(2):  # what the first call is told, the second remembers
            x, row, number = torch.empty(4, 5, dtype=dtype), torch.empty(5, dtype=dtype), torch.empty((), dtype=dtype)
            if not dtype.is_complex:
                arithmetic(x, row, number, torch.empty(4, 5, dtype=torch.int64))
            x @ x.mT + x.mul(2) @ x.mT
    assert mode.different == []


def test_the_gradient_of_a_softmax_too() -> None:
    mode = Compared()
    with mode:
        for rows in (4, 7, 9):
            for function in (torch.softmax, torch.log_softmax):
                function(torch.empty(rows, 5, requires_grad=True), -1).sum().backward()
    assert mode.different == []


def test_errors_are_those_of_torch() -> None:
    def raised(mode: FakeTensorMode, call: Callable[[], object]) -> str:
        with mode, pytest.raises(RuntimeError) as caught:
            call()
        return str(caught.value)

    calls: list[Callable[[], object]] = [
        lambda: torch.empty(3) + torch.empty(4),
        lambda: torch.empty(3, 4) @ torch.empty(5, 6),
        lambda: torch.empty(3, 4).view(5),
        lambda: torch.empty(3).add_(torch.empty(2, 3)),
    ]
    for call in calls:
        assert raised(ShapeMode(), call) == raised(FakeTensorMode(), call)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_a_layer_can_be_copied() -> None:
    # nn.TransformerEncoder copies its layer, and copying asks a tensor for its address.
    with ShapeMode():
        layer = nn.Linear(3, 4)
        for tensor in (layer.weight, layer.weight.clone().detach()):
            twin = copy.deepcopy(tensor)
            assert twin.shape == (4, 3)
            assert twin.fake_mode is tensor.fake_mode  # type: ignore[attr-defined]


def test_numbers_that_are_known_stay_known() -> None:
    with ShapeMode():
        assert (torch.tensor(3) + torch.tensor(4)).item() == 7
