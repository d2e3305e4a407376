"""Processes that train apart on parts of a batch and merge: each as if alone, then all with the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.test_distributed import free_port, train
from tests.training.threads import together
from torch import Tensor

from porism.cli import main
from porism.errors import DivergedError
from porism.layers.skipgram import SkipGram
from porism.runs.recipe import override
from porism.tasks.words.model.trainer import KernelStep
from porism.tasks.words.recipes import RECIPES
from porism.tasks.words.task import Words
from porism.training.distributed.averaging import AveragedStep, shared_step
from porism.training.distributed.launch import Launch
from porism.training.distributed.processes import Processes
from porism.training.distributed.step import DataParallelStep
from porism.training.interrupt import ask_to_stop
from porism.training.task import Batch, Carry, MergedStep

pytest.importorskip("numba", reason="numba trains words")
FIELDS = ["vector_size=5", "epochs=2", "batch_size=600", "deterministic=true"]


@pytest.fixture(scope="module")
def task() -> Words:
    return Words.load(override(RECIPES["skipgram"], FIELDS), None)


def new_model(task: Words) -> SkipGram:
    torch.manual_seed(7)
    return task.build()


def merge(task: Words, model: SkipGram) -> MergedStep:
    own = task.step(model)
    assert isinstance(own, MergedStep)
    return own


def made(task: Words, model: SkipGram, processes: Processes) -> AveragedStep | DataParallelStep:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    return shared_step(task, model, optimizer, torch.device("cpu"), "fp32", processes)


def test_rows_change_by_the_mean_of_what_each_process_changes_times_their_scale(task: Words) -> None:
    size, models = 3, [new_model(task) for _ in range(3)]
    steps: list[Any] = [None] * size
    for rank in range(size):
        torch.manual_seed(7)  # the kernels' seed
        steps[rank] = made(task, models[rank], Processes(Launch(rank=rank, size=size)))
    batches = task.batches(1, 1)[:2]

    def work(processes: Processes) -> list[float]:
        step = steps[processes.rank]
        step.processes = processes
        return [float(step(batch, {})[0]) for batch in batches]

    losses = together(size, work)
    assert losses[0] == losses[1] == losses[2]
    for model in models[1:]:
        assert torch.equal(model.weight, models[0].weight)
        assert torch.equal(model.context_weight, models[0].context_weight)
    expected = new_model(task)
    for number, batch in enumerate(batches):
        starts = [p.detach().double().clone() for p in expected.parameters()]
        changes, loss, words = [torch.zeros_like(x) for x in starts], 0.0, 0
        scales = merge(task, new_model(task)).scales(batch, size)
        for rank in range(size):
            apart = new_model(task)
            for p, start in zip(apart.parameters(), starts, strict=True):
                p.data.copy_(start)
            own = merge(task, apart)
            tokens, position = task.part(batch, rank, size)
            known = int((tokens >= 0).sum())
            loss, words = loss + known * float(own((tokens, position), {})[0]), words + known
            for change, p, start in zip(changes, apart.parameters(), starts, strict=True):
                change += p.detach().double() - start
        assert losses[0][number] == pytest.approx(loss / words, rel=1e-4)
        for p, start, change, scale in zip(expected.parameters(), starts, changes, scales, strict=True):
            p.data.copy_(start + change * scale.double() / size)
    for p, q in zip(models[0].parameters(), expected.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-4, atol=1e-6)
        assert not torch.equal(p, dict(new_model(task).named_parameters())["weight"])


@pytest.mark.sweep(0)  # 8 s
def test_merged_vectors_are_as_good_as_those_of_one_process() -> None:
    """Not the same: each word's update reads what the words before it changed, which parts trained apart do not see.

    On valid vectors of zeros have 6.235, one process 5.991, two 5.990 and four 5.996; by the mean alone,
    without scales, two had 6.038 and four 6.134.
    """
    fields = ["vector_size=16", "epochs=5", "batch_size=600", "deterministic=true"]
    task = Words.load(override(RECIPES["skipgram"], fields), None)

    def trained(size: int) -> float:
        models, steps = [new_model(task) for _ in range(size)], []
        for rank, model in enumerate(models):
            torch.manual_seed(7)  # the kernels' seed
            steps.append(made(task, model, Processes(Launch(rank=rank, size=size))) if size > 1 else task.step(model))

        def work(processes: Processes) -> None:
            step: Any = steps[processes.rank]
            step.processes = processes
            for epoch in range(1, task.recipe.epochs + 1):
                for batch in task.batches(epoch, 1):
                    step(batch, {})

        assert together(size, work) == [None] * size
        return task.evaluate(models[0].eval(), "valid")["cross_entropy"]

    one = trained(1)
    assert task.evaluate(new_model(task).eval(), "valid")["cross_entropy"] - one > 0.2
    assert trained(2) - one < 0.005
    assert trained(4) - one < 0.01


def test_what_diverges_on_another_process_is_said_by_the_first(task: Words) -> None:
    models = [new_model(task) for _ in range(2)]

    class Diverging:
        def __init__(self, own: MergedStep) -> None:
            self.scales = own.scales

        def __call__(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
            raise DivergedError("the loss is 80.")

    steps = [made(task, model, Processes(Launch(rank=rank, size=2))) for rank, model in enumerate(models)]
    for diverging, message in ((1, "process 1 of 2: the loss is 80."), (0, "the loss is 80.")):
        step = steps[diverging]
        assert isinstance(step, AveragedStep)
        right, step.own = step.own, Diverging(step.own)

        def work(processes: Processes) -> None:
            steps[processes.rank].processes = processes
            steps[processes.rank](task.batches(1, 1)[0], {})

        error, other = together(2, work)
        assert other is None  # it waits for what the first says
        assert isinstance(error, DivergedError)
        assert str(error) == message
        step.own = right


def test_other_estimators_sum_gradients(task: Words) -> None:
    adam = Words(override(task.recipe, ["optimizer=adam", "deterministic=false"]), task.vocabulary, task.corpus)
    assert isinstance(made(adam, new_model(adam), Processes(Launch(rank=0, size=2))), DataParallelStep)
    full = Words(override(RECIPES["full"], ["vector_size=5"]), task.vocabulary, task.corpus)
    batch, model = full.batches(1, 1)[0], new_model(full)
    whole, _ = full.loss(model, batch, {})
    parts = [full.loss_part(model, full.part(batch, rank, 3), batch, {})[0] for rank in range(3)]
    assert torch.stack(parts).sum().item() == pytest.approx(whole.item(), rel=1e-5)


START = """
import json, sys
from tests.training.distributed_jobs import do_jobs
do_jobs(int(sys.argv[1]), json.loads(sys.argv[2]))
"""


@pytest.mark.sweep(0)
def test_two_processes_resume_their_own_run_to_the_bit_and_that_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = len(Words.load(override(RECIPES["skipgram"], FIELDS), None).batches(1, 1))
    assert steps > 40
    words = ["train", "words", *(x for one in FIELDS for x in ("--set", one)), "--threads", "1", "--no-baselines"]

    def command(name: str, resume: bool = False) -> list[str]:
        return ["train", "--resume", str(tmp_path / name)] if resume else [*words, "--out", str(tmp_path / name)]

    with monkeypatch.context() as context:
        context.setattr(KernelStep, "__call__", stopping(KernelStep.__call__, 30))
        assert main([*command("one"), "--quiet"]) == 130
    plan = []
    for name, job in {
        "whole": train(command("whole"), steps + 20),
        "part": train(command("part"), steps - 7),
        "part, resumed": train(command("part", resume=True), 27),
        "one on two": train(command("one", resume=True), steps),
    }.items():
        (tmp_path / f"job {name}").mkdir()
        plan.append({"size": 2, **job, "out": str(tmp_path / f"job {name}"), "port": free_port()})
    # Not forked: OpenMP's threads, which numba takes, live in no forked process.
    children = [
        subprocess.Popen(
            [sys.executable, "-c", START, str(rank), json.dumps(plan)],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for rank in (0, 1)
    ]
    errors = [child.communicate(timeout=300)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], errors
    found = {}
    for job in plan:
        results = [json.loads((Path(job["out"]) / f"{rank}.json").read_text()) for rank in (0, 1)]
        assert [result["code"] for result in results] == [130, 130], (Path(job["out"]) / "0.out").read_text()
        assert (Path(job["out"]) / "1.out").read_text() == ""
        found[Path(job["out"]).name] = results[0]["losses"]
    assert [*found["job part"], *found["job part, resumed"]] == found["job whole"]
    last = [(tmp_path / name / "last" / "model.safetensors").read_bytes() for name in ("whole", "part")]
    assert last[0] == last[1]
    # One process began, two went on, one goes on from there.
    assert len(found["job one on two"]) == steps
    with monkeypatch.context() as context:
        context.setattr(KernelStep, "__call__", stopping(KernelStep.__call__, 5))
        assert main([*command("one", resume=True), "--quiet"]) == 130
    events = [json.loads(line) for line in (tmp_path / "one" / "events.jsonl").read_text().splitlines()]
    stops = [(event["epoch"], event["step"]) for event in events if event["event"] in ("resume", "interrupt")]
    assert stops == [(1, 30), (1, 30), (2, 30), (2, 30), (2, 35)]


def stopping(step: Any, after: int) -> Any:
    steps = []

    def call(self: Any, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        steps.append(1)
        if len(steps) == after:
            ask_to_stop()
        found: tuple[Tensor, Carry] = step(self, batch, carry)
        return found

    return call
