"""Listeners to a training that Python began: a terminal or notebook, and callbacks."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from porism.errors import RecipeError, shown
from porism.training.progress import ConsoleProgress, NoProgress, Progress, ProgressGroup
from porism.training.side_by_side import SideBySide

Callback = Callable[[Mapping[str, Any]], object]
"""Called after each epoch with what `Run.history` says of it."""


class CallbackProgress(NoProgress):
    """Hands each epoch to a function."""

    # What it does is not known.
    reads_checkpoints = True

    def __init__(self, callback: Callback) -> None:
        self.callback = callback

    def epoch(self, event: Mapping[str, Any]) -> None:
        self.callback(event)


def listener(progress: bool | None, callbacks: Sequence[Callback]) -> Progress:
    """Listens to every step and epoch.

    progress: a bar and a line an epoch on standard error; None for one on a terminal or in a notebook.
    """
    callback_listeners = _callbacks(callbacks)
    console: list[Progress] = [ConsoleProgress(_console())] if _is_shown(progress) else []
    return ProgressGroup(*console, *callback_listeners)


def listener_beside(progress: bool | None, callbacks: Sequence[Callback]) -> Callable[[str], Progress]:
    """The same for trainings that run beside one another, by their names."""
    callback_listeners = _callbacks(callbacks)
    if not _is_shown(progress):
        return lambda name: ProgressGroup(*callback_listeners)
    together = SideBySide(_console())
    return lambda name: ProgressGroup(together.row(name), *callback_listeners)


def _callbacks(callbacks: Sequence[Callback]) -> list[Progress]:
    if callable(callbacks) or not isinstance(callbacks, Iterable):
        raise RecipeError(f"callbacks is {shown(callbacks)}, expected a list of functions. Write callbacks=[f].")
    if wrong := [one for one in callbacks if not callable(one)]:
        raise RecipeError(
            f"callbacks: {shown(wrong[0])} cannot be called, expected functions of a dict, each called after an epoch."
        )
    return [CallbackProgress(callback) for callback in callbacks]


def _console() -> Console:
    return Console(stderr=True, emoji=False)


def _is_shown(progress: bool | None) -> bool:
    if progress is not None:
        return progress
    # IPython is there in a notebook and in its own shell alone.
    return "IPython" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
