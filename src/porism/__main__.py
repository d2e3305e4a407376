"""`porism` and `python -m porism`: a process that starts and ends without work that nobody waits for.

Loading torch and sympy makes half a million objects, none of which is garbage. Python looks through all of them seven
times while they come, and takes them apart one by one at the end: two seconds a command in all. So old objects are
looked through more seldom here, and the process ends once everything is written.
"""

import atexit
import gc
import os
import sys

from porism.cli import main

SELDOM = 200
"""Collections of the middle generation, of some 7,000 new objects each, before one of all; Python's own is 10."""


def program() -> int:
    """Run one command and end the process with its exit code."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, SELDOM)
    codes: list[int] = []
    # Registered before torch and others register theirs, and so called after those, when no thread runs any more.
    atexit.register(_end, codes)
    code = main()
    if "WORLD_SIZE" not in os.environ:  # processes that torchrun starts take leave of each other on the usual way
        codes.append(code)
    return code


def _end(codes: list[int]) -> None:
    """End the process at once and leave its memory to the system; after an error that nobody expected, as usual."""
    if not codes:
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # nobody reads it, or it is closed
            return
    os._exit(codes[0])


if __name__ == "__main__":
    sys.exit(program())
