"""The processes that torchrun starts, as one command: rank 0 runs it, the others do their part of its trainings."""

import signal
import sys
from collections.abc import Callable

from porism.tasks import find
from porism.training.distributed.follower import follow
from porism.training.distributed.launch import Launch
from porism.training.distributed.lost import ProcessLost
from porism.training.distributed.processes import join


def together(launch: Launch, answer: Callable[[], int]) -> int:
    """Run a command on rank 0, and end all processes with its exit code."""
    with join(launch) as processes:
        if processes.rank:
            try:
                return follow(processes, find)
            except ProcessLost as lost:
                print(f"porism: {lost}", file=sys.stderr, flush=True)
                return lost.exit_code
        code = 1
        try:
            code = answer()
        finally:
            # torchrun sends it once the first of the others has ended; this one ends by itself, with its own code.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            processes.dismiss(code)
        return code
