"""Files of a run: every flipped byte is detected, and what 0.1 wrote without checksums is read or refused in a line."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from tests.fuzz.cases import Fuzz, attempt, check_both
from tests.fuzz.mutations import CHANGES, EDITS, NUMBERS, Change, Edit, Tree, changed, edited, read_tree, write_tree
from tests.fuzz.test_checkpoints import content_of
from tests.runs import tiny_runs
from tests.runs.tiny_runs import copied

from porism.errors import PorismError
from porism.report.page import write_report
from porism.runs.exhibits import Table
from porism.runs.record import read_run
from porism.runs.run import RunFolder
from porism.tasks.language.task import Language
from porism.training import session

OLD = Path(__file__).parents[1] / "runs"
READ = ("recipe.toml", "events.jsonl", "metrics.json", "exhibits.json", "outcomes.json")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run on its way, and one that came to its end with something to show."""
    folder = tmp_path_factory.mktemp("runs")
    text = tiny_runs.write_text(folder)
    half = tiny_runs.stopped(folder / "half", text, epochs=2)
    with pytest.MonkeyPatch.context() as patch:
        shown = [Table(title="Words", columns=["word", "count"], rows=[["cat", "12"]])]
        patch.setattr(Language, "exhibits", lambda self, model: shown)
        patch.setattr(Language, "outcomes", lambda self, model, split: [True, False, True])
        session.complete(tiny_runs.begin(folder / "finished", text))
    return {"half": half, "finished": folder / "finished"}


def everything(run: Path) -> dict[str, Any]:
    """All that a run's folder says, file by file."""
    opened = RunFolder.open(run)
    record = {**vars(read_run(run)), "path": None}
    saved = {place.name: content_of(place) for place in run.iterdir() if (place / "state.json").exists()}
    return {"facts": opened.facts, "fields": opened.fields, "metrics": opened.metrics(), "record": record, **saved}


class Flip(NamedTuple):
    """One byte of one file that is another. digits: of the digits of a text, which stays one that can be parsed."""

    run: str
    file: int
    place: int
    bits: int
    digits: bool


FLIPS = st.builds(Flip, st.sampled_from(["half", "finished"]), NUMBERS, NUMBERS, st.integers(1, 255), st.booleans())


def flipped(tree: Tree, flip: Flip) -> tuple[str, bytes]:
    """The name of the file, and its content with the other byte."""
    texts = sorted(name for name in tree if not name.endswith(".safetensors"))
    names = texts if flip.digits else sorted(tree)
    name = names[flip.file % len(names)]
    content = bytearray(tree[name])
    places = [place for place, byte in enumerate(content) if byte in b"0123456789"] if flip.digits else []
    if places:
        place = places[flip.place % len(places)]
        content[place] = ord("0") + (content[place] - ord("0") + 1 + flip.bits % 9) % 10
    else:
        content[flip.place % len(content)] ^= flip.bits
    return name, bytes(content)


def test_every_flipped_byte_is_detected(fuzz: Fuzz, runs: dict[str, Path], tmp_path: Path) -> None:
    work = {name: copied(run, tmp_path / name) for name, run in runs.items()}
    right = {name: everything(run) for name, run in work.items()}
    trees = {name: read_tree(run) for name, run in work.items()}
    outcomes = []

    def check(flip: Flip) -> None:
        run, tree = work[flip.run], trees[flip.run]
        name, content = flipped(tree, flip)
        (run / name).write_bytes(content)
        found = attempt(lambda: everything(run))
        (run / name).write_bytes(tree[name])
        # A blank of a JSON or TOML file may be another blank; nothing else may pass.
        outcomes.append(isinstance(found, PorismError))
        assert isinstance(found, PorismError) or found == right[flip.run], name

    fuzz(FLIPS, check, share=80, whole=1000)
    assert sum(outcomes) > 0.97 * len(outcomes), f"{sum(outcomes)} of {len(outcomes)} were refused"


class OldDamage(NamedTuple):
    run: str
    file: str
    changes: list[Change]
    edits: list[Edit]


OLD_RUNS = ["run-0.1", *(f"runs-0.1/{task}/run" for task in ("graphs", "images", "speech", "words"))]


def otherwise(content: bytes, name: str, damage: OldDamage) -> bytes | None:
    """A file with other values, or with other bytes."""
    if name.endswith(".json") and damage.edits:
        return json.dumps(edited(json.loads(content), damage.edits)).encode()
    if name.endswith(".jsonl") and damage.edits:
        events = edited([json.loads(line) for line in content.splitlines()], damage.edits)
        return "".join(
            json.dumps(event) + "\n" for event in (events if isinstance(events, list) else [events])
        ).encode()
    return changed({name: content}, damage.changes).get(name)


def test_a_run_of_0_1_is_reported_or_refused(fuzz: Fuzz, tmp_path: Path) -> None:
    trees = {name: {file: (OLD / name / file).read_bytes() for file in READ if (OLD / name / file).exists()}
             for name in OLD_RUNS}  # fmt: skip
    outcomes = []

    def check(damage: OldDamage) -> None:
        tree = dict(trees[damage.run])
        if damage.file in tree:
            content = otherwise(tree.pop(damage.file), damage.file, damage)
            tree |= {} if content is None else {damage.file: content}
        run = write_tree(tmp_path / "run", tree)
        found = attempt(lambda: write_report([run], tmp_path / "report.html"))
        attempt(lambda: RunFolder.open(run).metrics())
        outcomes.append(isinstance(found, PorismError))
        assert not [path for path in tmp_path.iterdir() if path.name not in ("run", "report.html")]

    cases = st.builds(OldDamage, st.sampled_from(OLD_RUNS), st.sampled_from(READ), CHANGES, st.just([]) | EDITS)
    fuzz(cases, check, share=60, whole=1200)
    check_both(outcomes)
