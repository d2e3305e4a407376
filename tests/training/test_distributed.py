"""Several processes train as one does, and resume what one has begun; one is lost, and that is said."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.forking import failed, fork, need_fork, waited
from tests.training.distributed_jobs import do_jobs, recorded
from torch import Tensor

from porism.cli import main
from porism.cli.train import TrainCommand
from porism.errors import RecipeError, RunError
from porism.layers.attention.taylor.sequence_parallel import bytes_sent
from porism.runs.recipe import override
from porism.tasks import TASKS, find
from porism.tasks.speech.data.symbols import EOS, PAD, SOS
from porism.tasks.speech.model.base import build
from porism.tasks.speech.recipes import RECIPES
from porism.training.distributed.launch import Launch
from porism.training.distributed.processes import Processes
from porism.training.distributed.sharding import called_layers, check_shards, try_loss
from porism.training.distributed.step import part_of
from porism.training.distributed.traffic import padded, shard_bytes, step_bytes
from porism.training.task import Task

STEPS, STOP = 205, 70
LANGUAGE = [
    *("train", "language", "lstm", "--dropout", "0", "--precision", "fp32", "--threads", "1", "--no-baselines"),
    *("--hidden-size", "8", "--embedding-dim", "8", "--batch-size", "5", "--seq-len", "6"),
]
IMAGES = [
    *("train", "images", "convolution-equal", "--hidden-size", "4", "--num-layers", "1", "--batch-size", "64"),
    *(
        "--epochs",
        "2",
        "--dropout",
        "0",
        "--degrees",
        "0",
        "--scale",
        "0",
        "--precision",
        "fp32",
        "--threads",
        "1",
        "--no-baselines",
    ),
]
"""With a batch norm, which is one over the whole batch."""
NUMBERS = [20_003, 100_003]
"""Numbers that are summed over processes while their bytes are counted."""
SLACK = 4096
"""Bytes beside the numbers themselves: gloo heads each message with some, and answers it."""


def small(name: str, recipe: str | None = None, *fields: str) -> Task:
    kind = find(name)
    return kind.load(override(kind.recipes[recipe or kind.default_recipe], ["precision=fp32", *fields]), None)


SHARED: dict[str, Callable[[], Task]] = {
    "language": lambda: small("language", "lstm", "dropout=0", "hidden_size=8", "batch_size=5", "seq_len=6"),
    "supervised": lambda: small("supervised", None, "batch_size=7"),
    "images": lambda: small("images", "pooled", "batch_size=7"),
    "sentiment": lambda: small("sentiment", None, "batch_size=7"),
    "graphs": lambda: small("graphs", "sampled", "batch_size=7", "num_neighbors=3", "split=random"),
    "sentiment by class": lambda: small("sentiment", None, "batch_size=7", "class_weight=balanced"),
}


def gradients(task: Task, model: torch.nn.Module, parts: int) -> tuple[float, list[Tensor]]:
    """The loss of a batch and its gradients, from so many parts, in evaluation mode: without dropout."""
    model.zero_grad()
    batch, whole, total = tuple(task.batches(1, 1)[0]), task.start(model), 0.0
    for rank in range(parts):
        processes, dim = Processes(Launch(rank=rank, size=parts)), task.example_dim()
        part = task.part(batch, rank, parts)
        carry = {name: part_of(x, dim, processes) for name, x in whole.items()}
        loss, _ = task.loss(model, part, carry) if parts == 1 else task.loss_part(model, part, batch, carry)
        loss.backward()
        total += float(loss.detach())
    return total, [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("name", SHARED)
def test_parts_of_a_batch_add_up_to_its_loss_and_gradient(name: str) -> None:
    task = SHARED[name]()
    torch.manual_seed(1)
    model = task.new_model().eval()
    loss, grads = gradients(task, model, 1)
    # Three parts of a batch of 5 or 7 are not of one size.
    parts_loss, parts_grads = gradients(task, model, 3)
    assert parts_loss == pytest.approx(loss, rel=1e-5)
    for whole, parts in zip(grads, parts_grads, strict=True):
        assert torch.allclose(whole, parts, rtol=1e-4, atol=1e-6 * max(1.0, float(whole.abs().max())))


def test_parts_of_speech_weigh_each_term_by_what_it_is_a_mean_over() -> None:
    """Cross-entropy is one over targets, CTC over labels without eos, guided attention over symbols."""
    small = ["hidden_size=16", "num_heads=2", "dim_feedforward=16", "num_layers=1", "dropout=0", "word_dropout=0"]
    torch.manual_seed(1)
    for recipe in ("joint-guided", "lstm-ljspeech"):
        model = build(override(RECIPES[recipe], small), channels=8, symbols=12).double()
        features, lengths = torch.randn(5, 48, 8, dtype=torch.float64), torch.tensor([48, 40, 31, 44, 47])
        tokens = torch.full((5, 9), PAD)
        for row, count in enumerate((7, 2, 4, 1, 5)):
            tokens[row, 0], tokens[row, count + 1] = SOS, EOS
            tokens[row, 1 : count + 1] = torch.randint(5, 12, (count,))
        whole = model.loss(features, lengths, tokens)
        parts = [
            model.loss(features[rows], lengths[rows], tokens[rows], tokens) for rows in torch.arange(5).tensor_split(3)
        ]
        assert torch.stack(parts).sum().item() == pytest.approx(whole.item(), rel=1e-6)  # logits are float32


def test_a_part_without_a_target_adds_nothing() -> None:
    task = find("supervised").from_data(
        override(find("supervised").recipes["linear"], ["batch_size=4"]),
        (torch.randn(40, 3), torch.arange(40) % 2),
    )
    x, y = torch.randn(4, 3), torch.tensor([-100, -100, 1, 0])
    model = task.new_model()
    loss, _ = task.loss_part(model, (x[:2], y[:2]), (x, y), {})
    rest, _ = task.loss_part(model, (x[2:], y[2:]), (x, y), {})
    assert loss.item() == 0
    loss.backward()
    assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)
    assert torch.equal(rest, task.loss(model, (x, y), {})[0])


class Run:
    """What came of a job, by rank."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, rank: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{rank}.json").read_text())
        return found

    def printed(self, rank: int) -> str:
        return (self.folder / f"{rank}.out").read_text()


class Done:
    """All jobs, and the losses that one process has for comparison. All stop before they report."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        self.words = [*LANGUAGE, "--data", text, "--epochs", "5"]
        self.whole = alone([*self.words, "--out", str(folder / "whole")], STEPS)
        self.first = alone([*self.words, "--out", str(folder / "one")], STOP)
        shutil.copytree(folder / "one", folder / "one, sharded later")
        self.images = alone([*IMAGES, "--out", str(folder / "images of one")], 20)
        to_lose = [*self.words, "--out", str(folder / "lost"), "--checkpoint-every", "0"]
        codes = work(
            folder,
            {
                "two": train([*self.words, "--out", str(folder / "two")], STOP),
                "one on two": train(["train", "--resume", str(folder / "one")], STEPS - STOP),
                "images": train([*IMAGES, "--out", str(folder / "images of two")], 20),
                "graphs": train(["train", "graphs", "--out", str(folder / "graphs")]),
                "compare": train(["compare", "language", "elman", "lstm"]),
                "missing": train([*LANGUAGE, "--data", str(folder / "missing.txt")]),
                "shards of two": train([*self.words, "--out", str(folder / "two in shards"), "--shard"], STOP),
                "one on shards": train(
                    ["train", "--resume", str(folder / "one, sharded later"), "--shard"], STEPS - STOP
                ),
                "bytes of 2 shards": {"do": "shard"},
                "bytes of 4 shards": {"do": "shard", "size": 4},
                "bytes of 2 steps": {"do": "step"},
                "bytes of 4 steps": {"do": "step", "size": 4},
                "attend": {"do": "attend", "size": 4},
                "attend by 2": {"do": "attend"},
                "sum of 4": {"do": "reduce", "numbers": NUMBERS, "size": 4},
                "sum of 2": {"do": "reduce", "numbers": NUMBERS},
                "lost": {**train(to_lose), "lost_after": STOP},
            },
            size=4,
        )
        # Rank 1 is the one that is lost in the last job.
        assert codes == [0, 9, 0, 0]
        self.last = alone(["train", "--resume", str(folder / "two")], STEPS - STOP)
        self.last_of_shards = alone(["train", "--resume", str(folder / "two in shards")], STEPS - STOP)

    def job(self, name: str) -> Run:
        return Run(self.folder / f"job {name}")

    def valid(self, name: str) -> list[dict[str, float]]:
        """What was measured on valid, epoch by epoch."""
        events = map(json.loads, (self.folder / name / "events.jsonl").read_text().splitlines())
        return [event["valid"] for event in events if event["event"] == "epoch"]


def train(words: list[str], stop_after: int | None = None) -> dict[str, Any]:
    return {"do": "train", "words": words, "stop_after": stop_after}


def work(folder: Path, jobs: dict[str, dict[str, Any]], size: int) -> list[int]:
    """Start the processes and let them do the jobs; their exit codes."""
    plan = []
    for name, job in jobs.items():
        (folder / f"job {name}").mkdir()
        plan.append({"size": 2, **job, "out": str(folder / f"job {name}"), "port": free_port()})
    # Forked, since to import torch takes longer than all jobs.
    children = []
    for rank in range(size):
        children.append(fork())
        if not children[-1]:
            try:
                do_jobs(rank, plan)
                os._exit(0)
            except BaseException:
                os._exit(failed(traceback.format_exc()))
    return [waited(child) for child in children]


def alone(words: list[str], stop_after: int | None = None) -> list[float]:
    """The losses of a command in this process, which stops after so many steps."""
    losses: list[float] = []
    with recorded(losses, stop_after):
        assert main([*words, "--quiet"]) == (130 if stop_after else 0)
    return losses


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@pytest.mark.sweep(0)  # 20 s of four processes
def test_several_processes(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, so that the processes are started once: those of a file may run in several workers."""
    need_fork()
    done = Done(tmp_path, text)
    check_two_have_the_losses_of_one_and_resume_them(done)
    check_shards_have_the_losses_of_one_and_resume_them(done)
    check_a_batch_norm_is_that_of_the_whole_batch(done)
    check_what_cannot_be_shared_is_refused_by_all(done)
    check_four_share_a_sequence(done)
    if sys.platform == "linux":
        check_bytes(done)
        check_bytes_of_shards(done)
    check_a_lost_process_ends_the_run_and_a_restart_resumes_it(done, monkeypatch)


def check_two_have_the_losses_of_one_and_resume_them(done: Done) -> None:
    two, one_on_two = done.job("two"), done.job("one on two")
    assert len(done.whole) == STEPS
    assert len(two[0]["losses"]) == STOP
    assert [*two[0]["losses"], *done.last] == pytest.approx(done.whole, abs=1e-5)
    assert [*done.first, *one_on_two[0]["losses"]] == pytest.approx(done.whole, abs=1e-5)
    for name in ("one", "two"):
        for found, expected in zip(done.valid(name), done.valid("whole"), strict=True):
            assert found == pytest.approx(expected, rel=1e-5)
    assert [job[rank]["code"] for job in (two, one_on_two) for rank in (0, 1)] == [130] * 4
    assert "epoch" in one_on_two.printed(0)
    assert one_on_two.printed(1) == ""


def check_shards_have_the_losses_of_one_and_resume_them(done: Done) -> None:
    two, one_on_two = done.job("shards of two"), done.job("one on shards")
    assert len(two[0]["losses"]) == STOP
    assert [*two[0]["losses"], *done.last_of_shards] == pytest.approx(done.whole, abs=1e-5)
    assert [*done.first, *one_on_two[0]["losses"]] == pytest.approx(done.whole, abs=1e-5)
    for name in ("two in shards", "one, sharded later"):
        for found, expected in zip(done.valid(name), done.valid("whole"), strict=True):
            assert found == pytest.approx(expected, rel=1e-5)
    assert [job[rank]["code"] for job in (two, one_on_two) for rank in (0, 1)] == [130] * 4


def check_a_batch_norm_is_that_of_the_whole_batch(done: Done) -> None:
    assert done.job("images")[0]["losses"] == pytest.approx(done.images, abs=1e-5)
    # By the running mean and variance, which rank 0 has of all.
    (one,), (two,) = done.valid("images of one"), done.valid("images of two")
    assert two == pytest.approx(one, rel=1e-5)


def check_what_cannot_be_shared_is_refused_by_all(done: Done) -> None:
    messages = {
        "graphs": "graphs trains recipe gcn in one process",
        "compare": "porism compare runs in one process",
        "missing": "missing.txt",
    }
    for name, message in messages.items():
        job = done.job(name)
        assert [job[rank]["code"] for rank in (0, 1)] == [2, 2]
        assert message in job.printed(0)
        assert job.printed(0).count("\n") == 1
        assert job.printed(1) == ""
        assert not (done.folder / name).exists()


def check_four_share_a_sequence(done: Done) -> None:
    assert max(done.job("attend")[rank]["far"] for rank in range(4)) < 1e-12
    assert max(done.job("attend by 2")[rank]["far"] for rank in range(2)) < 1e-12


def check_bytes(done: Done) -> None:
    """What is counted are the bytes of the formula, and those by which gloo heads and answers messages."""
    for size, name in ((2, "attend by 2"), (4, "attend")):
        for rank in range(size):
            by_formula = bytes_sent(rank, size, batch=2, key_heads=2, head_dim=5, value_dim=5, itemsize=8)
            assert by_formula <= done.job(name)[rank]["bytes"] < by_formula + SLACK
    for size in (2, 4):
        for rank in range(size):
            found = done.job(f"bytes of {size} steps")[rank]
            expected = step_bytes(found["parameters"], found["tensors"], size)
            assert expected - 8 * size <= found["bytes"] < expected + SLACK
        for rank in range(size):
            for numbers, counted in zip(NUMBERS, done.job(f"sum of {size}")[rank]["bytes"], strict=True):
                # A step sums gradients, a flag for each tensor of them, and the loss; parts of the ring are rounded.
                expected = step_bytes(numbers - 4, 3, size)
                assert expected - 8 * size <= counted < expected + SLACK


def check_bytes_of_shards(done: Done) -> None:
    """A process holds its part alone, and sends what the formula says. gloo reduces, and does not scatter."""
    for size in (2, 4):
        for rank in range(size):
            found = done.job(f"bytes of {size} shards")[rank]
            root, layers = padded(found["root"], size), padded(found["layers"], size)
            assert found["layers"]
            # The last process may hold fewer rows.
            assert found["held"] <= (root + layers) / size
            expected = shard_bytes(root, layers, size, reduce_scatter=False)
            # A dozen exchanges, of which each is headed and answered.
            assert expected - 8 * size <= found["bytes"] < expected + 4 * SLACK


def check_a_lost_process_ends_the_run_and_a_restart_resumes_it(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = done.job("lost")
    assert lost[0]["code"] == 1
    assert "one of the 2 processes was lost" in lost.printed(0).splitlines()[-1]
    assert len(lost[0]["losses"]) == STOP
    # As torchrun --max-restarts starts the same command again.
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(name, value)
    rest = alone([*done.words, "--out", str(done.folder / "lost")], STEPS - STOP)
    assert [*lost[0]["losses"], *rest] == pytest.approx(done.whole, abs=1e-5)


def test_a_step_over_a_whole_graph_is_not_shared() -> None:
    for fields in ([], ["num_neighbors=3", "num_augmentations=2", "consistency_weight=1"]):
        with pytest.raises(RecipeError, match="graphs trains recipe kipf in one process"):
            small("graphs", "kipf", *fields).example_dim()


def test_restarts_need_a_folder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    assert main(LANGUAGE) == 2
    assert "--max-restarts needs --out" in capsys.readouterr().err


def test_layers_are_gathered_one_by_one_where_calls_alone_use_them() -> None:
    """A penalty reads the weights of the first graph convolution beside its call: it stays with the rest."""
    for name, recipe, fields, expected in (
        ("language", "attention", ["num_layers=3", "batch_size=4", "seq_len=6"], 3),
        ("graphs", "sampled", ["num_neighbors=3"], 1),
    ):
        task = small(name, recipe, *fields)
        model = task.new_model()
        layers = called_layers(model, lambda task=task, model=model: try_loss(task, model, 1))  # type: ignore[misc]
        assert len(layers) == expected


def test_a_task_that_does_not_train_in_shards_is_refused() -> None:
    with pytest.raises(RecipeError, match="graphs does not train in shards"):
        check_shards(small("graphs", "sampled", "num_neighbors=3"))


def test_shards_need_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LANGUAGE, "--shard"]) == 2
    assert "--shard spreads a model over the processes that torchrun starts, and this is one" in capsys.readouterr().err


def test_shards_of_another_task_are_refused_before_a_run_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for task in SHARDED:
        TrainCommand(task=task, shard=True)._check_shard()
    for task in set(TASKS) - SHARDED:
        with pytest.raises(RecipeError) as refused:
            TrainCommand(task=task, shard=True)._check_shard()
        assert str(refused.value) == (
            f"{task} does not train in shards. Leave --shard out; tasks that do: language, images, speech, sentiment, "
            "supervised."
        )


def test_an_environment_that_cannot_be_is_refused() -> None:
    for environment in ({"RANK": "2", "WORLD_SIZE": "2"}, {"RANK": "x", "WORLD_SIZE": "2"}):
        with pytest.raises(RunError, match=r"RANK=.*torchrun"):
            Launch.read(environment)


def test_a_loss_of_the_users_own_is_refused() -> None:
    task = small("supervised")
    task.recipe = override(task.recipe, ["loss=function"])
    with pytest.raises(RecipeError, match="loss=function in one process"):
        task.example_dim()


SHARDED = {"language", "images", "speech", "sentiment", "supervised"}
"""Tasks that train in shards."""
FIELDS = {
    "language attention": ["dropout=0", "hidden_size=16", "embedding_dim=16", "batch_size=9", "seq_len=20"],
    "images pooled": ["dropout=0", "batch_size=33"],  # sgd
    "images convolution-equal": ["dropout=0", "degrees=0", "scale=0", "batch_size=33", "hidden_size=4"],  # batch norms
    "images grid": ["dropout=0", "degrees=0", "scale=0", "batch_size=33", "hidden_size=8"],
    "sentiment attention": [
        "dropout=0",
        "word_dropout=0",
        "classifier_dropout=0",
        "batch_size=9",
        "hidden_size=16",
        "class_weight=balanced",
        "learning_rate=0.002",  # at three times as much one process, nudged by 1e-7, leaves its own losses by 5e-3
    ],
    "speech joint": ["dropout=0", "word_dropout=0", "num_freq_mask=0", "num_time_mask=0", "hidden_size=16"],
    "graphs sampled": ["dropout=0", "input_dropout=0", "num_neighbors=3", "batch_size=3"],
    "supervised mlp": ["batch_size=33"],
    "words full": ["vector_size=16"],
    "words negative": ["vector_size=16"],  # what is sampled belongs to the batch
}
"""Recipes without anything that a process draws at random in its part of a step."""


@pytest.mark.sweep(0)
@pytest.mark.parametrize(
    ("name", "shard"),
    [(name, shard) for name in FIELDS for shard in (False, True) if not shard or name.split()[0] in SHARDED],
)
def test_two_processes_have_the_losses_of_one_over_200_steps_and_resume_them(
    name: str, shard: bool, tmp_path: Path
) -> None:
    sets = [
        word for field in ["precision=fp32", "epochs=500", "patience=500", *FIELDS[name]] for word in ("--set", field)
    ]
    words = ["train", *name.split(), *sets, "--threads", "1", "--no-baselines", "--out"]
    shards = ["--shard"] * shard
    one = alone([*words, str(tmp_path / "one")], stop_after=200)
    jobs = {
        "two": train([*words, str(tmp_path / "two"), *shards], 200),
        "one on two": train(["train", "--resume", str(tmp_path / "one"), *shards], 20),
    }
    assert work(tmp_path, jobs, size=2) == [0, 0]
    assert Run(tmp_path / "job two")[0]["losses"] == pytest.approx(one, abs=1e-5)
    two_on_one = alone(["train", "--resume", str(tmp_path / "two")], stop_after=20)
    assert Run(tmp_path / "job one on two")[0]["losses"] == pytest.approx(two_on_one, abs=1e-5)


@pytest.mark.sweep(0)
def test_torchrun_restarts_a_run_whose_first_process_is_killed(text: str, tmp_path: Path) -> None:
    words = [*LANGUAGE, "--data", text, "--epochs", "8", "--checkpoint-every", "0", "--out", str(tmp_path / "run")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with subprocess.Popen([*torchrun, "--max-restarts", "1", "-m", "porism", *words]) as started:
        while not (tmp_path / "run" / "last").is_dir():
            assert started.poll() is None
            time.sleep(0.05)
        os.kill(int((tmp_path / "run" / ".lock").read_text().split()[1]), signal.SIGKILL)
        assert started.wait(timeout=300) == 0
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events if event["event"] in ("start", "resume", "finish")] == [
        *("start", "resume", "finish")
    ]
    alone([*words[:-1], str(tmp_path / "one")])
    one, two = (json.loads((tmp_path / name / "metrics.json").read_text())["metrics"] for name in ("one", "run"))
    assert two["test"] == pytest.approx(one["test"], rel=1e-4)
