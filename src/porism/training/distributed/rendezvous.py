"""How the processes of one start find one another in a store that earlier starts have written into."""

import socket
import time
from datetime import timedelta
from uuid import uuid4

from torch.distributed.constants import default_pg_timeout
from torch.distributed.distributed_c10d import PrefixStore, Store

from porism.errors import RunError, one_line

PAUSE = 0.01
"""Seconds between two looks into the store."""


RESOLVE = 60.0
"""Seconds until the name of a machine that has just been started must be known."""


def check_resolves(address: str) -> None:
    """Refuse the address of rank 0 where no name server knows it: torch would look for it for half an hour."""
    deadline = time.monotonic() + RESOLVE
    while True:
        try:
            socket.getaddrinfo(address, None)
        except (socket.gaierror, UnicodeError) as error:
            if time.monotonic() >= deadline:
                raise RunError(
                    f"MASTER_ADDR={address} cannot be resolved here: {one_line(error)}. Give the name or the IP "
                    "address of the machine of rank 0 as this machine knows it."
                ) from error
            time.sleep(1)
        else:
            return


def own_store(store: Store, rank: int, size: int, wait: timedelta = default_pg_timeout) -> tuple[Store, int]:
    """The part of a store that belongs to this start of the processes alone, and how many starts there were before.

    torchrun keeps one store over its restarts, with the addresses of processes that have ended: a process that reads
    one of them before rank 0 has written its new one cannot connect. Restarts are no name for a start, since each
    machine counts its own.

    So each process asks under a name drawn for this start, and rank 0 answers all questions that it finds, old ones
    too, until every process has confirmed its answer.
    """
    store.set_timeout(wait)
    own = uuid4().hex
    if rank:
        store.set(f"question {rank}", own)
        name = store.get(f"answer {own}").decode()
        store.set(f"confirmed {name} {rank}", "yes")
        return PrefixStore(name, store), int(store.get(f"earlier {name}"))
    earlier = store.add("starts", 1) - 1
    store.set(f"earlier {own}", str(earlier))
    missing, deadline = list(range(1, size)), time.monotonic() + wait.total_seconds()
    while missing:
        for other in missing:
            if store.check([f"question {other}"]):
                store.set(f"answer {store.get(f'question {other}').decode()}", own)
        missing = [other for other in missing if not store.check([f"confirmed {own} {other}"])]
        if missing and time.monotonic() > deadline:
            raise RuntimeError(f"{len(missing)} of {size} processes did not come, rank {missing[0]} first")
        time.sleep(PAUSE)
    return PrefixStore(own, store), earlier
