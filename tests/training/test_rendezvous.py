"""Processes that are started again never read what an earlier start has left in the store."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch._C._distributed_c10d import HashStore, Store

from porism.training.distributed.rendezvous import own_store


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
