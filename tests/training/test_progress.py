import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import TextIO, cast

import pytest
from rich.console import Console

from porism.errors import MissingExtra
from porism.report.table import table
from porism.runs.record import read_run
from porism.tasks.language.recipes import LanguageRecipe
from porism.tasks.language.task import Language
from porism.training.interrupt import Interrupt
from porism.training.output import Output
from porism.training.progress import ConsoleProgress, TensorBoardProgress
from porism.training.request import TrainingRequest
from porism.training.session import begin, complete

EVENT = {
    "epoch": 2,
    "learning_rate": 0.001,
    "rate": 1234.5,
    "train": {"perplexity": 99.5, "cross_entropy": 4.6},
    "valid": {"perplexity": 120.25, "cross_entropy": 4.79},
    "best": True,
}


def test_elsewhere_than_on_a_terminal_an_epoch_is_one_plain_line() -> None:
    paper = io.StringIO()
    progress = ConsoleProgress(Console(file=paper, width=200))
    progress.begin("language elman", epochs=4, steps=10, done=0, unit="tokens")
    for _ in range(20):
        progress.step(7)
    progress.epoch(EVENT)
    progress.note("something to know")
    progress.close()
    first, second = paper.getvalue().splitlines()
    assert first.startswith("epoch   2  train perplexity 99.50  valid perplexity 120.25  best")
    # The rate of the training alone, as it is counted there: this clock runs through validations too.
    assert "  1,234 tokens/s, at most" in first
    assert first.endswith("left")
    assert second == "something to know"


def test_the_rate_of_the_last_line_is_that_of_the_table_and_of_the_metrics(
    tiny: LanguageRecipe, text: str, tmp_path: Path
) -> None:
    paper, shown = io.StringIO(), io.StringIO()
    request = TrainingRequest(Language, tiny, source=text, device="cpu", seed=5, threads=1)
    found = complete(begin(request, tmp_path / "run"), ConsoleProgress(Console(file=paper, width=200)))
    Console(file=shown, width=200).print(table([read_run(tmp_path / "run")], width=200))
    lines = [line for line in paper.getvalue().splitlines() if line.startswith("epoch")]
    in_log = re.findall(r"([\d,]+) tokens/s", lines[-1])
    assert len(lines) == tiny.epochs
    assert in_log == [f"{found['tokens_per_second']:,.0f}"]
    (row,) = [line for line in shown.getvalue().splitlines() if line.strip().startswith(tiny.name)]
    assert in_log[0] in row.split()


@pytest.mark.parametrize("terminal", [False, True])
def test_brackets_are_no_markup(terminal: bool) -> None:
    paper = io.StringIO()
    progress = ConsoleProgress(Console(file=paper, width=80, force_terminal=terminal))
    progress.begin("language a[/b]", epochs=1, steps=1, done=0, unit="tokens")
    progress.step(7)
    progress.note("see a[/b] and [bold]c")
    progress.close()
    assert "see a[/b] and [bold]c\n" in paper.getvalue()


def test_a_training_of_which_nobody_reads_is_asked_to_stop() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return spare

    spare = os.open(os.devnull, os.O_WRONLY)
    console = Console(file=cast("TextIO", Output(Closed(), patient=True)), width=80)
    progress = ConsoleProgress(console)
    progress.begin("language elman", epochs=1, steps=2, done=0, unit="tokens")
    with contextlib.suppress(KeyboardInterrupt), Interrupt() as interrupt:
        progress.step(7)
        assert not interrupt.requested
        progress.note("something to know")
        progress.step(7)
        assert interrupt.requested
    os.close(spare)


def test_tensorboard_finds_the_curves(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason='needs pip install "porism[tensorboard]"')
    progress = TensorBoardProgress(tmp_path)
    progress.epoch(EVENT)
    progress.close()
    (events,) = tmp_path.iterdir()
    content = events.read_bytes()
    for curve in (b"train/perplexity", b"valid/cross_entropy", b"learning_rate"):
        assert curve in content


def test_without_tensorboard_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r'TensorBoard needs a package: pip install "porism\[tensorboard\]"\.'):
        TensorBoardProgress(tmp_path)
