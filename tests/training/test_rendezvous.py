"""Processes that are started again never read what an earlier start has left in the store."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch._C._distributed_c10d import HashStore, Store

from porism.cli import main
from porism.training.distributed import rendezvous
from porism.training.distributed.rendezvous import check_resolves, own_store


def start(store: Store, size: int, order: list[int]) -> list[tuple[str, int]]:
    """What each rank reads at the address of rank 0, and how many starts it knows of; ranks come in an order."""
    with ThreadPoolExecutor(size) as pool:
        waiting = {rank: pool.submit(own_store, store, rank, size) for rank in order}
        stores = {rank: future.result() for rank, future in waiting.items()}
    if len(order) == size:
        stores[0][0].set("address", f"of start {stores[0][1]}")
    return [(stores[rank][0].get("address").decode(), stores[rank][1]) for rank in sorted(order)]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_each_start_has_a_part_of_its_own(order: list[int]) -> None:
    store = HashStore()
    for earlier in range(3):
        assert start(store, 3, order) == [(f"of start {earlier}", earlier)] * 3


def test_another_number_of_processes_may_come() -> None:
    store = HashStore()
    start(store, 4, [3, 2, 1, 0])
    assert start(store, 2, [1, 0]) == [("of start 1", 1)] * 2


def test_processes_that_do_not_come_are_named() -> None:
    store = HashStore()
    start(store, 2, [1, 0])
    short = timedelta(milliseconds=50)
    # Rank 1 of the start before has left its question; that must not count as coming.
    with pytest.raises(RuntimeError, match="1 of 2 processes did not come, rank 1 first"):
        own_store(store, 0, 2, short)
    with pytest.raises(RuntimeError):
        own_store(store, 1, 2, short)


class NameServer:
    """Knows an address after it was asked for it a number of times."""

    def __init__(self, unknown: int, patch: pytest.MonkeyPatch) -> None:
        self.unknown, self.asked = unknown, 0
        patch.setattr(socket, "getaddrinfo", self.answer)

    def answer(self, *_: object) -> list[object]:
        self.asked += 1
        if self.asked <= self.unknown:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return []


def test_an_address_that_nobody_knows_is_refused_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    NameServer(1000, monkeypatch)
    monkeypatch.setattr(rendezvous, "RESOLVE", 0.0)
    launch = {"RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node-0", "MASTER_PORT": "29500"}
    for name, value in launch.items():
        monkeypatch.setenv(name, value)
    assert main(["train", "language", "elman"]) == 2
    assert capsys.readouterr().err == (
        "porism: MASTER_ADDR=node-0 cannot be resolved here: [Errno -2] Name or service not known. Give the name or "
        "the IP address of the machine of rank 0 as this machine knows it.\n"
    )


def test_a_machine_whose_name_is_known_a_moment_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = NameServer(2, monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    check_resolves("node-0")
    assert server.asked == 3
