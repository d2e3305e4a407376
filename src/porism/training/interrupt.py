"""A clean stop: the first Ctrl-C or signal to end is remembered until the step is done, the second stops at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

ALWAYS = [signal.SIGINT, signal.SIGTERM]
# What a terminal sends when it is closed, and on Ctrl-\. Not every system has them. Whoever starts us with one of them
# ignored wants us to live on, as nohup does.
UNLESS_IGNORED = [getattr(signal, name) for name in ("SIGHUP", "SIGQUIT") if hasattr(signal, name)]
# A closed terminal hangs up more than once: the shell does, and then the system. So this one never stops at once.
HANG_UP = getattr(signal, "SIGHUP", None)

_active: list["Interrupt"] = []


class Interrupt:
    """Whether a stop was requested.

    >>> with Interrupt() as interrupt:
    ...     while not interrupt.requested: work()
    """

    def __init__(self) -> None:
        self.requested = False
        self._signalled = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        _active.append(self)
        # Python hands signals to the main thread only; a training in another thread is stopped by who started it.
        if threading.current_thread() is threading.main_thread():
            for number in _signals():
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _active.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.requested and kind is None:
            # After the last step the training is done and saved: what follows it is what is left to stop.
            raise KeyboardInterrupt

    def _remember(self, number: int, frame: FrameType | None) -> None:
        # The first signal, also where `ask_to_stop` came before it: who stops a process by both asked once.
        if self._signalled and number != HANG_UP:
            raise KeyboardInterrupt
        self.requested = self._signalled = True


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let each signal to end raise KeyboardInterrupt while this lasts, as Ctrl-C does, instead of killing the process.

    A training in it takes them over until it ends: see `Interrupt`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def ask_to_stop() -> None:
    """Stop every training of this process as Ctrl-C does: after its step, with a checkpoint."""
    for interrupt in _active:
        interrupt.requested = True


def _signals() -> list[signal.Signals]:
    return ALWAYS + [number for number in UNLESS_IGNORED if signal.getsignal(number) is not signal.SIG_IGN]
