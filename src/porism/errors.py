"""One base class, few leaves.

Every message is one line that says what is wrong, what came, what was expected and what to do. The command line prints
it without a traceback and leaves with the class's exit code. What to do may have other words in Python than on the
command line: an error carries both.

>>> error = RecipeError("epochs=0 cannot be.", advise("Use {} or more.", fields(epochs=1)))
>>> str(error), error.in_python
('epochs=0 cannot be. Use --set epochs=1 or more.', 'epochs=0 cannot be. Use epochs=1 or more.')
"""

import json
import re
import reprlib
import shlex
from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple


class Advice(NamedTuple):
    """What to do, in the words of the command line and in those of Python."""

    command_line: str
    python: str


def fields(**values: Any) -> Advice:
    """Fields of a recipe, set.

    >>> fields(tie_weights=False, epochs=3)
    Advice(command_line='--set tie_weights=false --set epochs=3', python='tie_weights=False, epochs=3')
    """
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    return Advice(
        " ".join(f"--set {name}={'none' if text == 'null' else text}" for name, text in texts.items()),
        ", ".join(f"{name}={value!r}" for name, value in values.items()),
    )


def option(name: str, value: str | None = None) -> Advice:
    """An option of the command line, which is an argument in Python.

    >>> option("out"), option("image_size", "32")
    (Advice(command_line='--out', python='out'), Advice(command_line='--image-size 32', python='image_size=32'))
    """
    flag = "--" + name.replace("_", "-")
    return Advice(flag, name) if value is None else Advice(f"{flag} {value}", f"{name}={value}")


def resuming(run: Path) -> Advice:
    """What goes on with a run that stopped."""
    return Advice(f"porism train --resume {shlex.quote(str(run))}", f"porism.load({str(run)!r}).resume()")


def advise(template: str, *words: Advice) -> Advice:
    """A sentence with a `{}` for each thing whose words differ.

    >>> advise("Choose another {}.", option("out"))
    Advice(command_line='Choose another --out.', python='Choose another out.')
    """
    on_command_line, in_python = [one.command_line for one in words], [one.python for one in words]
    return Advice(template.format(*on_command_line), template.format(*in_python))


class PorismError(Exception):
    """Something a user can put right.

    problem: what is wrong, and what to do where that is the same everywhere. advice: what to do, where it is not.
    Whatever came from outside, a message is one line: `as_line`.
    """

    exit_code = 2

    # No __init__ of its own where it runs: with one, torch.compile of 2.11 raises an AssertionError without a word.
    if TYPE_CHECKING:

        def __init__(self, problem: str = "", advice: Advice | None = None, /) -> None: ...

    @property
    def problem(self) -> str:
        return as_line(str(self.args[0])) if self.args else ""

    @property
    def advice(self) -> Advice | None:
        return Advice(*map(as_line, self.args[1])) if self.args[1:] and self.args[1] is not None else None

    def __str__(self) -> str:
        return self._with("" if self.advice is None else self.advice.command_line)

    @property
    def in_python(self) -> str:
        """The message for somebody who called a function."""
        return self._with("" if self.advice is None else self.advice.python)

    def _with(self, advice: str) -> str:
        return " ".join(filter(None, (self.problem, advice)))


class ShapeError(PorismError, ValueError):
    """A tensor or a size does not fit the layer."""


class RecipeError(PorismError, ValueError):
    """A recipe, a field of it or a command-line value that cannot be."""


class DataError(PorismError, ValueError):
    """Data that is missing, empty or not what it should be. The message names the file, and the line if it can."""


class RunError(PorismError):
    """A run folder or a checkpoint that cannot be used, or cannot be written."""


class DiskError(RunError):
    """A file or folder that the system does not let us use: its disk is full, read-only or gone, or it is not ours.

    What was to be written is not at fault, and can be written once that is put right.
    """


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


BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that end a line or move the cursor, and those that no terminal can be sent."""
LONG_WORD = re.compile(r"(\S{150})\S{151,}(\S{150})")
"""Longer than names of files are."""
LONGEST = 200
"""Letters of what another library says."""
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def as_line(text: str) -> str:
    r"""A text as one line: escapes for its control characters and line breaks, and words without end by their ends.

    >>> as_line("a folder\nof two lines")
    'a folder\\nof two lines'
    """
    line = text if text.isprintable() else BREAKS.sub(lambda found: repr(found[0])[1:-1], text)
    return line if len(line) < 450 else LONG_WORD.sub(r"\1...\2", line)


def shown(value: object) -> str:
    """What came, cut to fit into a message.

    >>> shown("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
    """
    return " ".join(line.strip() for line in _SHORT.repr(value).splitlines())


def one_line(error: BaseException) -> str:
    """What another library says is wrong."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


MOST_NAMED = 10
"""Names that a message lists; of more only the number is given."""


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


_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}
_REQUESTED = re.compile(r"(?:tried|Tried|Unable) to allocate ([\d.]+) (bytes|[KMGTPE]iB)")
"""As torch says on a CPU and on a GPU, and numpy."""
_WITHOUT_SIZE = "Storage size calculation overflowed", "out of memory"
"""As torch says where a size in bytes has more than 64 bits, and CUDA."""


def out_of_memory(error: BaseException) -> DeviceError | None:
    """An error of torch, numpy or Python about memory in our words; None for any other."""
    text = str(error)
    requested = _REQUESTED.search(text)
    if requested is None and not isinstance(error, MemoryError) and not any(words in text for words in _WITHOUT_SIZE):
        return None
    place = "the GPU" if "CUDA" in text else "memory"
    size = f": {_in_units(float(requested[1]) * _UNITS[requested[2]])} more were requested at once" if requested else ""
    return DeviceError(
        f"{place} does not suffice{size}. Use smaller sizes, such as a smaller --batch-size, or less data."
    )


def _in_units(size: float) -> str:
    """
    >>> _in_units(20 * 2**30), _in_units(1536)
    ('20.0 GiB', '1.5 KiB')
    """
    name = max((unit for unit in _UNITS if _UNITS[unit] <= size), key=_UNITS.__getitem__, default="bytes")
    return f"{size / _UNITS[name]:,.1f} {name}"
