"""The stream of events: nothing is lost and nothing repeated, also over a break."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.sse import ServerSentEvent
from starlette.requests import Request
from tests.report.conftest import WriteRun, epoch, start
from tests.report.conftest import write_run as write_run

from porism.web import watching
from porism.web.app import create_app
from porism.web.context import ServerContext
from porism.web.event_lines import new_lines
from porism.web.jobs import PageJob
from porism.web.routes.events import StreamPosition, read_events
from porism.web.settings import ServerSettings


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "EVERY_SECONDS", 0.01)


@pytest.fixture
def context(tmp_path: Path) -> ServerContext:
    found: ServerContext = create_app(ServerSettings(runs=tmp_path)).state.context
    return found


def append(folder: Path, text: str) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.write(text)


class Listener:
    """Reads some events of a stream, as a page would."""

    def __init__(self, context: ServerContext, query: str, last_event_id: str = "") -> None:
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": "/api/events",
            "scheme": "http",
            "headers": [],
        }
        scope |= {"query_string": query.encode(), "server": ("127.0.0.1", 8765)}
        stream = read_events(Request(scope), context, last_event_id=last_event_id)
        self.stream: AsyncIterator[ServerSentEvent] = aiter(stream)
        self.last = last_event_id

    async def hear(self, number: int) -> list[tuple[str, Any]]:
        heard: list[tuple[str, Any]] = []
        while len(heard) < number:
            event = await asyncio.wait_for(anext(self.stream), 10)
            if event.event is not None:
                heard.append((event.event, event.data))
                self.last = event.id or self.last
        return heard


def test_lines_come_whole_and_once(context: ServerContext, write_run: WriteRun) -> None:
    folder = write_run("a", events=[start(), epoch(1, 300.0)])

    async def scene() -> None:
        context.watcher.start()
        first = Listener(context, "runs=a")
        assert [data["event"]["event"] for _, data in await first.hear(2)] == ["start", "epoch"]
        line = json.dumps(epoch(2, 200.0)) + "\n"
        append(folder, line[:20])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(first.hear(1), 0.1)
        # That page is gone. Another one comes back with what it has seen, after the line is whole.
        append(folder, line[20:] + json.dumps(epoch(3, 190.0)) + "\n")
        again = Listener(context, "runs=a", first.last)
        heard = await again.hear(2)
        assert [(kind, data["id"], data["event"]["epoch"]) for kind, data in heard] == [
            ("run", "a", 2),
            ("run", "a", 3),
        ]
        assert heard[-1][1]["offset"] == (folder / "events.jsonl").stat().st_size
        await context.watcher.close()

    asyncio.run(scene())


def test_a_new_run_is_told_and_one_that_is_gone(context: ServerContext, write_run: WriteRun, tmp_path: Path) -> None:
    write_run("a")

    async def scene() -> None:
        context.watcher.start()
        page = Listener(context, "runs=*")
        ((_, first),) = await page.hear(1)
        assert (first["id"], first["listed"]["epoch"]) == ("a", 3)
        folder = write_run("b", events=[start()])
        ((_, second),) = await page.hear(1)
        assert (second["id"], second["listed"]["epoch"]) == ("b", 0)
        append(folder, json.dumps(epoch(1, 300.0)) + "\n")
        ((_, third),) = await page.hear(1)
        assert (third["id"], third["listed"]["value"]) == ("b", 300.0)
        (folder / "recipe.toml").unlink()
        assert await page.hear(1) == [("run", {"id": "b", "listed": None})]
        await context.watcher.close()

    asyncio.run(scene())


def test_parts_of_a_job_come_once_and_its_end_with_the_result(context: ServerContext) -> None:
    job = PageJob("J1", "predict", "a answers", {}, "")
    context.jobs._jobs["J1"] = job

    def changed(**changes: Any) -> None:
        for name, value in changes.items():
            setattr(job, name, value)
        job.version += 1
        context.watcher.wake_all()

    async def scene() -> None:
        page = Listener(context, "jobs=J1,other")
        assert [kind for kind, _ in await page.hear(1)] == ["job"]
        changed(state="running", parts=[{"text": "one"}])
        assert await page.hear(1) == [("part", {"job": "J1", "text": "one"})]
        ((_, told),) = await page.hear(1)
        assert told["state"] == "running"
        again = Listener(context, "jobs=J1", page.last)
        changed(state="done", parts=[{"text": "one"}, {"text": "two"}], result={"text": "one two"})
        heard = await again.hear(2)
        assert heard[0] == ("part", {"job": "J1", "text": "two"})
        assert (heard[1][1]["state"], heard[1][1]["result"]) == ("done", {"text": "one two"})

    asyncio.run(scene())


def test_a_page_that_leaves_is_forgotten(context: ServerContext, write_run: WriteRun) -> None:
    write_run("a")

    async def scene() -> None:
        page = Listener(context, "runs=a")
        await page.hear(1)
        assert len(context.watcher._watches) == 1
        async with aclosing(page.stream):  # type: ignore[type-var]
            pass
        assert len(context.watcher._watches) == 0

    asyncio.run(scene())


def test_only_listed_runs_are_watched(context: ServerContext, write_run: WriteRun, tmp_path: Path) -> None:
    write_run("a")
    (tmp_path.parent / "events.jsonl").write_text("{}\n")

    async def scene() -> None:
        page = Listener(context, "runs=..,%2Fetc,a/..,a")
        assert {data["id"] for _, data in await page.hear(4)} == {"a"}

    asyncio.run(scene())


def test_a_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"event": "start"}\n')
    assert [line.event["event"] for line in new_lines(file, 1000)] == ["start"]
    assert list(new_lines(file, file.stat().st_size)) == []
    assert list(new_lines(tmp_path / "none", 0)) == []


def test_lines_that_are_no_events_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b'not JSON\n[1]\n\xff\n{"event": "epoch", "epoch": 2, "sha256": "x", "loss": NaN}\n{"event')
    (line,) = new_lines(file, 0, every=10)
    assert line.event == {"event": "epoch", "epoch": 20, "loss": None}


@pytest.mark.parametrize("text", ["", "7", "%7B", '{"run a": -1, "run b": true, "c": "x"}', "[" * 10_000, "\ud800"])
def test_a_position_that_cannot_be_read_is_the_start(text: str) -> None:
    assert StreamPosition(text).seen == {}


def test_a_position_survives_the_way_through_a_header() -> None:
    position = StreamPosition()
    position["run a,b/ü"] = 17
    assert position.id.isascii()
    assert StreamPosition(position.id).seen == {"run a,b/ü": 17}
