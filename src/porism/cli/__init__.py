"""The command line: one file a verb. A verb's own imports stay inside it, so that `porism --help` answers at once."""

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from porism.cli.limits import check_paths
from porism.cli.verbs import VERBS, overview
from porism.errors import PorismError, out_of_memory
from porism.files import refused_by_system
from porism.training.distributed.launch import Launch, stop_with_torchrun
from porism.training.output import OutputClosed, silence
from porism.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done, 1 our fault, 2 the user's mistake, 130 interrupted, 141 nobody reads the output any more.
    """
    _open_missing_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        launch = Launch.read()
        code = _answer(words, debug) if launch.size == 1 else _answer_together(words, debug, launch)
    except PorismError as error:
        _complain(f"porism: {error}", debug)
        code = error.exit_code
    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
        return OutputClosed.exit_code
    return code


def _answer(words: list[str], debug: bool) -> int:
    try:
        if not words or words[0] in ("-h", "--help", "help"):
            print(overview())
            return 0
        if words[0] in ("-V", "--version"):
            print(f"porism {__version__}")
            return 0
        if words[0] == "--complete":
            from porism.cli.complete import complete

            print("\n".join(complete(words[1:])))
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
    except (MemoryError, RuntimeError) as error:
        if (line := out_of_memory(error)) is None:
            raise
        _complain(f"porism: {line}", debug)
        return line.exit_code
    except OSError as error:
        if (refusal := refused_by_system(error)) is None:
            raise
        _complain(f"porism: {refusal}", debug)
        return refusal.exit_code
    except SystemExit as leaving:  # code of the user's, in a pass of a model or in a claim's check
        from porism.training.own_code import why_not

        _complain(f"porism: {words[0]} runs code of yours: {why_not(leaving)}", debug)
        return PorismError.exit_code


def _answer_together(words: list[str], debug: bool, launch: Launch) -> int:
    """The exit code of one of the processes that torchrun has started. The first answers, the others follow it."""
    if not debug:
        # Of a store that has ended torch warns by a page of addresses in its libraries. It reads this as it is loaded.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    stop_with_torchrun()  # before torch is loaded, which takes seconds
    from porism.cli.together import together

    return together(launch, lambda: _answer(words, debug))


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
    if verb != "train" and Launch.read().size > 1:
        raise PorismError(f"porism {verb} runs in one process: torchrun is for porism train. Leave torchrun out.")
    from porism.cli.preload import begin_linking

    begin_linking(verb, words)
    from porism.cli.parsing import parse
    from porism.cli.stopping import going_on

    kind = getattr(import_module(f"porism.cli.{verb}"), f"{verb.capitalize()}Command")
    if "quiet" not in kind.__dataclass_fields__:  # where there is no progress to leave out
        words = [word for word in words if word != "--quiet"]
    # A verb that starts another program says which words are that program's.
    words, passed_on = kind.divide(words) if hasattr(kind, "divide") else (words, None)
    try:
        command = parse(kind, verb, words)
    except SystemExit:  # after the help
        return 0
    check_paths(command)
    with going_on(command):
        code: int = command.run() if passed_on is None else command.run(passed_on)
    return code
