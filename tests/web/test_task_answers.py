"""What the page answers for a run of each task is what `porism predict` prints."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient
from tests import needs
from tests.web.conftest import HOME
from tests.web.task_runs import RUNS, train_run, trained_run, write_recording
from tests.web.test_predictions import Heard, upload_of

from porism.cli import main
from porism.web.app import create_app
from porism.web.checkpoints import PREVIOUS
from porism.web.predictions import check_prediction
from porism.web.processes.predict import predict
from porism.web.settings import ServerSettings

image = needs.lazy("PIL.Image")

TEXTS = {
    "language": "the cat",
    "sentiment": "it is not bad",
    "supervised": "0.5,-0.1",
    "graphs": "33",
    "words": "cat",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "language": {"max_new_tokens": 9, "temperature": 1.0, "num_return_sequences": 2},
    "words": {"topn": 3},
    "complete": {"rows": 4},
    "speech": {"search": "beam", "beam_size": 3},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, folder: Path) -> str:
    name: str = request.param
    trained_run(folder, name)
    return name


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(create_app(ServerSettings(runs=folder / "runs")), base_url=HOME) as client:
        yield client


def file_for(run: str, folder: Path) -> tuple[Path, str]:
    """A file that a run takes, and its media type."""
    if run == "speech":
        return write_recording(folder / "rising.wav"), "audio/wav"
    picture = image.new("L", (8, 8))
    for row in range(8):
        picture.putpixel((4, row), 255)
    picture.save(folder / "bar.png")
    return folder / "bar.png", "image/png"


def payload_of(client: TestClient, run: str, tmp_path: Path, checkpoint: str | None = None) -> dict[str, Any]:
    """The job that the server gives to its worker, with the run's own input."""
    context = client.app.state.context  # type: ignore[attr-defined]
    upload = None
    if run not in TEXTS:
        file, kind = file_for(run, tmp_path)
        upload = upload_of(client, file.read_bytes(), kind)
    options = OPTIONS.get(run, {})
    return check_prediction(
        context.runs, context.uploads, context.settings,
        run=run, text=TEXTS.get(run), upload=upload, options=options, seed=3, checkpoint=checkpoint,
    )  # fmt: skip


@pytest.mark.sweep(1)
def test_the_page_answers_as_the_command_line(
    client: TestClient, run: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = predict(payload_of(client, run, tmp_path), Heard().step)

    given = TEXTS.get(run) or str(file_for(run, tmp_path)[0])
    flags = [
        part for name, value in OPTIONS.get(run, {}).items() for part in (f"--{name.replace('_', '-')}", f"{value}")
    ]
    flags += ["--seed", "3"] if run in ("language", "complete") else []
    flags += ["--picture", str(tmp_path / "whole.png")] if run == "complete" else []
    capsys.readouterr()
    assert main(["predict", str(folder / "runs" / run), given, *flags, "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["predictions"]

    details = told[0]["details"]
    if run == "language":
        assert found["samples"] == [one["details"]["text"] for one in told]
    elif run in ("sentiment", "graphs", "digits", "supervised"):
        assert {one["label"]: one["probability"] for one in found["classes"]} == details["probabilities"]
    elif run == "words":
        near = [(one["word"], one["similarity"]) for one in found["neighbours"]]
        assert near == [(one["word"], one["cosine"]) for one in details["neighbours"]]
    elif run == "complete":
        picture = base64.b64decode(found["picture"].partition(",")[2])
        assert picture == (tmp_path / "whole.png").read_bytes()
    else:
        assert found["text"] == told[0]["output"]


def test_the_checkpoint_before_the_best_answers_where_it_is_named(
    client: TestClient, folder: Path, tmp_path: Path
) -> None:
    run = "sentiment"
    trained_run(folder, run)
    best, named, previous = (
        predict(payload_of(client, run, tmp_path, checkpoint), Heard().step) for checkpoint in (None, "best", PREVIOUS)
    )
    assert named == best
    assert best["note"].endswith("best checkpoint of epoch 2")
    assert previous["note"].endswith("checkpoint before the best, of epoch 1")
    assert previous["classes"] != best["classes"]
    # The command line has no word for it.
    assert previous["command"] is None


def test_a_checkpoint_that_is_not_there_or_damaged_is_refused_by_name(
    tmp_path: Path,
) -> None:
    run = train_run(tmp_path, "sentiment")
    with (run / "best" / "model.safetensors").open("ab") as file:
        file.write(b"x")
    asked = {"run": "sentiment", "input": "good"}
    with TestClient(create_app(ServerSettings(runs=run.parent)), base_url=HOME) as client:
        for name in ("last", "../../etc", ""):
            answer = client.post("/api/predict", json={**asked, "checkpoint": name})
            assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (
                404,
                "no_checkpoint",
                "checkpoint",
            )
            assert answer.json()["hint"] == "Choose from best, best.previous."
        damaged = client.post("/api/predict", json={**asked, "checkpoint": "best"})
        assert (damaged.status_code, damaged.json()["code"]) == (409, "damaged")
        assert damaged.json()["message"] == "best/model.safetensors of sentiment is damaged."
        assert damaged.json()["hint"] == "Whole is best.previous, of epoch 1."
        assert client.get("/api/jobs").json() == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["audio/webm", "audio/mp4", "audio/wav"])
def test_a_recording_of_another_kind_is_refused_in_one_line(
    folder: Path, kind: str, ended_of: Callable[[TestClient, str], dict[str, Any]]
) -> None:
    trained_run(folder, "speech")
    content = b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\x82\x84webm" + bytes(300)
    with TestClient(create_app(ServerSettings(runs=folder / "runs")), base_url=HOME) as client:
        upload = upload_of(client, content, kind)
        context = client.app.state.context  # type: ignore[attr-defined]
        job = client.post("/api/predict", json={"run": "speech", "upload": upload}).json()["job"]
        error = ended_of(client, job)["error"]
        assert error["message"] == "the file: not a recording that can be read. Give a WAV, FLAC, OGG or MP3."
        assert list(context.uploads.folder.iterdir()) == []
