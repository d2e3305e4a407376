"""Jobs: queues, limits, cancelling, and workers that die."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient
from tests.web.conftest import HOME, Ended

from porism.web import jobs
from porism.web.app import create_app
from porism.web.settings import ServerSettings
from porism.web.workers import Worker


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server whose count worker does what a job's arguments say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "package", "tests.web.workers")
        patch.setattr(jobs, "GRACE", 0.2)
        settings = ServerSettings(runs=tmp_path_factory.mktemp("runs"), allowed=("torch.nn:LSTM",))
        with TestClient(create_app(settings), base_url=HOME) as client:
            yield client


@pytest.fixture(autouse=True)
def _nothing_is_left(client: TestClient) -> Iterator[None]:
    yield
    for job in client.get("/api/jobs").json():
        client.delete(f"/api/jobs/{job['job']}")
    until = time.monotonic() + 20
    while any(job["state"] in ("queued", "running") for job in client.get("/api/jobs").json()):
        assert time.monotonic() < until
        time.sleep(0.02)


def submit(client: TestClient, what: str) -> dict[str, Any]:
    answer = client.post("/api/cost", json={"target": "torch.nn:LSTM", "with": what})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def test_a_job_is_done_and_its_result_is_kept(client: TestClient, ended: Ended) -> None:
    job = submit(client, "answer")
    assert (job["kind"], job["title"]) == ("derive", "cost of torch.nn:LSTM")
    found = ended(job["job"])
    assert (found["state"], found["progress"]) == ("done", {"done": 1, "of": 2, "unit": "halves"})
    assert found["result"]["nan"] is None
    assert found["result"]["niceness"] >= 10
    assert client.get(f"/api/jobs/{job['job']}").json()["result"] == found["result"]
    assert "result" not in client.get("/api/jobs").json()[0]


def test_one_process_does_one_job_after_the_other(client: TestClient, ended: Ended) -> None:
    first, second = (ended(submit(client, "answer")["job"])["result"]["process"] for _ in range(2))
    assert first == second != os.getpid()


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("refuse", {"code": "RecipeError", "message": "epochs=0 cannot be. Use 1.", "hint": ""}),
        ("fail", {"code": "internal", "message": "ZeroDivisionError: of a user", "hint": ""}),
    ],
)
def test_a_job_that_fails_says_why(client: TestClient, ended: Ended, what: str, error: dict[str, str]) -> None:
    found = ended(submit(client, what)["job"])
    assert (found["state"], found["error"]) == ("failed", error)


def test_what_a_job_prints_is_no_message(client: TestClient, ended: Ended) -> None:
    assert ended(submit(client, "print")["job"])["state"] == "done"


def test_those_that_wait_know_how_many_are_before_them(client: TestClient, ended: Ended) -> None:
    first, second, third = (submit(client, what) for what in ("patiently", "answer", "answer"))
    assert [client.get(f"/api/jobs/{job['job']}").json()["position"] for job in (first, second, third)] == [0, 1, 2]
    assert client.delete(f"/api/jobs/{second['job']}").json()["state"] == "cancelled"
    assert client.get(f"/api/jobs/{third['job']}").json()["position"] == 1
    client.delete(f"/api/jobs/{first['job']}")
    assert ended(first["job"])["state"] == "cancelled"
    assert ended(third["job"])["state"] == "done"


def test_a_job_that_listens_keeps_its_process_when_it_is_cancelled(client: TestClient, ended: Ended) -> None:
    before = ended(submit(client, "answer")["job"])["result"]["process"]
    job = submit(client, "patiently")
    client.delete(f"/api/jobs/{job['job']}")
    assert ended(job["job"])["state"] == "cancelled"
    assert ended(submit(client, "answer")["job"])["result"]["process"] == before


def test_a_job_that_does_not_listen_is_ended_with_its_process(client: TestClient, ended: Ended) -> None:
    before = ended(submit(client, "answer")["job"])["result"]["process"]
    job = submit(client, "deaf")
    client.delete(f"/api/jobs/{job['job']}")
    found = ended(job["job"])
    assert found["state"] == "cancelled"
    assert "error" not in found
    assert ended(submit(client, "answer")["job"])["result"]["process"] != before


def test_a_job_that_takes_too_long_is_stopped(
    client: TestClient, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(jobs.LIMITS, "derive", 0.3)
    for what in ("patiently", "deaf"):
        found = ended(submit(client, what)["job"])
        assert (found["state"], found["error"]["code"]) == ("timed_out", "timed_out")
        assert found["error"]["message"] == "stopped after 0.3 seconds."


def test_a_worker_that_dies_is_replaced_and_its_job_says_so(client: TestClient, ended: Ended) -> None:
    job = submit(client, "die")
    waiting = submit(client, "answer")
    found = ended(job["job"])
    assert (found["state"], found["error"]["code"]) == ("failed", "worker_died")
    assert "exit code -9 (SIGKILL)" in found["error"]["message"]
    assert ended(waiting["job"])["state"] == "done"


def test_a_worker_that_is_killed_while_it_has_nothing_to_do_is_replaced(client: TestClient, ended: Ended) -> None:
    os.kill(ended(submit(client, "answer")["job"])["result"]["process"], signal.SIGKILL)
    time.sleep(0.1)
    assert ended(submit(client, "answer")["job"])["state"] == "done"


def test_a_client_has_four_long_jobs_at_a_time(client: TestClient) -> None:
    for _ in range(jobs.EACH_CLIENT):
        submit(client, "patiently")
    answer = client.post("/api/claims/check", json={"ids": ["000-24"]})
    assert (answer.status_code, answer.json()["code"]) == (429, "busy")
    assert int(answer.headers["retry-after"]) > 0


def test_a_queue_has_an_end(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "QUEUE", 1)
    submit(client, "patiently")
    submit(client, "answer")
    answer = client.post("/api/cost", json={"target": "torch.nn:LSTM", "with": "answer"})
    assert (answer.status_code, answer.json()["message"]) == (429, "1 jobs wait already.")


def test_results_are_forgotten(client: TestClient, ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (submit(client, "answer")["job"] for _ in range(2))
    ended(second)
    monkeypatch.setattr(jobs, "MOST_KEPT", 1)
    assert client.get(f"/api/jobs/{first}").status_code == 404
    assert client.get(f"/api/jobs/{second}").status_code == 200
    monkeypatch.setattr(jobs, "KEPT_SECONDS", -1)
    answer = client.get(f"/api/jobs/{second}")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_job")


@pytest.mark.parametrize("name", ["none", "..%2F..", "a" * 41, "a b"])
def test_a_job_that_is_not_there(client: TestClient, name: str) -> None:
    assert client.get(f"/api/jobs/{name}").status_code in (404, 422)
    assert client.delete(f"/api/jobs/{name}").status_code in (404, 422)


def test_workers_end_with_their_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "package", "tests.web.workers")
    settings = ServerSettings(runs=tmp_path, allowed=("torch.nn:LSTM",))
    with TestClient(create_app(settings), base_url=HOME) as client:
        job = submit(client, "answer")["job"]
        while (found := client.get(f"/api/jobs/{job}").json())["state"] != "done":
            time.sleep(0.02)
        submit(client, "deaf")
    with pytest.raises(ProcessLookupError):
        os.kill(found["result"]["process"], 0)
