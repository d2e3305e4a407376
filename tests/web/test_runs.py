"""Runs over the wire: the list, one run, its report, and comparisons. Nothing outside of the folder is read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient
from tests.report.conftest import epoch, metrics, start
from tests.report.conftest import write_run as write_run
from tests.web.conftest import HOME

from porism.runs.record import read_run
from porism.tasks.graphs.task import Graphs
from porism.tasks.language.task import Language
from porism.tasks.sentiment.task import Sentiment
from porism.tasks.speech.task import Speech
from porism.tasks.supervised.metric import METRICS
from porism.tasks.words.task import Words
from porism.web.app import create_app
from porism.web.catalogue import catalogue
from porism.web.comparison import compare
from porism.web.run_details import run_details
from porism.web.runs import RunTable
from porism.web.safety import REPORT_POLICY
from porism.web.settings import ServerSettings

WriteRun = Callable[..., Path]


def client_of(runs: Path) -> TestClient:
    """Of an app that is not started: for questions that need neither jobs nor events."""
    return TestClient(create_app(ServerSettings(runs=runs)), base_url=HOME)


def test_runs_are_listed_with_what_came_of_them(client: TestClient) -> None:
    rows = {row["id"]: row for row in client.get("/api/runs").json()}
    assert set(rows) == {"tiny/elman", "tiny/attention", "old/graphs", "old/images", "old/words"}
    elman = rows["tiny/elman"]
    assert (elman["task"], elman["recipe"], elman["state"], elman["epoch"]) == ("language", "elman", "finished", 3)
    assert (elman["metric"], elman["split"], elman["lower_is_better"]) == ("perplexity", "test", True)
    assert elman["value"] > 1


def test_one_run_is_told_whole(client: TestClient) -> None:
    found = client.get("/api/run?id=tiny/elman").json()
    assert found["run"]["id"] == found["id"] == "tiny/elman"
    assert found["recipe"]["hidden_size"] == 4
    assert set(found["metrics"]) == {"train", "valid", "test"}
    assert [curve["name"] for curve in found["curves"]] == ["train", "valid"]
    assert all(curve["x"] == [1, 2, 3] for curve in found["curves"])
    assert found["checkpoint"] == {
        "best_epoch": 2,
        "damaged": [],
        "whole": [{"name": "best", "epoch": 2}, {"name": "best.previous", "epoch": 1}],
    }
    assert found["cost"]["link"] == "of=language/elman"
    assert found["try"]["kind"] == "text"
    assert found["command"].startswith("porism train language elman")


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc", "..", "tiny/../tiny/elman", "tiny", "tiny/elman/best", "tiny%2F..%2F..", "", "\0", "a" * 400],
)
@pytest.mark.parametrize("address", ["/api/run", "/api/run/report"])
def test_only_what_is_listed_is_found(client: TestClient, address: str, name: str) -> None:
    answer = client.get(address, params={"id": name})
    assert (answer.status_code, answer.json()["code"]) == (404, "no_run")


def test_a_link_out_of_the_folder_is_not_followed(folder_with_links: Path) -> None:
    client = client_of(folder_with_links)
    rows = {row["id"]: row for row in client.get("/api/runs").json()}
    assert {name: row["state"] for name, row in rows.items()} == {
        "own": "finished",
        "linked": "damaged",
        "report-elsewhere": "damaged",
    }
    assert rows["linked"]["message"] == "linked is a link out of runs, and is not followed."
    assert client.get("/api/run?id=linked").status_code == 409
    answer = client.get("/api/run/report?id=report-elsewhere")
    assert answer.status_code == 404
    assert "secret" not in answer.text


def test_a_report_can_do_nothing(folder_with_links: Path) -> None:
    (folder_with_links / "own" / "report.html").write_text("<script>alert(1)</script>")
    answer = client_of(folder_with_links).get("/api/run/report?id=own")
    assert (answer.status_code, answer.headers["content-security-policy"]) == (200, REPORT_POLICY)


def test_a_damaged_run_hides_no_other(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "tiny", tmp_path / "runs")
    (tmp_path / "runs" / "attention" / "recipe.toml").write_text("broken =")
    rows = {row["id"]: row for row in client_of(tmp_path / "runs").get("/api/runs").json()}
    assert (rows["attention"]["state"], rows["elman"]["state"]) == ("damaged", "finished")
    assert "is not a recipe that porism wrote" in rows["attention"]["message"]


def test_a_damaged_checkpoint_is_named_with_the_older_one(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "tiny" / "elman", tmp_path / "elman")
    with (tmp_path / "elman/best/model.safetensors").open("ab") as file:
        file.write(b"x")
    table = RunTable(tmp_path)
    _, record = table.whole("elman")
    found = run_details(table.find("elman"), record, catalogue())["checkpoint"]
    assert found == {
        "best_epoch": 2,
        "damaged": ["best/model.safetensors"],
        "whole": [{"name": "best.previous", "epoch": 1}],
    }


def test_a_run_that_grows_is_read_again(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run("grows")
    table = RunTable(tmp_path)
    first = table.listed()["grows"]
    assert (first.row["epoch"], first.row["state"], first.row["value"]) == (3, "stopped", 180.5)
    assert table.listed()["grows"] is first
    progress = {"event": "progress", "epoch": 5, "step": 7, "steps": 20, "loss": 3.5, "rate": 100.0, "unit": "tokens"}
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps(epoch(4, 170.0)) + "\n" + json.dumps(progress) + "\n")
    again = table.listed()["grows"]
    assert (again.row["epoch"], again.row["value"]) == (4, 170.0)
    assert again.record is not None
    told = run_details(again, again.record, catalogue())["progress"]
    assert (told["step"], told["steps"], told["loss"]) == (7, 20, 3.5)


@pytest.mark.parametrize(
    ("metric", "lower"),
    [
        *((task.metric, task.lower_is_better) for task in (Graphs, Language, Sentiment, Speech, Words)),
        *METRICS.values(),
    ],
)
def test_a_run_without_results_says_which_way_is_better(
    write_run: WriteRun, tmp_path: Path, metric: str, lower: bool
) -> None:
    epochs = [{**epoch(number, 0.5), "valid": {metric: number / 10}} for number in (1, 2)]
    write_run("stopped", events=[start(), *epochs])
    row = RunTable(tmp_path).listed()["stopped"].row
    assert (row["state"], row["metric"], row["lower_is_better"]) == ("stopped", metric, lower)


def test_the_better_run_is_named_with_what_else_differs(write_run: WriteRun) -> None:
    long = [start(), *(epoch(number, 200.0 - number) for number in range(1, 13))]
    records = {
        "a": read_run(write_run("a", recipe="elman", events=long, metrics=metrics(77.66, epochs=12), epochs=12)),
        "b": read_run(
            write_run("b", recipe="attention", metrics=metrics(90.49), epochs=4, hidden=200, model="attention")
        ),
    }
    found = compare(records)
    assert found["headline"] == "elman has the lowest test perplexity, 77.66, but it trained four times as long"
    assert "Their budgets differ" in found["summary"]
    assert found["table"]["columns"][:3] == ["test", "valid", "valid at 3 epochs"]
    cells = {row["run"]: row["cells"] for row in found["table"]["rows"]}
    assert (cells["a"][0], cells["b"][0]) == ("77.66", "90.49")
    assert found["table"]["rows"][0]["best"][0] == 0
    fields = {row["field"]: row["values"] for row in found["differing"]}
    assert fields["epochs"] == ["12", "4"]
    assert fields["hidden_size"] == ["100", "200"]
    assert not {"name", "model"} & fields.keys()  # the table says what differs besides the model
    assert found["command"] == "porism compare language elman attention --data ptb --epochs 4"
    (first, second) = found["curves"]
    assert first["seconds"][:2] == [10.0, 20.0]
    assert second["y"] == [301.2, 180.5, 182.0]
    records["b"] = read_run(write_run("c", recipe="attention", events=[start(), epoch(1, 240.0)], epochs=1))
    assert "valid at 1 epoch" in compare(records)["table"]["columns"]


def test_the_headline_says_who_was_still_improving_and_who_is_level(write_run: WriteRun) -> None:
    def headline(*scores: tuple[float, int], schedule: str = "constant") -> str:
        """Of runs of four epochs, by their score on test and the epoch that was their best on valid."""
        runs = {
            f"{number}": read_run(
                write_run(
                    f"{len(written)}-{number}",
                    recipe=f"net-{number}",
                    epochs=4,
                    lr_scheduler=schedule,
                    **results(score, best),
                )
            )
            for number, (score, best) in enumerate(scores, 1)
        }
        written.append(runs)
        found = compare(runs)
        assert found["command"] == "", "they had an equal budget"
        return str(found["headline"])

    def results(score: float, best: int) -> dict[str, Any]:
        events = [start(), *(epoch(number, 200.0 - number) for number in range(1, 5))]
        return {"events": events, "metrics": metrics(score, epochs=4, best_epoch=best)}

    written: list[Any] = []
    first = "net-1 has the lowest test perplexity, 90.00"
    assert headline((90, 4), (95, 4)) == f"{first}; both were still improving when they stopped"
    assert headline((90, 4), (95, 4), (96, 4)) == f"{first}; all were still improving when they stopped"
    assert headline((90, 3), (95, 4)) == f"{first}; net-2 was still improving when it stopped"
    assert headline((90, 4), (95, 3)) == first
    assert headline((90, 4), (95, 4), schedule="cosine") == first
    assert headline((90, 4), (90, 3), (95, 3)) == "net-1 and net-2 have the same test perplexity, 90.00"


def test_of_runs_that_are_level_on_valid_none_is_called_best_there(write_run: WriteRun) -> None:
    scores = {
        name: {"valid": {"perplexity": 150.0}, "test": {"perplexity": test}} for name, test in (("a", 90), ("b", 80))
    }
    runs = {name: read_run(write_run(name, recipe=name, metrics=metrics(metrics=own))) for name, own in scores.items()}
    assert compare(runs)["headline"] == "a and b are level on valid; on test b is ahead, with 80.00"


def test_runs_of_another_task_or_data_are_refused_by_name(client: TestClient) -> None:
    found = client.get("/api/compare?runs=tiny/elman,old/graphs,tiny/attention,nothing").json()
    assert found["runs"] == ["tiny/elman", "tiny/attention"]
    refused = {one["run"]: one["why"] for one in found["refused"]}
    assert refused["old/graphs"] == "of another task: graphs, and the others are of language"
    assert "there is no run 'nothing'" in refused["nothing"]
    assert client.get("/api/compare?runs=nothing").status_code == 404
    # Browsers' own encoders write a comma as %2C.
    assert client.get("/api/compare", params={"runs": "tiny/elman,tiny/attention"}).json()["runs"] == found["runs"]


def test_a_metric_that_not_every_run_has_is_refused(client: TestClient) -> None:
    found = client.get("/api/compare?runs=tiny/elman,tiny/attention&metric=accuracy").json()
    assert found["metric"] == "perplexity"
    assert found["refused"][-1]["why"].startswith("not every run has accuracy: choose from perplexity")
    other = client.get("/api/compare?runs=tiny/elman,tiny/attention&metric=cross_entropy").json()
    assert other["metric"] == "cross_entropy"


@pytest.mark.parametrize("room", ["models", "compare", "patterns", "ledger"])
def test_rooms_open_with_an_answer(client: TestClient, room: str) -> None:
    page = client.get(f"/{room}")
    assert page.status_code == 200
    assert "<h1" in page.text


def test_an_empty_folder_says_how_to_fill_it(tmp_path: Path) -> None:
    client = client_of(tmp_path / "none")
    assert client.get("/api/runs").json() == []
    assert "porism train language elman" in client.get("/models").text
    assert "porism compare language elman lstm" in client.get("/compare").text
