"""Whatever happens to the files of a run: an error in one line, or the result that the run made."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs import tiny_runs
from tests.runs.tiny_runs import DAMAGES, Listener, begin, copied, resume, stopped

from porism.errors import PorismError, RunError
from porism.runs import checkpoint
from porism.runs.exhibits import Table
from porism.runs.record import read_run
from porism.runs.run import RunFolder
from porism.tasks.language.task import Language
from porism.training import session
from porism.training.loop import evaluate

FILES = [
    *("recipe.toml", "events.jsonl", "metrics.json", "exhibits.json", "outcomes.json"),
    *(f"best/{name}" for name in ("state.json", "model.safetensors", "assets.json")),
    *(f"last/{name}.safetensors" for name in ("model", "optimizer", "carry", "random")),
    "last/state.json",
]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_runs.write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def half(text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run after two of its three epochs."""
    return stopped(tmp_path_factory.mktemp("half") / "run", text, epochs=2)


@pytest.fixture(scope="module")
def finished(text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that came to its end, with something to show."""
    shown = [Table(title="Words", columns=["word", "count"], rows=[["cat", "12"]])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Language, "exhibits", lambda self, model: shown)
        patch.setattr(Language, "outcomes", lambda self, model, split: [True, False, True])
        out = tmp_path_factory.mktemp("finished") / "run"
        session.complete(begin(out, text))
    assert set(FILES) <= set(tiny_runs.files(out))
    return out


def outcome(work: Callable[[], Any]) -> Any:
    """What came of something, or the user's error, which is one line."""
    try:
        return work()
    except PorismError as error:
        found = error
    assert len(str(found).splitlines()) == 1
    return found


def completed(run: Path, listener: Listener | None = None) -> dict[str, Any]:
    """The results of a run that is taken up again, without clocks and folders."""
    result = session.complete(resume(run, listener))
    return {key: value for key, value in result.items() if key not in ("seconds", "tokens_per_second", "run")}


def reported(run: Path) -> dict[str, Any]:
    """What a report is made of."""
    return {**vars(read_run(run)), "path": None}


def opened(run: Path) -> tuple[Any, ...]:
    found = RunFolder.open(run)
    return found.facts, found.fields, found.metrics()


def evaluated(run: Path) -> tuple[dict[str, float], int]:
    found = RunFolder.open(run)
    task, saved = session.load_task(Language, found), session.best_checkpoint(found, Listener())
    model = session.trained_model(task, saved, torch.device("cpu"))
    return evaluate(task, model, "test"), saved.state["epoch"]


def good_checkpoints(run: Path) -> set[str]:
    found = set()
    for name in ("last", "best"):
        try:
            checkpoint.load(run / name)
        except RunError:
            continue
        found.add(name)
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_goes_on_to_the_same_result_or_is_refused(
    half: Path, tmp_path: Path, damage: str, is_whole: bool, pytestconfig: pytest.Config
) -> None:
    straight = completed(copied(half, tmp_path / "straight"))
    curve = read_run(tmp_path / "straight").epochs
    names = tiny_runs.files(half)
    assert {name.split("/")[0] for name in names} >= {"best", "best.previous", "last", "last.previous", "recipe.toml"}
    for name in names if is_whole else names[pytestconfig.option.seed % 2 :: 2]:
        run = copied(half, tmp_path / "run")
        DAMAGES[damage](run / name)
        before, listener = good_checkpoints(run), Listener()
        result = outcome(lambda: completed(run, listener))  # noqa: B023
        assert good_checkpoints(run) >= before, name
        if name == "recipe.toml" or (name == "events.jsonl" and damage != "remove"):
            assert isinstance(result, RunError), name
            assert name in str(result)
            continue
        assert result == straight, name
        assert {epoch.epoch: epoch.valid for epoch in read_run(run).epochs}.items() <= {
            epoch.epoch: epoch.valid for epoch in curve
        }.items()
        # A damage that loses anything is reported.
        assert bool(listener.notes) == (name.split("/")[0] in ("best", "last")), name


@pytest.mark.sample(1)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_never_reported_as_another(finished: Path, tmp_path: Path, damage: str) -> None:
    whole, facts, model = reported(finished), opened(finished), evaluated(finished)
    results = completed(copied(finished, tmp_path / "whole"))
    for name in tiny_runs.files(finished):
        run = copied(finished, tmp_path / "run")
        DAMAGES[damage](run / name)
        before = good_checkpoints(run)
        if damage != "remove" or name not in ("metrics.json", "events.jsonl"):
            for read, right in ((reported, whole), (opened, facts)):
                found = outcome(lambda: read(run))  # noqa: B023
                assert isinstance(found, PorismError) or found == right, name
        measured = outcome(lambda: evaluated(run))  # noqa: B023
        assert isinstance(measured, PorismError) or measured == model or measured[1] == 1, name
        result = outcome(lambda: completed(run))  # noqa: B023
        assert isinstance(result, PorismError) or result == results, name
        assert good_checkpoints(run) >= before, name


def mutated(content: bytes, draw: random.Random) -> bytes:
    """The content with some bits flipped, a piece cut out, the end cut off, or something put in."""
    if not content:
        return b"x"
    place = draw.randrange(len(content))
    match draw.choice(["flip", "flip", "cut", "end", "put in", "twice"]):
        case "flip":
            changed = bytearray(content)
            for _ in range(draw.choice([1, 1, 2, 5])):
                changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
            return bytes(changed)
        case "cut":
            return content[:place] + content[place + draw.randint(1, 20) :]
        case "end":
            return content[:place]
        case "put in":
            return content[:place] + draw.choice([b"0", b"9", b"\n", b"{", draw.randbytes(8)]) + content[place:]
        case _:
            piece = content[place : place + draw.randint(1, 200)]
            return content[:place] + piece + content[place:]


def mutations(run: Path, names: list[str], count: int, seed: int) -> Iterator[str]:
    """Change one file after the other and back again."""
    draw = random.Random(seed)
    for number in range(count):
        path = run / names[number % len(names)]
        content = path.read_bytes()
        changed = mutated(content, draw)
        if changed == content:
            continue
        path.write_bytes(changed)
        yield f"{path.relative_to(run)}, mutation {number}"
        path.write_bytes(content)


def test_mutations_of_a_finished_run_are_refused_or_change_nothing(
    finished: Path, tmp_path: Path, is_whole: bool
) -> None:
    count = 200 if is_whole else 4 * len(FILES)
    run = copied(finished, tmp_path / "run")
    readers: list[Callable[[Path], Any]] = [opened, reported, completed]
    expected = [read(run) for read in readers]
    everything = {name: (run / name).read_bytes() for name in tiny_runs.files(run)}
    refused = 0
    for what in mutations(run, FILES, count, seed=3):
        for read, right in zip(readers, expected, strict=True):
            found = outcome(lambda: read(run))  # noqa: B023
            assert isinstance(found, PorismError) or found == right, what
            refused += isinstance(found, PorismError)
        # Nobody has written over it.
        assert tiny_runs.files(run) == sorted(everything), what
    assert {name: (run / name).read_bytes() for name in tiny_runs.files(run)} == everything
    assert refused > count


def test_mutations_of_a_run_on_its_way_are_refused_or_it_ends_as_it_would(
    half: Path, tmp_path: Path, is_whole: bool
) -> None:
    names = [name for name in FILES if (half / name).exists()]
    right = completed(copied(half, tmp_path / "straight"))
    run = copied(half, tmp_path / "run")
    record = reported(run)
    for what in mutations(run, names, 40 if is_whole else len(names), seed=4):
        found = outcome(lambda: reported(run))
        assert isinstance(found, PorismError) or found == record, what
        result = outcome(lambda: completed(copied(run, tmp_path / "resumed")))
        assert isinstance(result, PorismError) or result == right, what
