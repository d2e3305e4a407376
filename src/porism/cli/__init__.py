"""The command line: one file a verb. A verb's own imports stay inside it, so that `porism --help` answers at once."""

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from porism.cli.limits import check_paths
from porism.errors import PorismError
from porism.training.output import OutputClosed, silence
from porism.version import __version__

VERBS = {
    "train": "train a model, evaluate it, write a report",
    "compare": "the same for several recipes, in one report",
    "evaluate": "measure a trained model on a split",
    "predict": "let a trained model answer",
    "report": "one HTML page from one or more runs",
    "data": "the data sets porism knows, and where they lie",
    "cost": "the closed formula of a layer, or of any module you bring",
    "check": "decide by machine: gradients, kernels, and the ledger of claims",
    "bench": "measure against others, each benchmark a question",
}
"""Each verb is the module of its name, which holds a dataclass such as TrainCommand with a method `run`."""

EXAMPLES = """\
examples:
  porism train language                          the small recurrent net on the embedded text
  porism compare language elman lstm             two models, one table, one report
  porism train language table-02 --data ptb/     a published recipe on your copy of the data
  porism cost torch.nn:LSTM --with "50, 100" --input "T B D"
  porism predict runs/language-elman "a function is"
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done, 1 our fault, 2 the user's mistake, 130 interrupted, 141 nobody reads the output any more.
    """
    _open_missing_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    code = _answer(words, debug="--debug" in words)
    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
        return OutputClosed.exit_code
    return code


def _answer(words: list[str], debug: bool) -> int:
    try:
        if not words or words[0] in ("-h", "--help", "help"):
            print(_overview())
            return 0
        if words[0] in ("-V", "--version"):
            print(f"porism {__version__}")
            return 0
        return _run(words[0], [word for word in words[1:] if word != "--debug"])
    except (OutputClosed, BrokenPipeError):
        return OutputClosed.exit_code
    except PorismError as error:
        _complain(f"porism: {error}", debug)
        return error.exit_code
    except KeyboardInterrupt:
        _complain("porism: stopped at once. What was saved before is intact.", debug)
        return 130
    except SystemExit as leaving:  # after tyro's help
        return int(leaving.code or 0)


def _complain(line: str, debug: bool) -> None:
    """Print to standard error, where there is still one: a closed terminal takes it along."""
    try:
        if debug:
            traceback.print_exc()
        print(line, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def _open_missing_streams() -> None:
    """Python has no stream at all where a process is started without one, as by `porism train >&-`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115  # as long as the process


def _run(verb: str, words: list[str]) -> int:
    if verb not in VERBS:
        from porism.errors import nearest

        raise PorismError(f"there is no command {verb!r}. {nearest(verb, list(VERBS))} See porism --help.")
    kind = getattr(import_module(f"porism.cli.{verb}"), f"{verb.capitalize()}Command")
    # A verb that starts another program says which words are that program's.
    words, passed_on = kind.divide(words) if hasattr(kind, "divide") else (words, None)
    command = _parse(kind, verb, words)
    check_paths(command)
    code: int = command.run() if passed_on is None else command.run(passed_on)
    return code


def _parse(kind: Any, verb: str, words: list[str]) -> Any:
    import tyro

    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured):
            return tyro.cli(kind, prog=f"porism {verb}", args=words, config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as leaving:
        if leaving.code in (0, None):
            raise
        raise PorismError(f"{_out_of_the_box(captured.getvalue())} See porism {verb} --help.") from None


def _out_of_the_box(drawing: str) -> str:
    """What tyro writes under a title, in a box where the terminal can draw one, as one line without the title."""
    lines = [line.strip("│ ") for line in drawing.splitlines() if line.strip() and not line.startswith(("╭", "╰"))]
    if len(lines) > 1 and not lines[1].strip("-"):
        lines = lines[2:]
    text = " ".join(line for line in lines if line.strip("─-"))
    for end in ("Argument helptext:", "For full helptext"):
        text = text.partition(end)[0]
    return text.strip().rstrip(".") + "."


def _overview() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        f"usage: porism VERB ...\n\n"
        f"Neural architectures with their gradients, their costs and the tasks they learn.\n\n{verbs}\n\n"
        f"Every verb explains itself with --help and takes --json: then the last line of standard output is one JSON\n"
        f"object, and all else goes to standard error. --debug shows where an error came from.\n\n{EXAMPLES}"
    )
