"""What a checkpoint keeps of a task (vocabularies, tokenizers, classes), and vectors in files: used or refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.fuzz.cases import Fuzz, attempt, check_both
from tests.fuzz.forms import FORMS, packed
from tests.fuzz.mutations import CHANGES, EDITS, Change, Edit, Tree, changed, edited, write_tree

from porism.errors import PorismError
from porism.runs.checkpoint import Checkpoint
from porism.runs.recipe import to_fields
from porism.tasks import find
from porism.tasks.words.data import evaluation_sets, word2vec
from porism.training import session


class Run:
    """What `restore_task` reads of a run."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields, self.path = fields, Path("run")
        self.facts = type("Facts", (), {"model": None})


@pytest.mark.parametrize("name", FORMS)
def test_assets_of_a_task_are_taken_or_refused(name: str, fuzz: Fuzz, tmp_path: Path) -> None:
    form = next(iter(FORMS[name]().values()))
    files = form.files if form.arrays is None else {form.source: packed(form.arrays)}
    kind = find(name)
    assets = kind.load(form.recipe, str(write_tree(tmp_path / "data", files) / form.source)).assets()
    run: Any = Run(to_fields(form.recipe))

    def restored(document: Any) -> Any:
        return session.restore_task(kind, run, Checkpoint(tmp_path / "best", {}, {"assets": document}, {}))

    def check(edits: list[Edit]) -> None:
        attempt(lambda: restored(edited(assets, edits)))

    assert not isinstance(attempt(lambda: restored(json.loads(json.dumps(assets)))), PorismError)
    fuzz(EDITS, check, share=20, whole=200)


def vectors() -> dict[str, tuple[Tree, Callable[[Path], Any]]]:
    words = ["the", "cat", "dog", "sees"]
    numbers = torch.linspace(-1, 1, 12).view(4, 3)
    text = "4 3\n" + "".join(
        " ".join([word, *(f"{value:.6f}" for value in row)]) + "\n"
        for word, row in zip(words, numbers.tolist(), strict=True)
    )
    binary = b"4 3\n" + b"".join(
        word.encode() + b" " + row.numpy().astype("<f4").tobytes() for word, row in zip(words, numbers, strict=True)
    )
    sets = {
        "wordsim353.tsv": b"# pairs\nthe\tcat\t3.5\ncat\tdog\t7\nthe\tsees\t1\n",
        "questions-words.txt": b": family\nthe cat dog sees\ncat dog the sees\n",
    }

    def evaluated(folder: Path) -> Any:
        return evaluation_sets.evaluate(folder, words, numbers).tables()

    return {
        "text": ({"a.txt": text.encode()}, lambda folder: word2vec.load(folder / "a.txt")),
        "binary": ({"a.bin": binary}, lambda folder: word2vec.load(folder / "a.bin")),
        "sets": (sets, evaluated),
    }


@pytest.mark.parametrize("name", ["text", "binary", "sets"])
def test_vectors_and_their_evaluation_sets_are_read_or_refused(name: str, fuzz: Fuzz, tmp_path: Path) -> None:
    files, read = vectors()[name]
    outcomes = []

    def check(changes: list[Change]) -> None:
        folder = write_tree(tmp_path / "data", changed(files, changes))
        outcomes.append(isinstance(attempt(lambda: read(folder)), PorismError))

    read(write_tree(tmp_path / "good", files))
    fuzz(CHANGES, check, share=40, whole=700)
    check_both(outcomes)


def test_strategies_draw_edits() -> None:
    """An edit changes something, or there would be nothing to refuse."""
    document = {"words": ["a", "b"], "counts": [1, 2]}
    assert edited(document, [Edit("set", 0, None)]) is None
    assert edited(document, [Edit("remove", 2, None)]) == {"words": ["b"], "counts": [1, 2]}
