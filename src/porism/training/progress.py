"""Progress of a training: on a terminal, in a log file, in TensorBoard."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from porism.errors import MissingExtra
from porism.training.interrupt import ask_to_stop
from porism.training.output import Output


class Progress(Protocol):
    """Notified of every step and every epoch."""

    reads_checkpoints: bool
    """Whether an epoch is reported only when the checkpoint after it is on the disk."""

    def begin(self, title: str, epochs: int, steps: int, done: int, unit: str) -> None:
        """Training starts: so many epochs of so many steps, of which some are done already."""

    def step(self, units: int) -> None:
        """One step is done."""

    def epoch(self, event: Mapping[str, Any]) -> None:
        """One epoch is done; the event is the line of events.jsonl."""

    def note(self, text: str) -> None:
        """Something a person should know."""

    def close(self) -> None:
        """Training has ended, well or not."""


class NoProgress:
    """Shows no progress."""

    reads_checkpoints = False

    def begin(self, title: str, epochs: int, steps: int, done: int, unit: str) -> None: ...
    def step(self, units: int) -> None: ...
    def epoch(self, event: Mapping[str, Any]) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


def bars_on(console: Console) -> Bars:
    """A table of progress bars, a row a training, where the console is a terminal."""
    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("at most"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class ConsoleProgress:
    """A progress bar with rate and time left on a terminal, and plain lines elsewhere.

    Where the console's `Output` has lost its reader the training is stopped, as the reader of `porism train | head -1`
    wants it: with a checkpoint, so that it can go on.
    """

    reads_checkpoints = False

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = bars_on(console)
        self.unit, self.units = "", 0
        self.since = self.epoch_since = time.monotonic()

    def begin(self, title: str, epochs: int, steps: int, done: int, unit: str) -> None:
        self.unit, self.units = unit, 0
        self.since = self.epoch_since = time.monotonic()
        self.done, self.first, self.total = done, done, epochs * steps
        self.bar_task = self.bar.add_task(title, total=self.total, completed=done, rate="")
        self.bar.start()

    def step(self, units: int) -> None:
        self.units += units
        self.done += 1
        self.bar.update(self.bar_task, advance=1, rate=self._rate())
        if isinstance(self.console.file, Output) and self.console.file.lost:
            ask_to_stop()

    def epoch(self, event: Mapping[str, Any]) -> None:
        parts = [f"epoch {event['epoch']:3d}"]
        for split in ("train", "valid"):
            parts += [f"{split} {name.replace('_', ' ')} {value:.2f}" for name, value in event[split].items()][:1]
        line = "  ".join(parts) + ("  best" if event["best"] else "      ")
        self.note(f"{line}  {event['rate']:,.0f} {self.unit}/s, at most {self._left()} left")
        self.units, self.epoch_since = 0, time.monotonic()

    def note(self, text: str) -> None:
        # As a Text: brackets in a folder's name are no markup.
        self.console.print(Text(text), soft_wrap=True)

    def close(self) -> None:
        self.bar.stop()

    def _rate(self) -> str:
        """Of the epoch at hand, without the validations before it."""
        return f"{self.units / max(1e-9, time.monotonic() - self.epoch_since):,.0f} {self.unit}/s"

    def _left(self) -> str:
        seconds = (time.monotonic() - self.since) / max(1, self.done - self.first) * (self.total - self.done)
        return f"{seconds // 60:.0f}m{seconds % 60:02.0f}s"


def summary_writer() -> Any:
    """TensorBoard's class, or a refusal where the package is missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra('TensorBoard needs a package: pip install "porism[tensorboard]".') from error
    return SummaryWriter


class TensorBoardProgress(NoProgress):
    """Writes the curves where TensorBoard finds them."""

    def __init__(self, folder: Path) -> None:
        self.writer = summary_writer()(str(folder))

    def epoch(self, event: Mapping[str, Any]) -> None:
        for split in ("train", "valid"):
            for name, value in event[split].items():
                self.writer.add_scalar(f"{split}/{name}", value, event["epoch"])
        self.writer.add_scalar("learning_rate", event["learning_rate"], event["epoch"])

    def close(self) -> None:
        self.writer.close()


class ProgressGroup:
    """Several listeners as one."""

    def __init__(self, *listeners: Progress) -> None:
        self.listeners = listeners
        self.reads_checkpoints = any(progress.reads_checkpoints for progress in listeners)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self, title: str, epochs: int, steps: int, done: int, unit: str) -> None:
        for progress in self.listeners:
            progress.begin(title, epochs, steps, done, unit)

    def step(self, units: int) -> None:
        for progress in self.listeners:
            progress.step(units)

    def epoch(self, event: Mapping[str, Any]) -> None:
        for progress in self.listeners:
            progress.epoch(event)

    def note(self, text: str) -> None:
        for progress in self.listeners:
            progress.note(text)

    def close(self) -> None:
        for progress in self.listeners:
            progress.close()
