"""Progress of several trainings at a time: one table with a row for each, or lines that begin with its name."""

from rich.console import Console

from porism.training.progress import ConsoleProgress, bars_on


class SideBySide:
    """A table on a terminal, which stays below the lines of all trainings.

    >>> together = SideBySide(console)
    >>> together.row("elman").note("starts")
    elman: starts
    """

    def __init__(self, console: Console) -> None:
        self.console, self.bars = console, bars_on(console)

    def row(self, name: str) -> "RowProgress":
        """Who listens to the training of that name."""
        return RowProgress(self, name)


class RowProgress(ConsoleProgress):
    """One row of it."""

    def __init__(self, together: SideBySide, name: str) -> None:
        super().__init__(together.console)
        self.bar, self.name, self.shown = together.bars, name, False

    def begin(self, title: str, epochs: int, steps: int, done: int, unit: str) -> None:
        self.shown = True
        super().begin(self.name, epochs, steps, done, unit)

    def note(self, text: str) -> None:
        super().note(f"{self.name}: {text}")

    def close(self) -> None:
        if self.shown:
            self.bar.update(self.bar_task, visible=False)
        if not any(row.visible for row in self.bar.tasks):
            self.bar.stop()
