"""The processes of one training and what they tell one another: messages and tensors of rank 0, sums over all."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from porism.errors import RunError
from porism.training.distributed.launch import Launch
from porism.training.distributed.lost import INTACT, ProcessFailed, ProcessLost, has_ended, lost
from porism.training.distributed.rendezvous import check_resolves, own_store

HEAD = 512
"""Bytes of a message; those of a longer one follow. So that a step costs one broadcast, whatever it says."""
PATIENCE = timedelta(days=7)
"""How long a process waits for the next message: rank 0 may evaluate for hours. One that ends is noticed at once."""


FAILED, TOLD, TELLERS = "failed", "told", "tellers"
"""Keys in the store."""
ANSWER = timedelta(seconds=5)
"""How long the others leave it to rank 0 to say that a process was lost. torchrun kills them after half a minute."""
ALONE = Launch()


@dataclass(frozen=True)
class Processes:
    """One of the processes that train together. Rank 0 leads: it alone reads the command, writes and prints."""

    launch: Launch = ALONE
    messages: dist.ProcessGroup | None = None
    """Tensors of a CPU, whatever device is trained on."""
    store: Store | None = None
    """Read and written without the others: by it a process that cannot go on says why."""

    @property
    def rank(self) -> int:
        return self.launch.rank

    @property
    def size(self) -> int:
        return self.launch.size

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell all others something, from rank 0."""
        content = json.dumps(message).encode()
        long = len(content) > HEAD
        head = json.dumps({"bytes": len(content)}).encode() if long else content
        self._broadcast(_bytes(head.ljust(HEAD)))
        if long:
            self._broadcast(_bytes(content))

    def receive(self) -> dict[str, Any]:
        """What rank 0 has sent."""
        head = torch.empty(HEAD, dtype=torch.uint8)
        self._broadcast(head)
        message: dict[str, Any] = json.loads(head.numpy().tobytes())
        if "bytes" in message:
            content = torch.empty(message["bytes"], dtype=torch.uint8)
            self._broadcast(content)
            message = json.loads(content.numpy().tobytes())
        return message

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Let the tensors of all processes hold what those of rank 0 hold."""
        for x in tensors:
            if x.numel():
                held = x.detach().to("cpu", copy=True).contiguous()
                self._broadcast(held)
                if self.rank:
                    with torch.no_grad():
                        x.copy_(held)

    def sum(self, x: Tensor) -> None:
        """Let x of all processes hold the sum over them, element by element: the same bits everywhere."""
        with _exchanging(self.size):
            dist.all_reduce(x, group=self.messages if x.device.type == "cpu" else None)

    def gather(self, text: str) -> list[str]:
        """The texts of all processes, by rank."""
        content = text.encode()
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(content)
        self.sum(lengths)
        rows = torch.zeros(self.size, max(1, int(lengths.max())), dtype=torch.uint8)
        rows[self.rank, : len(content)] = _bytes(content)
        self.sum(rows)
        return [row[:length].numpy().tobytes().decode() for row, length in zip(rows, lengths.tolist(), strict=True)]

    def send_bytes(self, content: bytes) -> None:
        """Send something to rank 0, which waits for it."""
        with _exchanging(self.size):
            dist.send(torch.tensor([len(content)]), 0, group=self.messages)
            if content:
                dist.send(_bytes(content), 0, group=self.messages)

    def receive_bytes(self, rank: int) -> bytes:
        """What a process has sent to rank 0."""
        with _exchanging(self.size):
            length = torch.zeros(1, dtype=torch.int64)
            dist.recv(length, rank, group=self.messages)
            content = torch.empty(int(length), dtype=torch.uint8)
            if len(content):
                dist.recv(content, rank, group=self.messages)
        return content.numpy().tobytes()

    def give_up(self, problem: str) -> None:
        """Leave word why this process ends in the middle of a step. The others find it when they miss this one."""
        if self.store is not None:
            self.store.set(FAILED, f"process {self.rank} of {self.size}: {problem}")

    def problem(self) -> str:
        """Why another process has ended, where it left word; else empty."""
        try:
            return self.store.get(FAILED).decode() if self.store is not None and self.store.check([FAILED]) else ""
        except RuntimeError:  # of a store that has ended with its process
            return ""

    def must_tell(self) -> bool:
        """Whether it is for this process to say that one was lost: rank 0 says nothing, and no other does yet."""
        assert self.store is not None
        with suppress(RuntimeError):
            self.store.wait([TOLD], ANSWER)
            return False
        try:
            return self.store.add(TELLERS, 1) == 1
        except RuntimeError:  # of a store that has ended with rank 0
            return True

    def dismiss(self, code: int) -> None:
        """Let the others end with an exit code, from rank 0, which has said why. Those that are lost have ended."""
        with suppress(RuntimeError):
            if self.store is not None:
                self.store.set(TOLD, "")
        with suppress(ProcessLost):
            self.send({"do": "stop", "code": code})

    def _broadcast(self, x: Tensor) -> None:
        with _exchanging(self.size):
            dist.broadcast(x, src=0, group=self.messages)


_joined: list[Processes] = []


def current() -> Processes:
    """The processes that train together now; one alone where nobody has joined."""
    return _joined[-1] if _joined else Processes()


@contextmanager
def join(launch: Launch) -> Iterator[Processes]:
    """Train together with the other processes of a launch while this lasts."""
    on_gpu = torch.cuda.is_available() and dist.is_nccl_available()
    if on_gpu and launch.local_rank < torch.cuda.device_count():
        torch.cuda.set_device(launch.local_rank)
    if (address := os.environ.get("MASTER_ADDR")) is not None:  # else torch says what is missing
        check_resolves(address)
    try:
        store, earlier = own_store(next(rendezvous("env://"))[0], launch.rank, launch.size)
        backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
        dist.init_process_group(backend, store=store, rank=launch.rank, world_size=launch.size)
        messages = dist.new_group(backend="gloo", timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        problem = f"process {launch.rank} of {launch.size} cannot join the others:"
        if has_ended(error):
            raise ProcessLost(f"{problem} one of them, or torchrun, has ended. Start all of them again.") from error
        raise RunError(
            f"{problem} {_first_line(error)} Start them by torchrun, which sets MASTER_ADDR and MASTER_PORT."
        ) from error
    processes = Processes(replace(launch, restarts=max(launch.restarts, earlier)), messages, store)
    _joined.append(processes)
    try:
        yield processes
    finally:
        _joined.remove(processes)
        with suppress(RuntimeError):  # of a group that has lost a process
            dist.destroy_process_group()


@contextmanager
def reaching(size: int) -> Iterator[None]:
    """Say in words that a process does not answer, among computations that fail for other reasons too."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, ProcessLost) or not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        raise _lost(size, error) from error


@contextmanager
def _exchanging(size: int) -> Iterator[None]:
    """The same for an exchange: gloo and NCCL raise a RuntimeError then."""
    try:
        yield
    except RuntimeError as error:
        raise _lost(size, error) from error


def _lost(size: int, error: Exception) -> ProcessLost:
    if problem := current().problem():
        return ProcessFailed(f"{problem} {INTACT}")
    return lost(size, error)


def _first_line(error: Exception) -> str:
    line = str(error).strip().partition("\n")[0].strip()
    return line if line.endswith(".") else f"{line}."


def _bytes(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
