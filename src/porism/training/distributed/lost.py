"""A process of a training that is lost, in words. Without torch, since every command asks for it."""

from porism.errors import RunError
from porism.training.distributed.launch import Launch

GONE = ("closed by peer", "reset by peer", "likely closed", "refused", "broken pipe", "remote process exited")
LATE = ("timed out", "timeout")
"""What gloo, NCCL and the store write of a connection, in lower case. The rest of their text is for their authors."""
INTACT = "What was saved before is intact."


class ProcessLost(RunError):
    """A process of a training has ended, or cannot be reached any more."""

    exit_code = 1


class ProcessFailed(ProcessLost):
    """A process of a training has ended by an error whose words it left to the others."""

    exit_code = 2


def lost(size: int, error: Exception) -> ProcessLost:
    """What to say where an exchange between so many processes has failed.

    >>> lost(2, RuntimeError("[pair.cc:553] Connection closed by peer [10.0.0.2]:2938. GLHF!")).problem[:65]
    'one of the 2 processes was lost: it has ended, or its machine has'
    """
    if has_ended(error):
        reason = "it has ended, or its machine has"
    elif any(words in str(error).lower() for words in LATE):
        reason = "it does not answer, nor has it ended"
    else:
        reason = "it cannot be reached"
    return ProcessLost(f"one of the {size} processes was lost: {reason}. torchrun says which. {INTACT}")


def has_ended(error: Exception) -> bool:
    """Whether an exchange has failed because the other end of it is closed."""
    return any(words in str(error).lower() for words in GONE)


def with_command(error: ProcessLost, launch: Launch, command: str | None) -> ProcessLost:
    """The same with the command that goes on with the run, unless torchrun starts it again by itself."""
    if command is None or launch.restarts < launch.max_restarts:
        return error
    return type(error)(f"{error} Go on with: {command}")
