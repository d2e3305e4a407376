"""Random cases under limits: each ends in an answer or in the user's error, in time and in memory.

>>> def test_it_is_read_or_refused(fuzz: Fuzz) -> None:
...     fuzz(st.binary(), lambda content: attempt(lambda: read(content)), share=40, whole=2000)
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from porism.errors import PorismError

SECONDS, ASLEEP = 20, 600
"""What computes longer hangs, however busy the machine is: a case takes milliseconds. What waits longer hangs too."""
MEMORY = 3 * 2**30
"""Bytes that a case may take beside what the process has. No file here is larger than some kilobytes."""
LONGEST = 700
"""Letters of a message, paths included."""

T = TypeVar("T")
Case = TypeVar("Case")

ENOUGH = 500
"""Cases among which there is one of each outcome."""


class TooSlow(BaseException):
    """No Exception, which what is tried might catch."""


@dataclass(frozen=True)
class Fuzz:
    """Runs cases drawn from --seed: a fixed share of them, or with --whole all."""

    seed: int
    whole: float
    """The part of all that is run, 0 without --whole."""

    def __call__(
        self, strategy: SearchStrategy[Case], check: Callable[[Case], object], *, share: int, whole: int
    ) -> None:
        """Draw so many cases and check each. A case that fails is made as small as it can be, and shown."""

        def judge(case: Case) -> None:
            try:
                check(case)
            except Exception as error:
                error.add_note(f"case: {case!r:.2000}")
                raise

        limited = settings(
            max_examples=max(share, ceil(self.whole * whole)),
            deadline=None,
            database=None,
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        seed(self.seed)(limited(given(strategy)(judge)))()


def attempt(work: Callable[[], T]) -> T | PorismError:
    """What came of it, or the user's error, which is one line. Anything else is raised as it is."""
    try:
        with _alarm():
            return work()
    except TooSlow:
        raise AssertionError(f"no end after {SECONDS} seconds of computing or {ASLEEP} of waiting") from None
    except PorismError as error:
        check_line(str(error))
        return error


def check_both(outcomes: Sequence[object]) -> None:
    """Cases that all end alike would find nothing. Of few cases they may."""
    assert len(outcomes) < ENOUGH or len(set(outcomes)) > 1, f"{len(outcomes)} cases ended alike: {outcomes[0]}"


def check_line(text: str) -> None:
    """A message is one line that a terminal can show, and not too long to be read."""
    assert text.strip(), "an error without a word"
    assert len(text.splitlines()) == 1, repr(text)
    assert len(text) < LONGEST, text


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    clocks = {
        signal.SIGPROF: (signal.ITIMER_PROF, SECONDS),  # of the process's own time
        signal.SIGALRM: (signal.ITIMER_REAL, ASLEEP),
    }
    before = {number: signal.signal(number, ring) for number in clocks}
    for clock, seconds in clocks.values():
        # Again and again: what is raised in a callback of the garbage collector is lost.
        signal.setitimer(clock, seconds, 1)
    try:
        yield
    finally:
        for clock, _ in clocks.values():
            signal.setitimer(clock, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let no more memory be taken than MEMORY, where the system can say so."""
    try:
        import resource

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    before: Any = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
