"""Checkpoints: damaged ones are detected, and those that were made to mislead are one line, never a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from tests.fuzz.cases import Fuzz, attempt
from tests.fuzz.mutations import CHANGES, EDITS, Change, Edit, Tree, changed, edited, read_tree, write_tree
from tests.runs import tiny_runs
from tests.runs.tiny_runs import Listener, copied, resume

from porism.errors import PorismError
from porism.files import sha256, sha256_of_json
from porism.runs import checkpoint
from porism.runs.run import RunFolder
from porism.tasks.language.task import Language
from porism.training import session


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after two epochs."""
    folder = tmp_path_factory.mktemp("runs")
    return tiny_runs.stopped(folder / "run", tiny_runs.write_text(folder), epochs=2)


def content_of(folder: Path) -> tuple[Any, ...]:
    found = checkpoint.read(folder)
    tensors = {
        (part, name): (x.dtype, tuple(x.shape), x.contiguous().view(-1).view(torch.uint8).tolist())
        for part, tensors in found.parts.items()
        for name, x in tensors.items()
    }
    return tensors, found.documents, found.state


@pytest.mark.parametrize("name", ["best", "last"])
def test_a_damaged_checkpoint_is_refused_or_what_it_was(name: str, fuzz: Fuzz, run: Path, tmp_path: Path) -> None:
    good, right = read_tree(run / name), content_of(run / name)

    def check(changes: list[Change]) -> None:
        damaged = changed(good, changes)
        folder = write_tree(tmp_path / name, damaged)
        found = attempt(lambda: content_of(folder))
        assert isinstance(found, PorismError) or found == right

    fuzz(CHANGES, check, share=60, whole=1000)


def sealed(tree: Tree) -> Tree:
    """The same with right checksums, as somebody would write them who wants to be trusted."""
    files = {name: sha256(content) for name, content in tree.items() if name != "state.json"}
    state = json.loads(tree["state.json"])["state"]
    body = {"state": state, "files": files}
    return {**tree, "state.json": json.dumps({**body, "sha256": sha256_of_json(body)}, indent=1).encode()}


def hostile(tree: Tree, changes: list[Change], edits: list[Edit], document: str) -> Tree:
    """Right checksums over files that were changed, and over a document that says other things."""
    found = {name: content for name, content in tree.items() if name != "state.json"}
    found = {**changed(found, changes), "state.json": tree["state.json"]}
    if document in found and document != "state.json":
        found[document] = json.dumps(edited(json.loads(tree[document]), edits)).encode()
    elif document == "state.json":
        state = edited(json.loads(tree["state.json"])["state"], edits)
        found["state.json"] = json.dumps({"state": state if isinstance(state, dict) else {}}).encode()
    return sealed(found)


CASES = st.tuples(st.just([]) | CHANGES, EDITS, st.sampled_from(["state.json", "assets.json", ""]))


def evaluated(run: Path) -> Any:
    opened = RunFolder.open(run)
    saved = session.best_checkpoint(opened, Listener())
    task = session.restore_task(Language, opened, saved)
    model = session.trained_model(task, saved, torch.device("cpu"))
    return task.predict(model, ["the cat"], {})


def test_a_best_that_was_made_up_is_used_or_refused(fuzz: Fuzz, run: Path, tmp_path: Path) -> None:
    folder, good = copied(run, tmp_path / "run"), read_tree(run / "best")
    (tmp_path / "run" / "best.previous").rename(tmp_path / "aside")

    def check(case: tuple[list[Change], list[Edit], str]) -> None:
        write_tree(folder / "best", hostile(good, *case))
        attempt(lambda: evaluated(folder))

    fuzz(CASES, check, share=60, whole=1200)


def test_a_last_that_was_made_up_is_used_or_refused(fuzz: Fuzz, run: Path, tmp_path: Path) -> None:
    good = read_tree(run / "last")

    def check(case: tuple[list[Change], list[Edit], str]) -> None:
        folder = copied(run, tmp_path / "run")
        write_tree(folder / "last", hostile(good, *case))
        training = attempt(lambda: resume(folder))
        if not isinstance(training, PorismError):
            training.run.unlock()

    fuzz(CASES, check, share=40, whole=600)


def test_a_checkpoint_holds_no_code_and_no_path(run: Path) -> None:
    for name in ("best", "last", "last.previous"):
        for file, content in read_tree(run / name).items():
            assert file.endswith((".safetensors", ".json"))
            assert str(run.parent).encode() not in content
            assert str(Path.home()).encode() not in content


def test_what_is_made_up_here_is_good_before(run: Path, tmp_path: Path) -> None:
    folder = copied(run, tmp_path / "run")
    write_tree(folder / "best", sealed(read_tree(run / "best")))
    assert evaluated(folder)
