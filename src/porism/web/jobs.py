"""Jobs: what takes longer than a request may. Each kind has a worker process, a queue and a limit of time.

A worker does one job at a time. It is started on first use; one that dies, or does not stop on request, is
ended and started anew for the next job.
"""

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from starlette.requests import Request

from porism.web.refusals import Refusal
from porism.web.workers import JobMessage, Worker

LIMITS = {
    "predict": 60,
    "patterns": 60,
    "derive": 120,
    "recount": 120,
    "measure": 60,
    "calibrate": 300,
    "check": 120,
}
"""Seconds after which a job of each kind is stopped."""
WORKERS = {
    "predict": "predict",
    "patterns": "predict",
    "derive": "count",
    "recount": "count",
    "measure": "count",
    "calibrate": "count",
    "check": "check",
}
"""The worker that does each kind."""
QUEUE = 64
EACH_CLIENT = 4
"""Jobs of one client that may wait or run at a time, of the kinds that take long."""
LONG_KINDS = ("derive", "recount", "measure", "calibrate", "check")
GRACE = 2.0
"""Seconds in which a job may stop by itself once that is requested."""
KEPT_SECONDS, MOST_KEPT = 600, 100
ENDED = ("done", "failed", "cancelled", "timed_out")


@dataclass
class PageJob:
    """One job on its way."""

    id: str
    kind: str
    title: str
    payload: dict[str, Any]
    client: str
    upload: str | None = None
    state: str = "queued"
    position: int = 0
    progress: dict[str, Any] = field(default_factory=lambda: {"done": 0})
    result: dict[str, Any] | None = None
    error: dict[str, str] | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)
    version: int = 0
    """Grows with every change, so that who watches knows what is new."""
    started: float | None = None
    ended: float | None = None
    ending: str = ""
    """How it will end where a stop was requested: cancelled or timed_out."""

    def to_json(self) -> dict[str, Any]:
        until = self.ended if self.ended is not None else time.monotonic()
        seconds = 0.0 if self.started is None else round(until - self.started, 3)
        found = {
            "job": self.id,
            "kind": self.kind,
            "title": self.title,
            "state": self.state,
            "position": self.position,
            "progress": self.progress,
            "seconds": seconds,
        }
        return found | {key: value for key in ("result", "error") if (value := getattr(self, key)) is not None}


class Jobs:
    """All jobs, their queues and their workers. Everything here happens in the server's event loop."""

    def __init__(self, on_change: Callable[[], None], on_end: Callable[[PageJob], None]) -> None:
        self._on_change, self._on_end = on_change, on_end
        self._jobs: dict[str, PageJob] = {}
        self._queues: dict[str, deque[PageJob]] = {name: deque() for name in set(WORKERS.values())}
        self._running: dict[str, PageJob] = {}
        self._workers: dict[str, Worker] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._messages: SimpleQueue[Any] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: threading.Thread | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to hear of workers."""
        self._loop = loop
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def close(self) -> None:
        """End all workers."""
        for timer in self._timers.values():
            timer.cancel()
        for worker in self._workers.values():
            worker.end()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._messages.put(None)
        if self._listener is not None:
            self._listener.join()

    def submit(
        self, kind: str, title: str, payload: dict[str, Any], request: Request, *, upload: str | None = None
    ) -> PageJob:
        """Put a job into its queue, or refuse it where that is full."""
        client = request.client.host if request.client else ""
        queue = self._queues[WORKERS[kind]]
        if len(queue) >= QUEUE:
            raise _busy(f"{QUEUE} jobs wait already.")
        own = [job for job in self._jobs.values() if job.client == client and job.state not in ENDED]
        if kind in LONG_KINDS and sum(job.kind in LONG_KINDS for job in own) >= EACH_CLIENT:
            raise _busy(f"{EACH_CLIENT} jobs of yours wait or run already.")
        self._forget()
        job = PageJob(secrets.token_urlsafe(12), kind, title, payload, client, upload)
        self._jobs[job.id] = job
        queue.append(job)
        self._advance(WORKERS[kind])
        return job

    def listed(self) -> list[PageJob]:
        """All jobs that are kept, the newest first."""
        self._forget()
        return list(reversed(self._jobs.values()))

    def find(self, name: str) -> PageJob:
        self._forget()
        if name not in self._jobs:
            raise Refusal(404, "no_job", "there is no such job.", "Results are kept for ten minutes.", field="job")
        return self._jobs[name]

    def get(self, name: str) -> PageJob | None:
        """A job that may be gone."""
        return self._jobs.get(name)

    def cancel(self, name: str) -> PageJob:
        """Stop a job: one that waits at once, one that runs after its step, or with its process."""
        job = self.find(name)
        if job.state == "queued":
            self._queues[WORKERS[job.kind]].remove(job)
            self._end(job, "cancelled")
            self._advance(WORKERS[job.kind])
        elif job.state == "running" and not job.ending:
            self._stop(job, "cancelled")
        return job

    def _advance(self, name: str) -> None:
        """Give a worker that has nothing to do the next job, and tell the others how many are before them."""
        queue = self._queues[name]
        if name not in self._running and queue:
            job = queue.popleft()
            self._running[name] = job
            job.state, job.started = "running", time.monotonic()
            if name not in self._workers:
                self._workers[name] = Worker(name, self._messages)
            self._workers[name].give((job.id, job.kind, job.payload))
            self._later(job, LIMITS[job.kind], lambda: self._stop(job, "timed_out"))
            self._changed(job)
        for position, waiting in enumerate(queue, 1):
            if waiting.position != position:
                waiting.position = position
                self._changed(waiting)

    def _stop(self, job: PageJob, ending: str) -> None:
        """Tell a job to stop, and end its process where it does not."""
        name = WORKERS[job.kind]
        if self._running.get(name) is not job:
            return
        job.ending = ending
        self._workers[name].cancel(job.id)
        self._later(job, GRACE, self._workers[name].end)
        self._changed(job)

    def _later(self, job: PageJob, seconds: float, act: Callable[[], None]) -> None:
        assert self._loop is not None
        if (timer := self._timers.pop(job.id, None)) is not None:
            timer.cancel()
        self._timers[job.id] = self._loop.call_later(seconds, act)

    def _listen(self) -> None:
        """Hand what workers say to the event loop: a thread, since it waits."""
        assert self._loop is not None
        while (message := self._messages.get()) is not None:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._hear, *message)

    def _hear(self, worker: Worker, message: JobMessage) -> None:
        name = worker.name
        if self._workers.get(name) is not worker:
            return
        job = self._running.get(name)
        match message:
            case ("ended",):
                del self._workers[name]
                how = worker.how_it_ended()
                worker.close()
                if job is not None:
                    self._end(job, *_lost(job, how))
                    self._release(name)
            case (kind, number, *words) if job is not None and number == job.id:
                self._hear_of(job, kind, words)

    def _hear_of(self, job: PageJob, kind: str, words: list[Any]) -> None:
        match kind, words:
            case "progress", [done, of, unit]:
                job.progress = {"done": done, "of": of, "unit": unit}
                self._changed(job)
            case "part", [part]:
                job.parts.append(part)
                self._changed(job)
            case "done", [result]:
                job.result = result
                self._end(job, "done")
                self._release(WORKERS[job.kind])
            case "failed", [error]:
                self._end(job, "failed", _without_path(error, job.payload.get("file")))
                self._release(WORKERS[job.kind])
            case "cancelled", []:
                self._end(job, job.ending or "cancelled", _too_long(job) if job.ending == "timed_out" else None)
                self._release(WORKERS[job.kind])

    def _release(self, name: str) -> None:
        self._running.pop(name, None)
        self._advance(name)

    def _end(self, job: PageJob, state: str, error: dict[str, str] | None = None) -> None:
        if (timer := self._timers.pop(job.id, None)) is not None:
            timer.cancel()
        job.state, job.error, job.ended, job.position = state, error, time.monotonic(), 0
        job.payload = {}
        self._on_end(job)
        self._changed(job)

    def _changed(self, job: PageJob) -> None:
        job.version += 1
        self._on_change()

    def _forget(self) -> None:
        """Drop old results: after ten minutes, and of more than a hundred the oldest."""
        ended = [job for job in self._jobs.values() if job.ended is not None]
        now = time.monotonic()
        for index, job in enumerate(ended):
            if now - (job.ended or now) > KEPT_SECONDS or index < len(ended) - MOST_KEPT:
                del self._jobs[job.id]


def _without_path(error: dict[str, str], path: str | None) -> dict[str, str]:
    """The same of the file that was sent, whose name on this machine means nothing to its sender."""
    return error if path is None else {key: text.replace(path, "the file") for key, text in error.items()}


def _busy(message: str) -> Refusal:
    return Refusal(429, "busy", message, "Wait until one has ended, or cancel one.", headers={"Retry-After": "5"})


def _too_long(job: PageJob) -> dict[str, str]:
    return {
        "code": "timed_out",
        "message": f"stopped after {LIMITS[job.kind]} seconds.",
        "hint": "Ask for less at a time, or use the command line.",
    }


def _lost(job: PageJob, how: str) -> tuple[str, dict[str, str] | None]:
    """How a job ends whose process has: as was requested, or as a failure."""
    if job.ending:
        return job.ending, _too_long(job) if job.ending == "timed_out" else None
    return "failed", {
        "code": "worker_died",
        "message": f"the process that did it ended with {how}.",
        "hint": "A new one takes the next job.",
    }
