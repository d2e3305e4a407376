"""A command that is stopped says how to go on, in whatever phase it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from porism.errors import DiskError, Interrupted
from porism.training.distributed.launch import Launch
from porism.training.distributed.lost import ProcessLost, with_command
from porism.training.interrupt import signals_interrupt

GO_ON = "Go on with: "


@contextmanager
def going_on(command: Any) -> Iterator[None]:
    """End with the command that goes on where this one is stopped, if it has one: its `go_on()`.

    Within, a signal to end interrupts as Ctrl-C does, also where no training is on its way to take it.
    """
    if not hasattr(command, "go_on"):
        yield
        return
    with signals_interrupt():
        try:
            yield
        except Interrupted as stopped:
            raise _told(str(stopped).partition(GO_ON)[0].rstrip(), command.go_on()) from stopped
        except KeyboardInterrupt as stopped:
            raise _told("stopped at once. What was saved before is intact.", command.go_on()) from stopped
        except DiskError as refused:
            # What cannot be written is a part of what the command does, and knows of that part alone.
            told, found, _ = str(refused).partition(GO_ON.lower())
            if not found:
                raise
            # Without a command that goes on nothing has begun.
            line = command.go_on()
            raise DiskError(f"{told}{f'{found}{line}' if line else 'give the same command again.'}") from refused
        except ProcessLost as lost:
            raise with_command(lost, Launch.read(), command.go_on()) from lost


def _told(what: str, line: str | None) -> Interrupted:
    return Interrupted(what if line is None else f"{what} {GO_ON}{line}")
