"""Runs of every other task that 0.1 wrote: they are evaluated, predict and are reported as they were."""

import json
from pathlib import Path

import pytest
from tests.runs.tiny_runs import copied

from porism.cli import main

RUNS = Path(__file__).parent / "runs-0.1"
NEEDED = {"images": "PIL", "speech": "soundfile", "words": "numba"}
INPUTS = {"images": ["one.png"], "graphs": ["0", "33"], "words": ["cat"], "speech": ["test0.flac"]}


@pytest.fixture(params=sorted(INPUTS))
def task(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each was trained in a folder beside its data, to which it refers by name."""
    if needed := NEEDED.get(request.param):
        pytest.importorskip(needed)
    monkeypatch.chdir(copied(RUNS / request.param, tmp_path / "there"))
    name: str = request.param
    return name


def answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, object] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_it_is_evaluated_as_it_was(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads(Path("run/metrics.json").read_text())
    found = answer(["evaluate", "run"], capsys)
    assert found["task"] == task
    metrics = found["metrics"]
    assert isinstance(metrics, dict)
    assert set(metrics) <= set(before["metrics"])
    for split, values in metrics.items():
        recorded = before["metrics"][split]
        # Metrics are added, and none is lost.
        assert {name: values[name] for name in recorded} == pytest.approx(recorded, rel=1e-5)


def test_it_predicts(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["predict", "run", *INPUTS[task]], capsys)


def test_it_is_reported(task: str, tmp_path: Path) -> None:
    assert main(["report", "run", "--out", str(tmp_path / "report.html")]) == 0
    assert task in (tmp_path / "report.html").read_text()


def test_a_run_of_graphs_goes_on_as_in_0_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights and the optimizer's state lie otherwise since. The losses are those that 0.1 itself came to."""
    monkeypatch.chdir(copied(RUNS / "graphs", tmp_path / "there"))
    Path("run/metrics.json").unlink()
    assert main(["train", "--resume", "run", "--set", "epochs=80"]) == 0
    events = [json.loads(line) for line in Path("run/events.jsonl").read_text().splitlines()]
    losses = [event["train"]["loss"] for event in events if event["event"] == "epoch"]
    assert losses[-3:] == pytest.approx([0.17695607393980026, 0.23014758080244063, 0.16243713162839413], rel=1e-4)
