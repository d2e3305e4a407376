"""Threads of a test in place of processes that train together: what they send and sum stays in memory."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Queue
from threading import Barrier, Thread
from typing import Any

import torch
from torch import Tensor

from porism.training.distributed.launch import Launch
from porism.training.distributed.processes import Processes


@dataclass
class Meeting:
    """Where the threads meet."""

    size: int
    summands: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = Barrier(self.size, timeout=60)
        self.messages: list[Queue[bytes]] = [Queue() for _ in range(self.size)]
        self.to_first: list[Queue[bytes]] = [Queue() for _ in range(self.size)]


@dataclass(frozen=True)
class OneThread(Processes):
    meeting: Meeting = field(default_factory=lambda: Meeting(1))

    def sum(self, x: Tensor) -> None:
        self.meeting.summands[self.rank] = x.clone()
        self.meeting.barrier.wait()
        x.copy_(torch.stack([self.meeting.summands[rank] for rank in range(self.size)]).sum(0))
        self.meeting.barrier.wait()

    def send(self, message: Mapping[str, Any]) -> None:
        for queue in self.meeting.messages[1:]:
            queue.put(json.dumps(message).encode())

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.meeting.messages[self.rank].get(timeout=60))
        return message

    def send_bytes(self, content: bytes) -> None:
        self.meeting.to_first[self.rank].put(content)

    def receive_bytes(self, rank: int) -> bytes:
        return self.meeting.to_first[rank].get(timeout=60)


def together(size: int, work: Callable[[Processes], Any]) -> list[Any]:
    """What `work` gives for each of so many processes, or the error that it raises."""
    meeting = Meeting(size)
    found: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            found[rank] = work(OneThread(Launch(rank=rank, size=size), meeting=meeting))
        except Exception as error:
            found[rank] = error

    threads = [Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
