"""One of the processes of test_distributed.py: its jobs one after the other, each together with the others."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from tests.runs.tiny_runs import kill_at
from torch import Tensor

from porism.cli import main
from porism.errors import DataError
from porism.layers.attention.taylor.functional import taylor_attention
from porism.layers.attention.taylor.sequence_parallel import sequence_parallel_taylor_attention
from porism.runs.recipe import override
from porism.tasks import find
from porism.tasks.language.data.windows import Window, Windows
from porism.training import optimizer
from porism.training.distributed.launch import Launch
from porism.training.distributed.leader import LeadingStep
from porism.training.distributed.processes import Processes, join
from porism.training.distributed.sharding import ShardedStep
from porism.training.distributed.step import DataParallelStep
from porism.training.interrupt import ask_to_stop
from porism.training.step import EagerStep
from porism.training.task import Batch, Carry


@contextlib.contextmanager
def recorded(losses: list[float], stop_after: int | None = None) -> Any:
    """Keep the loss of every step, and ask to stop after so many."""

    def watching(step: Any) -> Any:
        def call(self: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
            loss, carry = step(self, batch, carry)
            losses.append(float(loss))
            if len(losses) == stop_after:
                ask_to_stop()
            return loss, carry

        return call

    kinds: list[Any] = [LeadingStep, EagerStep]
    before = [kind.__call__ for kind in kinds]
    # The step of rank 0 calls one of the other kind, by its class: only its own loss counts.
    LeadingStep.__call__ = watching(before[0])  # type: ignore[method-assign]
    DataParallelStep.__call__ = before[1]  # type: ignore[method-assign]
    EagerStep.__call__ = watching(before[1])  # type: ignore[method-assign]
    try:
        yield
    finally:
        LeadingStep.__call__, EagerStep.__call__ = before  # type: ignore[method-assign]
        del DataParallelStep.__call__


def train(rank: int, job: dict[str, Any]) -> dict[str, Any]:
    """A command, with the losses of its steps; one, rank 1 if no other, may be lost after so many of them, and rank 0
    before a file operation of that number; rank 1 may fail to read a batch."""
    losses: list[float] = []
    if rank and "fails_after" in job:
        read = Windows.batch

        def until_failed(self: Windows, number: int) -> Window:
            if number == job["fails_after"]:
                raise DataError("text.txt has gone.")
            return read(self, number)

        Windows.batch = until_failed  # type: ignore[method-assign]
    if "lost_after" in job and rank == job.get("lost", 1):
        steps, plain = [0], DataParallelStep._gradients

        def until_lost(self: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
            steps[0] += 1
            if steps[0] > job["lost_after"]:
                os._exit(9)
            return plain(self, batch, carry)

        DataParallelStep._gradients = until_lost  # type: ignore[method-assign]
    if not rank and "lost_before" in job:
        kill_at(job["lost_before"], Path(job["run"]))
    with recorded(losses, job.get("stop_after")):
        code = main(job["words"])
    return {"code": code, "losses": losses}


def attend(rank: int, job: dict[str, Any]) -> dict[str, Any]:
    """How far sequence-parallel attention and its gradients are from those of the whole, and the bytes it sends."""
    with joined() as processes:
        torch.manual_seed(1)
        q, k, v = (torch.randn(2, heads, 23, 5, dtype=torch.float64) for heads in (4, 2, 2))
        dy, padded = torch.randn(2, 4, 23, 5, dtype=torch.float64), torch.zeros(2, 23, dtype=torch.bool)
        padded[1, 3:9] = True
        whole = [x.clone().requires_grad_() for x in (q, k, v)]
        y = taylor_attention(whole[0], whole[1], whole[2], is_causal=True, key_padding_mask=padded)
        y.backward(dy)

        def part(x: Tensor, dim: int = 2) -> Tensor:
            return x.tensor_split(processes.size, dim)[rank]

        own = [part(x).clone().requires_grad_() for x in (q, k, v)]
        before = sent()
        mine = sequence_parallel_taylor_attention(own[0], own[1], own[2], key_padding_mask=part(padded, 1))
        mine.backward(part(dy))
        meet(processes)
        counted = sent() - before
        wanted, found = [y, *map(grad_of, whole)], [mine, *map(grad_of, own)]
        far = max((part(a) - b).abs().max().item() for a, b in zip(wanted, found, strict=True))
    return {"far": far, "bytes": counted}


def reduce(rank: int, job: dict[str, Any]) -> dict[str, Any]:
    """The bytes that a sum over processes sends, and those of a message."""
    with joined() as processes:
        counts = []
        for numbers in job["numbers"]:
            x = torch.full((numbers,), float(rank + 1))
            meet(processes)
            before = sent()
            processes.sum(x)
            meet(processes)
            counts.append(sent() - before)
            assert torch.equal(x, torch.full((numbers,), processes.size * (processes.size + 1) / 2))
    return {"bytes": counts}


def step(rank: int, job: dict[str, Any]) -> dict[str, Any]:
    """The bytes of a data-parallel step after the first, and what is summed in it."""
    kind = find("language")
    fields = ["dropout=0", "hidden_size=28", "embedding_dim=28", "batch_size=8", "seq_len=6", "num_layers=3"]
    task = kind.load(override(kind.recipes["attention"], ["precision=fp32", *fields]), None)
    with joined() as processes:
        torch.manual_seed(1)
        model = task.new_model()
        made = optimizer.make(task.recipe, task.trained_parameters(model), torch.device("cpu"))
        own = DataParallelStep(task, model, made, torch.device("cpu"), "fp32", processes)
        carry = {name: x.tensor_split(processes.size, 1)[rank] for name, x in task.start(model).items()}
        for count in range(2):
            meet(processes)
            before = sent()
            _, carry = own(task.batches(1, 1)[count], carry)
            meet(processes)
        sizes = [p.numel() for p in model.parameters() if p.requires_grad]
        return {"bytes": sent() - before, "parameters": sum(sizes), "tensors": len(sizes)}


def shard(rank: int, job: dict[str, Any]) -> dict[str, Any]:
    """The bytes of a sharded step after the first, and the shapes that are gathered in it."""
    kind = find("language")
    fields = ["dropout=0", "hidden_size=28", "embedding_dim=28", "batch_size=8", "seq_len=6", "num_layers=3"]
    task = kind.load(override(kind.recipes["attention"], ["precision=fp32", *fields]), None)
    with joined() as processes:
        torch.manual_seed(1)
        model = task.new_model()
        step = ShardedStep(task, model, {}, torch.device("cpu"), "fp32", processes, seed=1)
        inside = {id(p) for layer in step.layers for p in layer.parameters()}
        shapes: dict[bool, list[list[int]]] = {True: [], False: []}
        for p in step.model.parameters():
            shapes[id(p) in inside].append(list(p.shape))
        carry = {name: x.tensor_split(processes.size, 1)[rank] for name, x in task.start(model).items()}
        for count in range(2):
            meet(processes)
            before = sent()
            _, carry = step(task.batches(1, 1)[count], carry)
            meet(processes)
        return {
            "bytes": sent() - before,
            "layers": shapes[True],
            "root": shapes[False],
            "held": sum(p.to_local().numel() for p in step.model.parameters()),  # type: ignore[attr-defined]
        }


def grad_of(x: Tensor) -> Tensor:
    assert x.grad is not None
    return x.grad


def joined() -> contextlib.AbstractContextManager[Processes]:
    return join(Launch.read())


def meet(processes: Processes) -> None:
    """Wait for the others, so that what was to be sent is sent."""
    processes.sum(torch.zeros(1))


def sent() -> int:
    """Bytes that this process has written, into sockets too."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"])


JOBS = {"train": train, "attend": attend, "reduce": reduce, "step": step, "shard": shard}


def do_jobs(rank: int, plan: list[dict[str, Any]]) -> None:
    """Do what a plan says, as the process of a rank, and leave what came of each job in its folder."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1"}
    for job in plan:
        if rank >= job["size"]:
            continue
        os.environ |= {"WORLD_SIZE": str(job["size"]), "MASTER_PORT": str(job["port"])}
        out = Path(job["out"])
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context((out / f"{rank}.out").open("w"))
            stack.enter_context(contextlib.redirect_stdout(stream))
            stack.enter_context(contextlib.redirect_stderr(stream))
            found = JOBS[job["do"]](rank, job)
        (out / f"{rank}.json").write_text(json.dumps(found))
