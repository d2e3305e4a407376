"""What a request may ask of a run's model, and what the predict worker answers."""

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi")

from starlette.testclient import TestClient
from tests.web.conftest import HOME, OLD

from porism.errors import DataError, PorismError
from porism.web.app import create_app
from porism.web.context import ServerContext
from porism.web.predictions import check_prediction
from porism.web.processes.models import MOST_KEPT, _kept, loaded
from porism.web.processes.predict import predict
from porism.web.processes.process import Cancelled, JobStep
from porism.web.settings import ServerSettings


class Heard:
    """A job's step that keeps what was said, and may be cancelled after some words."""

    def __init__(self, cancel_after: int | None = None) -> None:
        self.messages: list[tuple[Any, ...]] = []
        self.cancelled: set[str] = set()
        self.cancel_after = cancel_after
        self.step = JobStep("J", self.hear, self.cancelled)

    def hear(self, *message: Any) -> None:
        self.messages.append(message)
        if self.cancel_after is not None and len(self.parts) >= self.cancel_after:
            self.cancelled.add("J")

    @property
    def parts(self) -> list[dict[str, Any]]:
        return [message[2] for message in self.messages if message[0] == "part"]


def asked(context: ServerContext, run: str, text: str | None = None, **more: Any) -> dict[str, Any]:
    """A job as the server gives it to the worker."""
    given: dict[str, Any] = {"upload": None, "options": {}, "seed": 0} | more
    return check_prediction(context.runs, context.uploads, context.settings, run=run, text=text, **given)


def test_a_text_goes_on_word_by_word(context: ServerContext) -> None:
    heard = Heard()
    options = {"max_new_tokens": 12, "temperature": 1.0, "num_return_sequences": 2}
    found = predict(asked(context, "tiny/elman", "the cat", options=options), heard.step)
    assert len(found["samples"]) == 2
    assert found["text"] == found["samples"][0]
    streamed = ["the cat" + "".join(part["text"] for part in heard.parts if part["sample"] == n) for n in (0, 1)]
    # The last word is told by the result: it is not fed back.
    assert all(text.startswith(part) for text, part in zip(found["samples"], streamed, strict=True))
    assert max(len(part.split()) for part in streamed) > 3
    assert "seed 0, best checkpoint of epoch 2" in found["note"]
    assert found["command"].startswith("porism predict ")
    again = predict(asked(context, "tiny/elman", "the cat", options=options), Heard().step)
    assert again["samples"] == found["samples"]
    other = predict(asked(context, "tiny/elman", "the cat", options=options, seed=3), Heard().step)
    assert other["samples"] != found["samples"]


def test_a_text_stops_where_it_is_cancelled(context: ServerContext) -> None:
    heard = Heard(cancel_after=3)
    with pytest.raises(Cancelled):
        predict(asked(context, "tiny/elman", "", options={"max_new_tokens": 5000, "temperature": 5.0}), heard.step)
    assert len(heard.parts) == 3


def test_a_word_has_neighbours(context: ServerContext) -> None:
    pytest.importorskip("numba")
    found = predict(asked(context, "old/words", "cat", options={"topn": 3}), Heard().step)
    assert len(found["neighbours"]) == 3
    assert set(found["neighbours"][0]) == {"word", "similarity"}


def test_a_node_has_classes(context: ServerContext) -> None:
    found = predict(asked(context, "old/graphs", "33"), Heard().step)
    assert sum(one["probability"] for one in found["classes"]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("text", ["/etc/passwd", "karate", "../../graph.npz", "-1", "99999999"])
def test_a_node_is_never_a_file(context: ServerContext, text: str) -> None:
    with pytest.raises(DataError, match="no node"):
        predict(asked(context, "old/graphs", text), Heard().step)


def test_a_picture_has_classes(client: TestClient, context: ServerContext) -> None:
    pytest.importorskip("PIL")
    upload = upload_of(client, (OLD / "images/one.png").read_bytes(), "image/png")
    found = predict(asked(context, "old/images", upload=upload), Heard().step)
    assert found["classes"][0]["probability"] >= found["classes"][-1]["probability"]


def test_what_does_not_decode_is_refused_in_words(client: TestClient, context: ServerContext) -> None:
    pytest.importorskip("PIL")
    upload = upload_of(client, b"PK\x03\x04 a renamed archive", "image/png")
    with pytest.raises(PorismError) as refused:
        predict(asked(context, "old/images", upload=upload), Heard().step)
    assert "\n" not in str(refused.value)


def upload_of(client: TestClient, content: bytes, kind: str) -> str:
    return str(client.post("/api/uploads", content=content, headers={"content-type": kind}).json()["upload"])


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"run": "../x", "input": "a"}, 404, "run"),
        ({"run": "tiny/elman"}, 422, "input"),
        ({"run": "tiny/elman", "input": "a", "upload": "x"}, 422, "input"),
        ({"run": "old/images", "input": "/etc/passwd"}, 422, "upload"),
        ({"run": "old/images", "upload": "../../etc/passwd"}, 404, "upload"),
        ({"run": "tiny/elman", "input": "a", "options": {"export": "/tmp/x"}}, 422, "options"),
        ({"run": "old/words", "input": "a", "options": {"export": "/tmp/x"}}, 422, "options"),
        ({"run": "tiny/elman", "input": "a", "options": {"temperature": -1}}, 422, "options"),
        ({"run": "tiny/elman", "input": "a", "options": {"temperature": "hot"}}, 422, "options"),
        ({"run": "tiny/elman", "input": "a", "options": {"max_new_tokens": 1.5}}, 422, "options"),
        ({"run": "tiny/elman", "input": "a", "options": {"max_new_tokens": 5001}}, 422, "options"),
        ({"run": "tiny/elman", "input": "a", "seed": -1}, 422, "seed"),
        ({"run": "tiny/elman", "input": "a", "path": "/etc"}, 422, "path"),
    ],
)
def test_what_may_not_be_asked_makes_no_job(
    client: TestClient, context: ServerContext, body: dict[str, Any], status: int, field: str
) -> None:
    answer = client.post("/api/predict", json=body)
    assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text
    assert context.jobs.listed() == []


def test_a_sound_is_no_picture(client: TestClient) -> None:
    upload = upload_of(client, b"RIFF" + struct.pack("<I", 0), "audio/wav")
    answer = client.post("/api/predict", json={"run": "old/images", "upload": upload})
    assert (answer.status_code, answer.json()["code"]) == (415, "media_type")


def test_the_model_of_a_run_is_imported_only_if_that_is_allowed(trained: Path, tmp_path: Path) -> None:
    """A run folder may come from somebody else, and so may the name of a module in it."""
    shutil.copytree(trained / "tiny" / "elman", tmp_path / "run")
    for name in ("events.jsonl", "metrics.json"):
        (tmp_path / "run" / name).unlink()
    for name in ("best", "last", "best.previous", "last.previous"):
        shutil.rmtree(tmp_path / "run" / name, ignore_errors=True)
    recipe = tmp_path / "run" / "recipe.toml"
    recipe.write_text('model = "os:system"\n' + recipe.read_text())
    body = {"run": "run", "input": "a"}
    answers = [
        TestClient(create_app(ServerSettings(runs=tmp_path, allowed=allowed)), base_url=HOME).post(
            "/api/predict", json=body
        )
        for allowed in ((), ("torch.nn:LSTM",))
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
        assert answer.json()["hint"] == "Start the server with: porism serve --allow os:system"


def test_two_models_are_kept_and_a_better_one_is_read_again(trained: Path, tmp_path: Path) -> None:
    _kept.clear()
    shutil.copytree(trained / "tiny" / "elman", tmp_path / "run")
    first = loaded(str(tmp_path / "run"))
    assert loaded(str(tmp_path / "run")) is first
    state = tmp_path / "run/best/state.json"
    state.touch()
    again = loaded(str(tmp_path / "run"))
    assert again is not first
    assert all(
        torch.equal(one, other) for one, other in zip(again.model.parameters(), first.model.parameters(), strict=True)
    )
    for name in ("tiny/attention", "tiny/elman"):
        loaded(str(trained / name))
    assert len(_kept) == MOST_KEPT
