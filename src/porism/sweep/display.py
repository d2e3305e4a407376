"""The live table of a sweep on a terminal, and a line for each trial that ends anywhere."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from porism.runs.sweep import SweepTrial
from porism.sweep.plan import setting_text, value_text

OFTEN = 0.5
"""Seconds between two polls of the trials."""
ROWS, AROUND = 20, 6
"""Trials that the table shows at most, those on their way, then the best; and the lines above and below them. What a
terminal has no room for would be cut off at the end."""


class SweepDisplay:
    """Shows the trials as they come.

    >>> with SweepDisplay(console, "perplexity", lower_is_better=True) as display:
    ...     display.update(trials)
    """

    def __init__(self, console: Console, metric: str, lower_is_better: bool, quiet: bool = False) -> None:
        self.console, self.metric, self.lower_is_better, self.quiet = console, metric, lower_is_better, quiet
        self.printed = set[int]()
        self.best: float | None = None
        self.since = -OFTEN
        self.live = None if quiet or not console.is_terminal else Live(console=console, transient=True)

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    @property
    def due(self) -> bool:
        """Whether it is worth while to look at the trials again."""
        return time.monotonic() - self.since > OFTEN

    def begin(self, trials: Sequence[SweepTrial]) -> None:
        """Take what is done already without a line for each."""
        for trial in trials:
            if trial.outcome not in ("waiting", "running"):
                self.printed.add(trial.number)
                self._is_best(trial)

    def update(self, trials: Sequence[SweepTrial]) -> None:
        """Show the trials as they are now."""
        self.since = time.monotonic()
        for trial in trials:
            if trial.outcome not in ("waiting", "running") and trial.number not in self.printed:
                self.printed.add(trial.number)
                best = self._is_best(trial)
                if not self.quiet:
                    self.console.print(Text(self._line(trial, len(trials), best)), soft_wrap=True)
        if self.live is not None:
            rows = max(1, min(ROWS, self.console.height - AROUND))
            self.live.update(trials_table(trials, self.metric, self.lower_is_better, rows), refresh=True)

    def _is_best(self, trial: SweepTrial) -> bool:
        if trial.outcome != "done" or trial.value is None:
            return False
        better = self.best is None or (trial.value < self.best if self.lower_is_better else trial.value > self.best)
        if better:
            self.best = trial.value
        return better

    def _line(self, trial: SweepTrial, of: int, best: bool) -> str:
        value = "" if trial.value is None else f" valid {self.metric.replace('_', ' ')} {trial.value:.4g}"
        outcome = value if trial.outcome == "done" else f" {trial.outcome}{value and ' at'}{value}"
        spent = "" if trial.seconds is None else f", {trial.seconds:.1f} s"
        why = f": {trial.reason}" if trial.reason else ""
        mark = ", best so far" if best else ""
        return f"trial {trial.number} of {of}: {setting_text(trial.setting)}:{outcome}{spent}{mark}{why}"


def trials_table(trials: Sequence[SweepTrial], metric: str, lower_is_better: bool, rows: int | None = None) -> Table:
    """One row a trial: those on their way, then those that are done, best on valid first."""
    sign = 1 if lower_is_better else -1
    outcomes = ("running", "done", "pruned", "diverged", "failed", "lost", "waiting")

    def order(trial: SweepTrial) -> tuple[int, float, int]:
        return outcomes.index(trial.outcome), sign * (trial.value or 0.0), trial.number

    shown = sorted(trials, key=order)
    counts = [f"{sum(trial.outcome == name for trial in trials)} {name}" for name in outcomes]
    title = ", ".join(text for text in counts if not text.startswith("0 "))
    made = Table(title=f"{len(trials)} trials: {title}", box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    names = list(dict.fromkeys(name for trial in trials for name in trial.setting))
    made.add_column("trial", justify="right")
    for name in names:
        made.add_column(name, justify="right")
    for name in (f"valid {metric.replace('_', ' ')}", "epoch", "outcome"):
        made.add_column(name, justify="left" if name == "outcome" else "right")
    for trial in shown[:rows]:
        value = "" if trial.value is None else f"{trial.value:.4g}"
        cells = [value_text(trial.setting[name]) if name in trial.setting else "" for name in names]
        made.add_row(str(trial.number), *cells, value, str(trial.epoch or ""), trial.outcome)
    if rows is not None and len(shown) > rows:
        made.caption = f"and {len(shown) - rows} more"
    return made
