"""A porism command in a process of its own that shares this one's imports: with real pipes, signals and exit codes."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from tests.forking import fork, fork_on_terminal, skip_if_refused

from porism.cli import main


def do_nothing() -> None: ...


class Child:
    """Runs a command in a folder.

    before: what the child does first, for instance to ignore a signal.
    """

    def __init__(self, words: Sequence[str], folder: Path, before: Callable[[], None] = do_nothing) -> None:
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self.process = fork()
        if self.process == 0:
            os.dup2(out_write, 1)
            os.dup2(err_write, 2)
            for end in (out_read, out_write, err_read, err_write):
                os.close(end)
            answer(words, folder, before)
        os.close(out_write)
        os.close(err_write)
        self.out, self.err = os.fdopen(out_read), os.fdopen(err_read)

    def wait_for(self, beginning: str) -> None:
        """Read lines until one begins so."""
        for line in self.out:
            if line.startswith(beginning):
                return
        told = self.err.read()
        skip_if_refused(told)
        raise AssertionError(f"ended before it completed {beginning!r}: {told}")

    def end(self) -> tuple[int, str]:
        """The exit code, and what came on standard error."""
        if not self.out.closed:
            self.out.read()
            self.out.close()
        with self.err:
            shown = self.err.read()
        skip_if_refused(shown)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1]), shown


class ChildOnTerminal:
    """The same on a terminal of its own, which `hang_up` closes."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.process, self._terminal = fork_on_terminal()
        if self.process == 0:
            answer(words, folder, do_nothing)

    def wait_for(self, text: str) -> None:
        """Read until a text has come."""
        seen = b""
        while text.encode() not in seen:
            seen += os.read(self._terminal, 4096)

    def hang_up(self) -> int:
        """Close the terminal; the exit code that comes of it."""
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def answer(words: Sequence[str], folder: Path, before: Callable[[], None]) -> NoReturn:
    """Run the command as a new process would, and leave with its exit code."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Also where the tests themselves run under nohup.
        for given in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(given, signal.SIG_DFL)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        os.chdir(folder)
        before()
        code = main(words)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
