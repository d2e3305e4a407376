"""A run that 0.1 wrote, without checksums of its recipe, events and results and without a lock, is still good."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from tests.runs.tiny_runs import Listener, copied, flip, resume

from porism.cli import main
from porism.errors import RunError
from porism.report.page import write_report
from porism.runs import checkpoint
from porism.runs.record import read_run
from porism.runs.run import RunFolder
from porism.tasks.language.task import Language
from porism.training import session
from porism.training.loop import evaluate

OLD = Path(__file__).parent / "run-0.1"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """It was trained beside its text, to which it refers by name."""
    folder = copied(OLD, tmp_path / "run")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def half(run: Path) -> Path:
    """The same as if it had been killed in its third epoch."""
    (run / "metrics.json").unlink()
    shutil.rmtree(run / "last")
    events = (run / "events.jsonl").read_text().splitlines(keepends=True)
    (run / "events.jsonl").write_text("".join(events[:3]))
    return run


def measured(run: Path) -> dict[str, float]:
    opened = RunFolder.open(run)
    task, saved = session.load_task(Language, opened), session.best_checkpoint(opened, Listener())
    return evaluate(task, session.trained_model(task, saved, torch.device("cpu")), "test")


def of_0_1(metrics: dict[str, float]) -> dict[str, float]:
    """Those that 0.1 had, too."""
    return {name: value for name, value in metrics.items() if name != "bits_per_byte"}


def test_it_loads_evaluates_and_predicts(run: Path) -> None:
    metrics = RunFolder.open(run).metrics()
    assert metrics is not None
    assert of_0_1(measured(run)) == pytest.approx(metrics["metrics"]["test"], rel=1e-5)
    assert main(["predict", str(run), "the cat"]) == 0
    assert not (run / ".lock").exists()


def test_it_is_reported(run: Path, tmp_path: Path) -> None:
    record = read_run(run)
    assert record.metrics is not None
    assert (record.metrics.best_epoch, [epoch.epoch for epoch in record.epochs]) == (2, [1, 2, 3])
    assert write_report([run], tmp_path / "report.html").is_file()


def test_finished_it_stays_as_it_is(run: Path) -> None:
    before = json.loads((run / "metrics.json").read_text())
    command = before["command"].replace("hidden", "hidden_size").replace("embedding", "embedding_dim")
    command = command.replace("batch", "batch_size").replace("steps", "seq_len")
    command = command.replace(" --set precision=fp32", "").replace(" --data", " --set tokenizer=whitespace --data")
    command = command.replace(" --device cpu", " --precision fp32 --threads 1 --device cpu")
    assert session.complete(resume(run)) == {**before, "run": str(run), "command": command}
    assert json.loads((run / "metrics.json").read_text()) == before


def test_it_is_resumed_and_what_is_written_from_there_has_checksums(half: Path) -> None:
    before = json.loads((OLD / "metrics.json").read_text())
    result = session.complete(resume(half))
    assert result["best_epoch"] == before["best_epoch"]
    for split, values in before["metrics"].items():
        assert of_0_1(result["metrics"][split]) == pytest.approx(values, rel=1e-5)
    assert [epoch.epoch for epoch in read_run(half).epochs] == [1, 2, 3]
    for name in ("recipe.toml", "events.jsonl", "metrics.json"):
        altered = copied(half, half.with_name("altered"))
        flip(altered / name, place=200)
        with pytest.raises(RunError, match=name.replace(".", r"\.")):
            read_run(altered)


def test_its_damaged_best_is_told_before_training(half: Path) -> None:
    flip(half / "best/model.safetensors")
    listener = Listener()
    result = session.complete(resume(half, listener))
    assert "The best epoch so far, 2, is lost; epoch 2, the newest, counts as the best." in listener.notes[-1]
    assert result["metrics"]["valid"]["perplexity"] == pytest.approx(7.151786, rel=1e-5)


def test_its_torn_save_is_cleared_away(half: Path) -> None:
    writing = half / ".last.writing"
    writing.mkdir()
    shutil.copy(half / "last.previous/model.safetensors", writing)
    flip(writing / "model.safetensors", place=-1)
    (writing / "optimizer.safetensors").write_bytes(b"")
    session.complete(resume(half))
    assert not writing.exists()
    assert checkpoint.load(half / "last")[1] is None
