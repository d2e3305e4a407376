"""Runs that train in a few milliseconds, and ways to hurt and to compare them."""

import os
import random
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tests.forking import failed, fork, waited

from porism.runs import checkpoint
from porism.runs.recipe import override
from porism.runs.run import RunFolder
from porism.tasks.language.recipes import RECIPES
from porism.tasks.language.task import Language
from porism.training import session
from porism.training.loop import Training
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest

SETTINGS = [
    "hidden_size=4",
    "embedding_dim=3",
    "batch_size=16",
    "seq_len=5",
    "epochs=3",
    "learning_rate=0.05",
    "dropout=0.3",
    "precision=fp32",
]
"""The second of its three epochs is the best, on the text below and from seed 5."""


def write_text(folder: Path) -> str:
    """A text of 40 short lines."""
    draw, words = random.Random(1), ["the", "a", "cat", "dog", "sees", "and"]
    path = folder / "text.txt"
    path.write_text("\n".join(" ".join(draw.choices(words, k=6)) for _ in range(40)) + "\n")
    return str(path)


def begin(out: Path, text: str, *settings: str, seed: int = 5) -> Training:
    chosen = [*SETTINGS, *settings]
    recipe = override(RECIPES["elman"], chosen)
    return session.begin(
        TrainingRequest(Language, recipe, source=text, device="cpu", seed=seed, threads=1, overrides=chosen), out
    )


def resume(out: Path, progress: NoProgress | None = None) -> Training:
    return session.reopen(Language, RunFolder.open(out), progress)


class Stop(Exception):
    """A stop without a checkpoint, as a kill is one."""


class Listener(NoProgress):
    """Records its calls, and stops after some epochs or steps."""

    def __init__(self, epochs: int = 0, steps: int = 0) -> None:
        self.epochs, self.steps = epochs, steps
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, units: int) -> None:
        self.steps -= 1
        if self.steps == 0:
            raise Stop

    def epoch(self, event: Any) -> None:
        self.epochs -= 1
        if self.epochs == 0:
            raise Stop


def stopped(out: Path, text: str, *settings: str, epochs: int = 0, steps: int = 0) -> Path:
    """A run that was stopped after some epochs, or after some steps with a checkpoint after each but the last."""
    training = begin(out, text, *settings)
    try:
        training.fit(Listener(epochs, steps), checkpoint_every=-1 if steps else 60)
    except Stop:
        return out
    raise AssertionError("it was not stopped")


def copied(run: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(run, to)
    return to


def flip(path: Path, place: int | None = None) -> None:
    """Change one bit, in the middle unless given otherwise."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def remove(path: Path) -> None:
    path.unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {"flip": flip, "cut": cut, "remove": remove}


def files(run: Path) -> list[str]:
    """Every file of a run that says anything."""
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file() and path.name != ".lock")


def bits(run: Path, name: str) -> dict[str, list[int]]:
    """Every tensor of a checkpoint, to the bit."""
    parts = checkpoint.read(run / name).parts
    return {
        f"{part}.{key}": list(tensor.contiguous().view(-1).view(torch.uint8).tolist())
        for part, tensors in parts.items()
        for key, tensor in tensors.items()
    }


def same_bits(one: Path, other: Path) -> bool:
    return all(bits(one, name) == bits(other, name) for name in ("best", "last"))


def kill_at(number: int, folder: Path) -> None:
    """From now on, kill this process instead of letting it do the file operation of that number within a folder.

    Counted from 1: files opened for writing, folders made, renamed, deleted, truncated, and syncs, which follow writes.
    """
    left, within, sync = number, os.fspath(folder), os.fsync

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os._exit(9)

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        changes = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (changes or writes) and str(arguments[0]).startswith(within):
            count()

    def synced(fd: Any) -> None:
        count()
        sync(fd)

    sys.addaudithook(on_event)
    os.fsync = synced


def in_a_child(work: Callable[[], object]) -> int:
    """Do something in a forked process and give its exit code: 0 done, 1 an error, 9 killed by `kill_at`."""
    child = fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(failed(traceback.format_exc()))
    return waited(child)
