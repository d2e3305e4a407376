"""Layers in a training script of somebody else's: by DistributedDataParallel, which Accelerate and Lightning wrap
modules in too, and by FSDP2, two processes with a half of the batch each train as one does with all of it."""

import copy
import os
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.forking import failed, fork, need_fork, waited
from torch import Tensor, nn

from porism.layers import (
    LSTM,
    Attention,
    Elman,
    Graph,
    GraphConvolution,
    Grid,
    HybridAttention,
    Readout,
    SkipGram,
    TaylorAttention,
    WindowAttention,
)

GRAPH = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
TEXTS, IMAGES, NODES = (4, 6, 8), (4, 3, 5, 5), (4, 3, 8)
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "attention": (lambda: Attention(8, 2, batch_first=True), TEXTS),
    "window": (lambda: WindowAttention(8, 2, batch_first=True, window_size=3), TEXTS),
    "taylor": (lambda: TaylorAttention(8, 2, batch_first=True, qk_norm=True), TEXTS),
    "hybrid": (lambda: HybridAttention(8, 2, batch_first=True, window_size=3), TEXTS),
    "elman": (lambda: Elman(8, 4, batch_first=True), TEXTS),
    "lstm": (lambda: LSTM(8, 4, batch_first=True), TEXTS),
    "readout": (lambda: Readout(8, 5), TEXTS),
    "grid": (lambda: Grid(3, 4), IMAGES),
    "gcn": (lambda: GraphConvolution(8, 4), NODES),
    "skipgram": (lambda: SkipGram(20, 4), ()),
}


class Model(nn.Module):
    """A layer, called as its inputs ask; its answer alone, without a state."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.layer = LAYERS[name][0]()

    def forward(self, *inputs: Tensor) -> Tensor:
        if isinstance(self.layer, GraphConvolution):
            return torch.stack([self.layer(x, GRAPH) for x in inputs[0]])
        answer: Tensor | tuple[Tensor, Any] = self.layer(*inputs)
        return answer[0] if isinstance(answer, tuple) else answer


def by_ddp(model: Model) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model)


def by_fsdp(model: Model) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    fully_shard(model.layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def trained(model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        answer = model(*inputs)
        (answer if answer.dim() == 0 else answer.square().mean()).backward()
        optimizer.step()


def train_as_one(name: str, rank: int, wrap: Callable[[Model], nn.Module]) -> None:
    torch.manual_seed(1)
    shape = LAYERS[name][1]
    inputs = (torch.randn(shape),) if shape else (torch.randint(20, (4,)), torch.randint(20, (4,)))
    one = Model(name)
    two, start = copy.deepcopy(one), copy.deepcopy(one)
    trained(one, inputs)
    trained(wrap(two), tuple(x.chunk(2)[rank] for x in inputs))
    for (field, expected), found, before in zip(
        one.named_parameters(), two.parameters(), start.parameters(), strict=True
    ):
        whole = found.full_tensor() if hasattr(found, "full_tensor") else found
        assert torch.allclose(whole, expected, rtol=1e-5, atol=1e-6), f"{name}: {field}"
        assert field.endswith("in_proj_bias") or not torch.equal(whole, before), f"{name}: {field} has not learnt"


@pytest.mark.sweep(0)  # 3 s each
@pytest.mark.parametrize(
    ("wrap", "names"),
    # The graph convolution's kernel on a CPU keeps the memory of a weight that FSDP2 frees, and torch says so.
    [(by_ddp, list(LAYERS)), (by_fsdp, [name for name in LAYERS if name != "gcn"])],
)
def test_two_processes_train_a_wrapped_layer_as_one_does(
    wrap: Callable[[Model], nn.Module], names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    need_fork()
    meeting = tmp_path_factory.mktemp("meeting") / "store"
    children = []
    for rank in (0, 1):
        children.append(fork())
        if not children[-1]:
            try:
                # Of a view that is an answer: nothing here changes it in place.
                warnings.simplefilter("ignore", UserWarning)
                dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
                for name in names:
                    train_as_one(name, rank, wrap)
                os._exit(0)
            except BaseException:
                os._exit(failed(traceback.format_exc()))
    assert [waited(child) for child in children] == [0, 0]
