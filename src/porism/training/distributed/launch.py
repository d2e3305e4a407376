"""What torchrun tells a process in its environment. Without torch, since every command asks for it."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from porism.errors import RunError, resuming

PAUSE = 1.0
"""Seconds between two looks whether torchrun is there."""


@dataclass(frozen=True)
class Launch:
    """Which of how many processes this is."""

    rank: int = 0
    """Among all processes, from 0."""
    size: int = 1
    local_rank: int = 0
    """Among those of this machine, from 0: which GPU it takes."""
    local_size: int = 1
    restarts: int = 0
    """How often torchrun on this machine has started the processes anew since one was lost."""
    max_restarts: int = 0

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> "Launch":
        """
        >>> Launch.read({"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}).size
        2
        >>> Launch.read({}).size
        1
        """
        if "RANK" not in environment or "WORLD_SIZE" not in environment:
            return cls()
        size = _number(environment, "WORLD_SIZE")
        rank = _number(environment, "RANK")
        if not 0 <= rank < size:
            raise RunError(f"RANK={rank} with WORLD_SIZE={size}: expected RANK from 0 to {size - 1}. Use torchrun.")
        return cls(
            rank=rank,
            size=size,
            local_rank=_number(environment, "LOCAL_RANK", rank),
            local_size=_number(environment, "LOCAL_WORLD_SIZE", size),
            restarts=_number(environment, "TORCHELASTIC_RESTART_COUNT", 0),
            max_restarts=_number(environment, "TORCHELASTIC_MAX_RESTARTS", 0),
        )

    def resuming(self, run: Path, *, shard: bool = False) -> str:
        """The command that goes on with a run, by several processes where these are several.

        >>> Launch(size=2).resuming(Path("runs/lstm"))
        'torchrun ... -m porism train --resume runs/lstm'
        """
        started = "" if self.size == 1 else "torchrun ... -m "
        return f"{started}{resuming(run).command_line}{' --shard' if shard and self.size > 1 else ''}"


def stop_with_torchrun(environment: Mapping[str, str] = os.environ) -> None:
    """Let this process stop where torchrun, which has started it, is killed: nobody else would end it.

    Before the processes have joined it ends at once; they would look for torchrun's store for half an hour. Later rank
    0 stops as at Ctrl-C, with a checkpoint, and ends the others.
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        threading.Thread(target=_stop_without, args=(os.getppid(),), daemon=True).start()


def _stop_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PAUSE)
    os.kill(os.getpid(), signal.SIGTERM)


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name, "" if default is None else str(default))
    if not text.isdigit():
        raise RunError(f"{name}={text!r} in the environment: expected a whole number, as torchrun sets it.")
    return int(text)
