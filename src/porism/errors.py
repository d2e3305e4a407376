"""One base class, few leaves.

Every message is one line that says what is wrong, what came, what was expected and what to do. The command line prints
it without a traceback and leaves with the class's exit code.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches


class PorismError(Exception):
    """Something a user can put right."""

    exit_code = 2


class ShapeError(PorismError, ValueError):
    """A tensor or a size does not fit the layer."""


class RecipeError(PorismError, ValueError):
    """A recipe, a field of it or a command-line value that cannot be."""


class DataError(PorismError, ValueError):
    """Data that is missing, empty or not what it should be. The message names the file, and the line if it can."""


class RunError(PorismError):
    """A run folder or a checkpoint that cannot be used, or cannot be written."""


class CostError(PorismError, ValueError):
    """A cost that is not known: no formula was found, or the number requested is a bound, a range or unknown."""


class DeviceError(PorismError, RuntimeError):
    """A device that is not there."""


class TrainingError(PorismError, ArithmeticError):
    """Training cannot go on, for instance because the loss is no number."""


class DivergedError(TrainingError):
    """The numbers of a training are no longer finite, or far beyond those of an untrained model."""


class ClaimError(PorismError, ValueError):
    """A claim of the ledger that cannot be decided as it is written."""


class CheckError(PorismError, AssertionError):
    """A layer or a task that does not keep its contract."""


class MissingExtra(PorismError, ImportError):
    """An optional package is not installed. The message names the extra that brings it."""


class Interrupted(PorismError):
    """Stopped from outside, with the run saved."""

    exit_code = 130


MOST_NAMED = 10
"""Names that a message lists; of more only the number is told."""


def nearest(word: str, known: Sequence[str]) -> str:
    """The end of an error message: what was probably meant, else what there is; of many the nearest ten."""
    close = get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]}?"
    few = len(known) <= MOST_NAMED
    return some_of(known if few else sorted(known, key=lambda name: -SequenceMatcher(None, name, word).ratio()))


def some_of(known: Sequence[str]) -> str:
    """All names, or the first ten of more."""
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return f"Known: {', '.join(known[:MOST_NAMED])}{more}."
