"""`porism` as a process of its own: what it prints arrives, its exit code stays, its memory is left."""

import os
import subprocess
import sys

import pytest

from porism.__main__ import SELDOM

PROGRAM = """
import atexit, gc, sys, threading
import porism.__main__ as program

class Noisy:
    def __del__(self):
        print("taken apart")

def main():
    atexit.register(print, "registered")
    def late():
        threading.main_thread().join()
        print("thread")
    threading.Thread(target=late).start()
    print("gc", gc.get_threshold()[2])
    print("told", file=sys.stderr)
    {ending}

noisy = Noisy()
program.main = main
sys.exit(program.program())
"""


def ran(ending: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program whose command ends like this. Its output goes through pipes, which Python flushes at the end only."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ending=ending)],
        env={**os.environ, "PYTHONUNBUFFERED": "", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("code", [0, 2, 130])
def test_everything_is_printed_before_the_process_ends(code: int) -> None:
    done = ran(f"return {code}")
    assert (done.returncode, done.stderr) == (code, "told\n")
    assert done.stdout.splitlines() == [f"gc {SELDOM}", "thread", "registered"]


def test_an_unexpected_error_ends_as_in_any_program() -> None:
    done = ran("raise RuntimeError('our fault')")
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: our fault\n")
    assert done.stdout.splitlines()[-1] == "taken apart"


def test_processes_that_train_together_end_as_any_program() -> None:
    done = ran("return 0", WORLD_SIZE="2", RANK="0", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "taken apart")


def test_output_that_nobody_reads_is_no_crash() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(ending="return 0")],
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            stdout=writes,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    finally:
        os.close(writes)
    assert done.returncode == 120  # Python's own, of output that could not be flushed
    assert "Traceback" not in done.stderr
