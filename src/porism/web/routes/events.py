"""The one stream of events of a page: lines of runs, changes of the list, jobs and their parts."""

import json
from collections.abc import AsyncIterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

from fastapi import APIRouter, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from porism.runs.events import EVENTS
from porism.runs.old_fields import EVERY
from porism.web.addresses import split_names
from porism.web.context import Context, ServerContext
from porism.web.event_lines import new_lines
from porism.web.jobs import ENDED

router = APIRouter(prefix="/api")
ALL = "*"
MOST_RUNS, MOST_JOBS = 32, 100


class StreamPosition:
    """What a page has seen: byte offsets of runs, numbers of parts of jobs. It is the id of every event."""

    def __init__(self, text: str = "") -> None:
        self.seen: dict[str, int] = {}
        with suppress(ValueError, RecursionError):
            found = json.loads(unquote(text))
            if isinstance(found, dict):
                self.seen = {str(key): at for key, at in found.items() if type(at) is int and at >= 0}

    def __getitem__(self, key: str) -> int:
        return self.seen.get(key, 0)

    def __setitem__(self, key: str, at: int) -> None:
        self.seen[key] = at

    @property
    def id(self) -> str:
        return quote(json.dumps(self.seen, separators=(",", ":")))


@router.get("/events", response_class=EventSourceResponse)
async def read_events(
    request: Request,
    context: Context,
    runs: Annotated[str, Query(max_length=10_000)] = "",
    jobs: Annotated[str, Query(max_length=10_000)] = "",
    last_event_id: Annotated[str, Header(max_length=20_000)] = "",
) -> AsyncIterable[ServerSentEvent]:
    """Events of runs (`*`: changes of the list) and of jobs, from where the page stopped to listen."""
    stream = Stream(context, request.url.query, last_event_id)
    # So that a browser knows at once that it is connected, and comes back soon after a break.
    yield ServerSentEvent(comment="connected", retry=2000)
    with context.watcher.watching(stream.files, stream.lists) as watch:
        if stream.lists:
            await context.watcher.read_rows()
        while not watch.ended:
            await watch.changed()
            for event in stream.new():
                yield event


class Stream:
    """What one page listens to, and what it has received."""

    def __init__(self, context: ServerContext, query: str, last_event_id: str) -> None:
        listed = context.runs.listed()
        names = split_names(query, "runs", listed)
        known = {name: listed[name] for name in names[:MOST_RUNS] if name in listed}
        self.context, self.position, self.lists = context, StreamPosition(last_event_id), ALL in names
        self.files: dict[str, Path] = {}
        self.every: dict[str, int] = {}
        for name, run in known.items():
            if (file := context.runs.file(run, EVENTS)) is not None:
                self.files[name] = file
                self.every[name] = run.record.fields.get(EVERY, 1) if run.record else 1
        self.jobs = split_names(query, "jobs", ())[:MOST_JOBS]
        self._rows: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, int] = {}

    def new(self) -> Iterator[ServerSentEvent]:
        """All that has happened since the last time."""
        if self.lists:
            yield from self._new_rows()
        for name, file in self.files.items():
            key = f"run {name}"
            for line in new_lines(file, self.position[key], self.every[name]):
                self.position[key] = line.offset
                yield self._event("run", {"id": name, "offset": line.offset, "event": line.event})
        for name in self.jobs:
            yield from self._new_of_job(name)

    def _new_rows(self) -> Iterator[ServerSentEvent]:
        rows = self.context.watcher.rows
        for name, row in rows.items():
            if self._rows.get(name) != row:
                yield self._event("run", {"id": name, "listed": row})
        for name in self._rows.keys() - rows.keys():
            yield self._event("run", {"id": name, "listed": None})
        self._rows = dict(rows)

    def _new_of_job(self, name: str) -> Iterator[ServerSentEvent]:
        job, key = self.context.jobs.get(name), f"job {name}"
        if job is None or self._versions.get(name) == job.version:
            return
        self._versions[name] = job.version
        for part in job.parts[self.position[key] :]:
            self.position[key] += 1
            yield self._event("part", {"job": name, **part})
        answer = job.to_json()
        if job.state not in ENDED:
            answer.pop("result", None)
        yield self._event("job", answer)

    def _event(self, kind: str, data: dict[str, Any]) -> ServerSentEvent:
        return ServerSentEvent(event=kind, data=data, id=self.position.id)
