"""Stopped before any of its file operations, a save leaves a good checkpoint, and the run ends with the same bits."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests.runs.tiny_runs import begin, copied, cut, flip, in_a_child, kill_at, resume, same_bits, stopped

from porism.runs import checkpoint
from porism.training import session

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PARTS = {
    "model": {"weight": torch.arange(6.0)},
    "optimizer": {"0.step": torch.ones(())},
    "carry": {},
    "random": {"cpu": torch.arange(4, dtype=torch.uint8)},
}


def save(folder: Path, step: int) -> None:
    checkpoint.save(folder, PARTS, {"step": step}, {"assets": ["a"]})


def torn(folder: Path, *names: str) -> None:
    """What a save leaves that was stopped after some of its files, the last of them half-way."""
    save(folder.with_name("other"), 9)
    writing = folder.with_name(f".{folder.name}.writing")
    writing.mkdir()
    for name in names:
        shutil.copy(folder.with_name("other") / name, writing)
    if names:
        cut(writing / names[-1])
    shutil.rmtree(folder.with_name("other"))


def whole(folder: Path, step: int) -> None:
    """What a save leaves that was stopped before it renamed anything."""
    save(folder.with_name("other"), step)
    folder.with_name("other").rename(folder.with_name(f".{folder.name}.writing"))


def two(folder: Path) -> None:
    save(folder, 1)
    save(folder, 2)


def after(*steps: Callable[[Path], object]) -> Callable[[Path], None]:
    def all_of_them(folder: Path) -> None:
        for step in steps:
            step(folder)

    return all_of_them


BEFORE: dict[str, tuple[Callable[[Path], object], int | None]] = {
    "nothing": (lambda folder: None, None),
    "one": (lambda folder: save(folder, 1), 1),
    "two": (two, 2),
    "the newer damaged": (after(two, lambda folder: flip(folder / "model.safetensors")), 1),
    "the newer without a state": (after(two, lambda folder: (folder / "state.json").unlink()), 1),
    "both damaged": (
        after(
            two,
            lambda folder: flip(folder / "state.json"),
            lambda folder: cut(folder.with_name("last.previous") / "model.safetensors"),
        ),
        None,
    ),
    "only the one before": (after(two, lambda folder: shutil.rmtree(folder)), 1),
    "torn at once": (after(two, torn), 2),
    "torn in its state": (after(two, lambda folder: torn(folder, "state.json")), 2),
    "torn in a tensor": (after(two, lambda folder: torn(folder, "state.json", "model.safetensors")), 2),
    "torn by 0.1": (after(two, lambda folder: torn(folder, "model.safetensors", "optimizer.safetensors")), 2),
    "whole beside two": (after(two, lambda folder: whole(folder, 3)), 3),
    "whole beside a damaged one": (
        after(
            lambda folder: save(folder, 1),
            lambda folder: flip(folder / "model.safetensors"),
            lambda folder: whole(folder, 3),
        ),
        3,
    ),
    "whole alone": (lambda folder: whole(folder, 3), 3),
}


ALL = range(1, 500)


@pytest.fixture
def each(pytestconfig: pytest.Config, is_whole: bool) -> range:
    """Which file operations some work is stopped before: all, or every third, from a drawn one on."""
    return ALL if is_whole else range(1 + pytestconfig.option.seed % 3, 500, 3)


def stops(each: range, begin_at: Path, tries: Path, work: Callable[[Path], object]) -> Iterator[Path]:
    """Copies of a folder in which some work was stopped before each of these file operations in turn."""
    for number in each:
        folder = copied(begin_at, tries / str(number))

        def killed(number: int = number, folder: Path = folder) -> None:
            kill_at(number, folder)
            work(folder)

        code = in_a_child(killed)
        if code == 0:
            assert number > each.start
            return
        assert code == 9
        yield folder
        shutil.rmtree(folder)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("before", BEFORE)
def test_a_save_stopped_anywhere_leaves_a_good_checkpoint(tmp_path: Path, each: range, before: str) -> None:
    prepare, good = BEFORE[before]
    start = tmp_path / "start"
    start.mkdir()
    prepare(start / "last")
    count = 0
    for folder in stops(each, start, tmp_path / "tries", lambda folder: save(folder / "last", 7)):
        count += 1
        last = folder / "last"
        if good is not None:
            assert checkpoint.exists(last)
            assert checkpoint.load(last)[0].state["step"] in (good, 7)
        save(last, 8)
        found, warning = checkpoint.load(last)
        assert (found.folder, found.state["step"], warning) == (last, 8, None)
        assert not (folder / ".last.writing").exists()
    # A folder, six files opened and synced, two syncs of folders and a rename.
    assert count >= 16 // each.step


def test_no_save_takes_a_good_checkpoint_for_a_damaged_one(tmp_path: Path) -> None:
    last = tmp_path / "last"
    two(last)
    flip(last / "model.safetensors")
    save(last, 3)
    assert checkpoint.read(last).state["step"] == 3
    assert checkpoint.read(tmp_path / "last.previous").state["step"] == 1


@pytest.fixture(scope="module")
def straight(tiny_text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("straight") / "run"
    begin(out, tiny_text, "epochs=2").fit()
    return out


@pytest.mark.sweep(1)
@pytest.mark.parametrize("damage", ["none", "last", "best"])
def test_a_run_stopped_anywhere_ends_with_the_same_bits(
    tiny_text: str, straight: Path, tmp_path: Path, each: range, damage: str
) -> None:
    start = stopped(tmp_path / "start", tiny_text, "epochs=2", epochs=1)
    if damage == "last":
        # The good one before it is of the same moment.
        copied(start / "last", start / "last.previous")
        flip(start / "last/optimizer.safetensors")
    if damage == "best":
        copied(start / "best", start / "best.previous")
        flip(start / "best/model.safetensors")
    count = 0
    for folder in stops(each, start, tmp_path / "tries", lambda folder: resume(folder).fit()):
        count += 1
        resume(folder).fit()
        assert same_bits(folder, straight)
    assert count >= 30 // each.step


def test_a_new_run_stopped_anywhere_can_begin_again_or_be_resumed(
    tiny_text: str, straight: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    begun = 0
    for folder in stops(ALL, empty, tmp_path / "tries", lambda folder: begin(folder / "run", tiny_text, "epochs=2")):
        if (folder / "run/recipe.toml").exists():
            begun += 1
            training = resume(folder / "run")
        else:
            training = begin(folder / "run", tiny_text, "epochs=2")
        training.fit()
        assert same_bits(folder / "run", straight)
    assert begun >= 2


@pytest.mark.sweep(0)
def test_results_stopped_anywhere_are_written_whole(
    tiny_text: str, straight: Path, tmp_path: Path, each: range
) -> None:
    result = session.complete(resume(copied(straight, tmp_path / "finished")))
    for folder in stops(each, straight, tmp_path / "tries", lambda folder: session.complete(resume(folder))):
        assert session.complete(resume(folder))["metrics"] == result["metrics"]
