"""Several trainings at a time: the same bits as one after the other, and what ends one of them or all."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Data, best_bits
from torch import Tensor, nn

import porism
from porism.api.workers import thread_share
from porism.errors import Interrupted, PorismError, RunError
from porism.report.fairness import side_by_side
from porism.runs.record import read_run
from porism.training.interrupt import ask_to_stop

FIXED: dict[str, Any] = {"loss": "cross_entropy", "threads": 1, "device": "cpu", "learning_rate": 0.02}
DIES = "PORISM_TEST_DIES"
MEASURED = "PORISM_TEST_MEASURED"


def small(info: Any) -> nn.Module:
    return nn.Linear(info.num_features, info.num_classes)


def large(info: Any) -> nn.Module:
    return nn.Sequential(nn.Linear(info.num_features, 16), nn.ReLU(), nn.Linear(16, info.num_classes))


def dies(info: Any) -> nn.Module:
    if os.environ.get(DIES):
        os._exit(7)
    return large(info)


class Leaves(nn.Linear):
    def __init__(self) -> None:
        super().__init__(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        sys.exit(0)


def counts_baselines(info: Any) -> nn.Module:
    """Lets every measurement of the baselines in this process leave its number in a file, and take a while."""
    from porism.tasks.supervised.task import Supervised

    measure = Supervised.baselines

    def counted(self: Supervised) -> dict[str, dict[str, dict[str, float]]]:
        with Path(os.environ[MEASURED]).open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.5)
        return measure(self)

    if measure.__name__ != counted.__name__:
        Supervised.baselines = counted  # type: ignore[method-assign]
    return small(info)


def events(run: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (run / "events.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def alone(points: Data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One after the other, in this process."""
    out = tmp_path_factory.mktemp("alone") / "c"
    return porism.compare({"one": small, "other": dies}, data=points, out=out, epochs=3, **FIXED).path


@pytest.mark.sweep(0)
def test_a_process_that_dies_is_named_and_the_others_finish_with_the_same_bits(
    points: Data, tmp_path: Path, alone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DIES, "1")
    models, heard = {"other": dies, "one": small}, list[Any]()
    given: dict[str, Any] = {"data": points, "out": tmp_path / "c", "epochs": 3, **FIXED}
    with pytest.raises(RunError) as raised:
        porism.compare(models, workers=2, progress=True, callbacks=[heard.append], **given)
    assert str(raised.value).startswith("other: its process ended with exit code 7.")
    assert str(raised.value).endswith("1 of 2 trainings are done, and kept.")
    told = capsys.readouterr().err
    assert "2 trainings, 2 at a time, each with 1 thread" in told
    assert "one: epoch   3  train" in told
    assert "other: its process ended with exit code 7." in told
    assert [event["epoch"] for event in heard] == [1, 2, 3]
    assert best_bits(tmp_path / "c/one") == best_bits(alone / "one")
    monkeypatch.delenv(DIES)
    found = porism.compare(models, resume=True, **given)
    assert best_bits(tmp_path / "c/other") == best_bits(alone / "other")
    # Only what ran beside others is marked.
    assert json.loads((tmp_path / "c/one/metrics.json").read_text())["trainings_at_a_time"] == 2
    assert "trainings_at_a_time" not in (tmp_path / "c/other/metrics.json").read_text()
    assert "The times of 1 of 2 runs were measured with 2 trainings at a time" in str(found)


def test_a_model_that_calls_sys_exit_is_told_and_its_process_goes_on(points: Data, tmp_path: Path) -> None:
    models: dict[str, Any] = {"leaves": Leaves, "one": small, "again": small}
    with pytest.raises(PorismError) as raised:
        porism.compare(models, data=points, out=tmp_path / "c", epochs=1, workers=2, progress=False, **FIXED)
    assert str(raised.value) == (
        "leaves: it runs code of yours: it calls sys.exit(0), which would end porism without a word. Leave that out. "
        "2 of 3 trainings are done, and kept."
    )


@pytest.mark.sweep(0)
def test_a_request_to_stop_stops_all_with_a_checkpoint(points: Data, tmp_path: Path) -> None:
    models = {"one": small, "other": dies}
    given: dict[str, Any] = {"data": points, "out": tmp_path / "c", "batch_size": 1, **FIXED}
    with pytest.raises(Interrupted) as raised:
        porism.compare(models, workers=2, epochs=1000, patience=1000, callbacks=[lambda _: ask_to_stop()], **given)
    assert str(raised.value).startswith("stopped, and saved. Go on with: the same call with out=")
    # The one that had ended an epoch was training; the other may have been about to, in an empty folder.
    runs = [path for path in (tmp_path / "c").iterdir() if (path / "events.jsonl").is_file()]
    stopped = [run for run in runs if events(run)[-1] == "interrupt"]
    assert stopped, [(run.name, events(run)[-4:]) for run in runs]
    assert all(read_run(run).metrics is None for run in runs)
    assert side_by_side([read_run(run) for run in stopped])[0].startswith("All times were measured with 2 trainings")


@pytest.mark.sweep(0)
def test_baselines_are_measured_by_one_of_the_processes(
    points: Data, tmp_path: Path, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MEASURED, str(tmp_path / "measured"))
    models = dict.fromkeys(["one", "other"], counts_baselines)
    porism.compare(models, data=points, workers=2, out=tmp_path / "c", epochs=3, **FIXED)
    assert len((tmp_path / "measured").read_text().splitlines()) == 1
    expected = json.loads((alone / "one/metrics.json").read_text())["baselines"]
    assert expected
    for name in models:
        assert json.loads((tmp_path / "c" / name / "metrics.json").read_text())["baselines"] == expected


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "time": ("5 seconds are not the same for all where 2 trainings share the machine", {"budget": {"seconds": 5}}),
    "lambda": ("mine cannot be trained in a process of its own", {"models": {"mine": lambda info: small(info)}}),
    "none": ("workers takes a whole number from 1 to 1024, got 0", {"workers": 0}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_run_beside_others_is_refused_before_anything_is_made(
    wrong: str, points: Data, tmp_path: Path
) -> None:
    words, given = WRONG[wrong]
    asked: dict[str, Any] = {"task": "supervised", "models": {"one": small}, "workers": 2, "data": points, **given}
    with pytest.raises(PorismError) as raised:
        porism.compare(**asked, out=tmp_path / "c", **FIXED)
    assert words in str(raised.value)
    assert not (tmp_path / "c").exists()


def test_a_model_of_the_script_itself_is_refused(points: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import __main__

    here = type("Here", (nn.Linear,), {"__module__": "__main__", "__qualname__": "Here"})
    monkeypatch.setattr(__main__, "Here", here, raising=False)
    with pytest.raises(PorismError, match="it is defined in the script or notebook itself"):
        porism.compare({"mine": here(4, 3)}, data=points, workers=2, out=tmp_path / "c", **FIXED)


def test_threads_are_shared_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    assert [thread_share(workers) for workers in (1, 2, 3, 16)] == [8, 4, 2, 1]
