"""The first request to stop is remembered, the second stops at once."""

import contextlib
import signal
import threading
from collections.abc import Iterator

import pytest

from porism.training.interrupt import Interrupt, ask_to_stop

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
HANG_UP = getattr(signal, "SIGHUP", None)


@pytest.fixture(autouse=True)
def _nothing_is_ignored() -> Iterator[None]:
    """A shell starts what runs in the background with some signals ignored, and the tests are not about that."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Stopped(Exception):
    """As the loop leaves when a stop was requested."""


def asked_after(*signals: signal.Signals) -> bool:
    """Whether a stop is requested when these come one after another."""
    with contextlib.suppress(Stopped), Interrupt() as interrupt:
        assert not interrupt.requested
        for number in signals:
            signal.raise_signal(number)
        raise Stopped
    return interrupt.requested


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_remembered(number: signal.Signals) -> None:
    assert asked_after(number)


@pytest.mark.parametrize("second", [number for number in SIGNALS if number != HANG_UP])
@pytest.mark.parametrize("first", SIGNALS)
def test_a_second_one_stops_at_once(first: signal.Signals, second: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        asked_after(first, second)


@pytest.mark.skipif(HANG_UP is None, reason="this system has no terminals that hang up")
@pytest.mark.parametrize("first", SIGNALS)
def test_a_hang_up_never_stops_at_once(first: signal.Signals) -> None:
    """Where a terminal is closed the shell passes the hang-up on, and then the system sends it too."""
    assert HANG_UP is not None
    assert asked_after(first, HANG_UP, HANG_UP)


@pytest.mark.parametrize("number", SIGNALS)
def test_afterwards_every_signal_does_what_it_did(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupt():
        assert signal.getsignal(number) != before
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [number for number in SIGNALS if number.name in ("SIGHUP", "SIGQUIT")])
def test_what_is_ignored_stays_ignored(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(number)
            assert not interrupt.requested
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_request_after_the_last_step_is_not_forgotten() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupt():
        ask_to_stop()


def test_a_training_can_be_asked_without_a_signal_and_in_any_thread() -> None:
    seen: list[bool] = []

    def work() -> None:
        with contextlib.suppress(Stopped), Interrupt() as interrupt:
            ask_to_stop()
            seen.append(interrupt.requested)
            raise Stopped

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    ask_to_stop()  # nobody trains any more
    with Interrupt() as interrupt:
        seen.append(interrupt.requested)
    assert seen == [True, False]


def test_a_signal_beside_a_request_is_the_first() -> None:
    """Who stops a process closes its input too, and which of both it notices first is chance."""
    with contextlib.suppress(Stopped), Interrupt() as interrupt:
        ask_to_stop()
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise Stopped
