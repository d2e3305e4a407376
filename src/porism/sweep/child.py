"""A process that works at a sweep until nothing is left of it. `porism.sweep.processes` starts it.

The job comes over standard input. When the process that started it is gone, it stops as on Ctrl-C: after the step, with
a checkpoint, and its trial is given back.
"""

import os
import pickle
import sys
import threading
from typing import NamedTuple

from porism.errors import Interrupted, PorismError
from porism.sweep.plan import SweepPlan
from porism.sweep.queue import TrialQueue, Where
from porism.sweep.worker import SweepWorker
from porism.training.interrupt import ask_to_stop, signals_interrupt


class SweepJob(NamedTuple):
    """What a worker has to know."""

    plan: SweepPlan
    where: Where
    lower_is_better: bool
    checkpoint_every: float
    workers: int


def main() -> int:
    """Work at the sweep that comes; the exit code."""
    stream = sys.stdin.buffer
    os.dup(1)  # stays open as long as this process: where it is closed, the one that started it takes it for ended
    os.dup2(2, 1)  # what a model or a library prints goes where errors go
    job: SweepJob = pickle.load(stream)
    stopped = threading.Event()
    threading.Thread(target=_stop_at_end, args=(stream.fileno(), stopped), daemon=True).start()
    try:
        with signals_interrupt():
            queue = TrialQueue(job.plan, job.where, job.lower_is_better)
            worker = SweepWorker(job.plan, queue, job.checkpoint_every, trainings=job.workers, stopped=stopped.is_set)
            worker.run()
    except (KeyboardInterrupt, Interrupted):
        return Interrupted.exit_code
    except PorismError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _stop_at_end(descriptor: int, stopped: threading.Event) -> None:
    """Stop when the other end is closed."""
    # Not through the stream: Python aborts where a thread still holds that one's lock when the process ends.
    while os.read(descriptor, 1):
        pass
    stopped.set()
    ask_to_stop()
