"""Gradients that are summed by NCCL: one process on a GPU trains as it does without a group."""

import socket

import pytest
import torch
from torch import Tensor

from porism.runs.recipe import override
from porism.tasks import find
from porism.training import optimizer
from porism.training.distributed.launch import Launch
from porism.training.distributed.processes import Processes, join
from porism.training.distributed.sharding import ShardedStep
from porism.training.distributed.step import DataParallelStep
from porism.training.step import EagerStep
from porism.training.task import Step

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

FIELDS = ["dropout=0", "hidden_size=28", "embedding_dim=28", "batch_size=8", "seq_len=6", "precision=fp32"]
STEPS = 8


def trained(kind: str, processes: Processes) -> list[Tensor]:
    """The losses of some steps of the language task on the GPU, from one seed."""
    language, device = find("language"), torch.device("cuda")
    task = language.load(override(language.recipes["attention"], FIELDS), None)
    torch.manual_seed(1)
    model = task.new_model().to(device)
    made = optimizer.make(task.recipe, task.trained_parameters(model), device)
    step: Step
    if kind == "sharded":
        step = ShardedStep(task, model, {}, device, "fp32", processes, seed=1)
    elif kind == "data parallel":
        step = DataParallelStep(task, model, made, device, "fp32", processes)
    else:
        step = EagerStep(task, model, made, device, "fp32")
    carry = {name: x.to(device) for name, x in task.start(model).items()}
    losses = []
    for count in range(STEPS):
        batch = tuple(x.to(device) for x in task.batches(1, 1)[count])
        loss, carry = step(batch, carry)
        losses.append(loss.cpu())
    return losses


@pytest.mark.parametrize("kind", ["data parallel", "sharded"])
def test_a_group_of_one_trains_as_no_group_does(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": 0, "WORLD_SIZE": 1}.items():
        monkeypatch.setenv(name, str(value))
    with join(Launch()) as processes:
        assert "cuda:nccl" in str(torch.distributed.get_backend_config())
        x = torch.full((5,), 3.0, device="cuda")
        processes.sum(x)
        assert torch.equal(x.cpu(), torch.full((5,), 3.0))
        found = trained(kind, processes)
    alone = trained("alone", Processes())
    torch.testing.assert_close(found, alone, rtol=1e-6, atol=0)
    assert alone[-1] < alone[0]
