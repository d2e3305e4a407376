"""Listeners to a training that Python began: a terminal or notebook, and callbacks."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from porism.errors import RecipeError
from porism.training.progress import ConsoleProgress, NoProgress, Progress, ProgressGroup

Callback = Callable[[Mapping[str, Any]], object]
"""Called after each epoch with what `Run.history` says of it."""


class CallbackProgress(NoProgress):
    """Hands each epoch to a function."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback

    def epoch(self, event: Mapping[str, Any]) -> None:
        self.callback(event)


def listener(progress: bool | None, callbacks: Sequence[Callback]) -> Progress:
    """Listens to every step and epoch.

    progress: a bar and a line an epoch on standard error; None for one on a terminal or in a notebook.
    """
    if wrong := [one for one in callbacks if not callable(one)]:
        raise RecipeError(
            f"callbacks: {wrong[0]!r} cannot be called, expected functions of a dict, each called after an epoch."
        )
    shown = _is_watched() if progress is None else progress
    console: list[Progress] = [ConsoleProgress(Console(stderr=True, emoji=False))] if shown else []
    return ProgressGroup(*console, *(CallbackProgress(callback) for callback in callbacks))


def _is_watched() -> bool:
    # IPython is there in a notebook and in its own shell alone.
    return "IPython" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
