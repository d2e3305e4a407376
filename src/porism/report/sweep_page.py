"""The report of a sweep: the setting that is chosen on valid, whether that is decided, and every trial.

Trials are judged on valid alone. Test is evaluated for the chosen setting only, after it was chosen.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup
from porism.report.contest import LEAST_SEEDS, Contest, contest, describe
from porism.report.document import refuse_foreign, write
from porism.report.seeds import SeedGroup
from porism.report.sweep_plots import plots
from porism.report.templates import render
from porism.runs.record import Epoch, RunRecord
from porism.runs.run import RunFacts
from porism.runs.statistics import interval
from porism.runs.sweep import SweepRecord, SweepTrial

MOST_COMPARED = 100
"""Settings that are compared in pairs. Of more the correction for so many pairs would leave nothing decided."""
VALID = "valid"


def setting_name(trial: SweepTrial) -> str:
    """
    >>> setting_name(trial)
    'trial 3 (hidden_size=200, learning_rate=0.001)'
    """
    fields = ", ".join(f"{name}={_plain(value)}" for name, value in trial.setting.items())
    return f"trial {trial.number}" + (f" ({fields})" if fields else "")


def decide(record: SweepRecord) -> Contest | None:
    """The settings compared on valid in pairs of seeds; None where there are not two, or too many of them."""
    done = record.ranked
    if not 1 < len(done) <= MOST_COMPARED:
        return None
    models, number = [], 0
    for trial in done:
        entries = []
        for seed, score in zip(record.seeds, trial.scores, strict=True):
            number += 1
            entries.append(Entry(number, f"trial {trial.number}", f"trial {trial.number}", _run(record, seed, score)))
        models.append(SeedGroup(f"trial {trial.number}", tuple(entries), trial.scores))
    everything = tuple(entry for model in models for entry in model.entries)
    group = RunGroup(
        record.task, record.source or "", record.metric, record.lower_is_better, VALID, "example", everything
    )
    return contest(group, models)


def _run(record: SweepRecord, seed: int, score: float) -> RunRecord:
    """A run as the contest needs it. The run itself may be on another machine."""
    facts = RunFacts(task=record.task, recipe="", seed=seed, device="", precision="", threads=1, fingerprint="")
    best = Epoch(epoch=1, valid={record.metric: score}, best=True)
    return RunRecord(Path(), facts, {}, epochs=(best,))


def conclusions(record: SweepRecord, tests: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """What the sweep allows to conclude, a sentence each.

    tests: what metrics.json says of each run of the chosen setting.
    """
    chosen = record.chosen
    if chosen is None or chosen.value is None:
        return [f"None of {len(record.trials)} trials has a result."]
    over = _over(len(chosen.scores))
    number = numbers.with_margin(*_mean(chosen.scores))
    level = [setting_name(other) for other in record.ranked if other is not chosen and other.value == chosen.value]
    beside = f", level with {', '.join(level)}" if level else ""
    sentences = [
        f"T{setting_name(chosen)[1:]} is best of {len(record.ranked)} on valid{beside}: {record.metric_name} {number} "
        f"{over}."
    ]
    if len(record.ranked) > MOST_COMPARED:
        sentences.append(f"Among {len(record.ranked)} settings it is not decided which is best: they are too many.")
    found = decide(record)
    if found is not None:
        described = describe(found.group, found.comparisons[0])
        sentences.append(described[0].upper() + described[1:])
        decided, others = sum(pair.decided for pair in found.comparisons), len(found.comparisons)
        takes = f", which takes {LEAST_SEEDS} seeds or more" if len(chosen.scores) < LEAST_SEEDS else ""
        if others > 1 and found.leader_is_best:
            sentences.append(f"It is decided to be better than each of the {others} other settings.")
        elif others > 1 and decided:
            sentences.append(f"It is decided to be better than {decided} of the {others} other settings.")
        elif others > 1:
            sentences.append(f"None of the {others} other settings is decided to be worse{takes}.")
    scores = [score for one in tests if (score := one["metrics"].get("test", {}).get(record.metric)) is not None]
    if scores:
        reached = numbers.with_margin(*_mean(scores))
        sentences.append(f"On test, for this setting: {record.metric_name} {reached} {_over(len(scores))}.")
    if lost := [trial for trial in record.trials if trial.outcome in ("diverged", "failed", "lost")]:
        sentences.append(f"Without a result: {', '.join(f'trial {trial.number} {trial.outcome}' for trial in lost)}.")
    return sentences


def write_sweep(
    record: SweepRecord, to: Path, command: str | None = None, tests: Sequence[Mapping[str, Any]] = ()
) -> Path:
    """The report of a sweep, written to a file."""
    refuse_foreign(to)
    page = render(
        "sweep.html",
        title=f"{record.task.capitalize()}: sweep over {', '.join(record.choices)}",
        record=record,
        conclusions=conclusions(record, tests),
        rows=_rows(record),
        plots=plots(record),
        tests=_tests(tests),
        command=command,
    )
    return write(page, to)


def _rows(record: SweepRecord) -> list[tuple[SweepTrial, list[str], str]]:
    """Every trial with its cells and its number on valid: those with a result, best first, then the others."""
    ranked = record.ranked
    others = [trial for trial in record.trials if trial not in ranked]
    return [
        (
            trial,
            [_plain(trial.setting[name]) if name in trial.setting else numbers.MISSING for name in record.choices],
            numbers.with_margin(*_mean(trial.scores)) if trial.scores else "",
        )
        for trial in (*ranked, *others)
    ]


def _tests(tests: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Split to metric to its mean over the chosen setting's runs."""
    splits = tests[0]["metrics"] if tests else {}
    return {
        split: {
            name: numbers.with_margin(*_mean([one["metrics"][split][name] for one in tests])) for name in splits[split]
        }
        for split in splits
    }


def _mean(scores: Sequence[float]) -> tuple[float, float | None]:
    found = interval(scores)
    return found.mean, found.margin


def _over(seeds: int) -> str:
    return "from one seed" if seeds == 1 else f"over {seeds} seeds (95 % interval of the mean)"


def _plain(value: Any) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
