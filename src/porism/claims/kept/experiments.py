"""How each kept result is made: recipes that `porism compare` trains, or times that are taken.

>>> EXPERIMENTS["rate-question"].command
'porism compare language rate-question --data ptb --seeds 5'
"""

import shlex
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from porism.claims.kept.result import KeptResult, KeptRun
from porism.claims.kept.rulings import SEEDS
from porism.claims.kept.timing import attention_by_heads, attention_by_length
from porism.errors import ClaimError
from porism.runs.record import RunRecord, finite, read_run
from porism.tasks.images.recipes import PUBLISHED_LEARNING_RATE
from porism.tasks.language.recipes import TABLE, WIDE

EARLY = 5
"""Epochs whose losses on valid are kept one by one."""
LOSSES = ("loss", "cross_entropy")
MANY_SEEDS = 20
"""Where losses of two models, seed by seed, differ by little."""


@dataclass(frozen=True)
class ComparedRecipes:
    """Recipes, or one experiment, as `porism compare` trains them."""

    task: str
    recipes: tuple[str, ...]
    data: str = ""
    seeds: int = SEEDS
    assignments: tuple[str, ...] = ()
    first_seed: int | None = None

    @property
    def words(self) -> list[str]:
        """The command line."""
        settings = [word for assignment in self.assignments for word in ("--set", assignment)]
        data = ["--data", self.data] if self.data else []
        first = [] if self.first_seed is None else ["--seed", str(self.first_seed)]
        return ["compare", self.task, *self.recipes, *settings, *data, "--seeds", str(self.seeds), *first]


@dataclass(frozen=True)
class KeptExperiment:
    """What makes a kept result: comparisons one after the other, or a function that takes times."""

    name: str
    comparisons: tuple[ComparedRecipes, ...] = ()
    timed: Callable[[], Iterable[KeptRun]] | None = None

    @property
    def command(self) -> str:
        if self.timed is not None:
            return f"porism check claims --rerun {self.name}"
        return " && ".join(shlex.join(["porism", *comparison.words]) for comparison in self.comparisons)

    @property
    def data(self) -> str:
        return self.comparisons[0].data if self.comparisons else ""


def _compared(
    name: str,
    task: str,
    recipes: Sequence[str],
    data: str = "",
    assignments: tuple[str, ...] = (),
    seeds: int = SEEDS,
    first_seed: int | None = None,
) -> KeptExperiment:
    return KeptExperiment(name, (ComparedRecipes(task, tuple(recipes), data, seeds, assignments, first_seed),))


EXPERIMENTS: Mapping[str, KeptExperiment] = {
    experiment.name: experiment
    for experiment in (
        _compared("language-table", "language", tuple(TABLE), "ptb"),
        _compared("language-widths", "language", tuple(WIDE), "ptb"),
        _compared("steps-question", "language", ("steps-question",), "ptb"),
        _compared("rate-question", "language", ("rate-question",), "ptb"),
        _compared("pooling-question", "images", ("pooling-question",), "fashion-mnist"),
        _compared(
            "octmnist-accuracies",
            "images",
            ("pooled", "strided"),
            "octmnist",
            ("test_subset=as-train", f"learning_rate={PUBLISHED_LEARNING_RATE}"),
        ),
        # At the rate that suits both nets best on valid of pooling-question. Its five seeds said how many are needed,
        # so they are not among these: gaps that differ by 0.0011, with a deviation of 0.0018, are told from equal ones
        # nine times in ten by 29 pairs; 45 do it four times in five where the difference is two thirds of that.
        _compared(
            "pooling-gap",
            "images",
            ("pooled", "strided"),
            "fashion-mnist",
            (f"learning_rate={PUBLISHED_LEARNING_RATE}",),
            seeds=45,
            first_seed=SEEDS + 1,
        ),
        _compared("grid-question", "images", ("grid-question",), "fashion-mnist"),
        # The recipes' epochs and batches are for the embedded digits. In fp32: a scan of 784 pixels adds up what bf16
        # rounds off, a convolution does not.
        _compared(
            "completion-question",
            "images",
            ("completion-question",),
            "fashion-mnist",
            ("epochs=10", "batch_size=128", "precision=fp32"),
        ),
        # The recipes' epochs are for the embedded recordings: after as many of AN4 no decoder has learned anything.
        _compared("decoder-question", "speech", ("decoder-question",), "an4", ("epochs=60",), MANY_SEEDS),
        _compared("ljspeech-decoders", "speech", ("lstm-ljspeech", "attention-ljspeech"), "ljspeech"),
        KeptExperiment("attention-speed", timed=attention_by_length),
        KeptExperiment("heads-timing", timed=attention_by_heads),
    )
}
"""By the name of the result."""


def kept_of_runs(experiment: KeptExperiment, folders: Sequence[Path]) -> KeptResult:
    """The kept result of finished runs: what differs between their recipes, and what came out of each."""
    records = [read_run(folder) for folder in folders]
    if not records:
        raise ClaimError(f"kept result {experiment.name}: no run was given. Name the folders of finished runs.")
    unfinished = [record.path for record in records if record.metrics is None]
    if unfinished:
        raise ClaimError(f"{unfinished[0]} is not finished. Finish it with porism train --resume {unfinished[0]}.")
    names = [
        name for name in records[0].fields if len({str(record.fields.get(name)) for record in records}) > 1
    ]  # fmt: skip
    kept = [name for name in names if name not in ("name", "description")]
    first = records[0].metrics
    assert first is not None
    return KeptResult(
        experiment.name,
        experiment.command,
        experiment.data,
        first.hardware,
        first.versions,
        tuple(_kept_run(record, kept) for record in records),
    )


def _kept_run(record: RunRecord, names: Sequence[str]) -> KeptRun:
    metrics = record.metrics
    assert metrics is not None
    found = {f"{split}.{name}": value for split, scores in metrics.metrics.items() for name, value in scores.items()}
    for epoch in record.epochs[:EARLY]:
        found |= {f"valid.{name}@{epoch.epoch}": value for name, value in epoch.valid.items() if name in LOSSES}
    best = record.best
    found |= {
        "epochs": record.epoch,
        "best_epoch": best.epoch if best else None,
        # The median: the first epoch starts the device and compiles.
        "epoch_seconds": statistics.median([epoch.seconds for epoch in record.epochs]) if record.epochs else None,
        "parameters": metrics.parameters,
    }
    numbers = {name: float(value) for name, value in found.items() if finite(value) is not None and value is not None}
    settings = {name: record.fields[name] for name in names if isinstance(record.fields[name], str | int | float)}
    return KeptRun({"recipe": record.facts.recipe, **settings}, record.facts.seed, numbers)
