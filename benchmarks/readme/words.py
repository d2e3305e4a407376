"""Vectors of words: how fast they train, and what they are worth."""

from itertools import product
from typing import Any

from porism.report.contest import LEAST_SEEDS
from porism.runs.statistics import SIGNIFICANCE, holm, t_test
from readme.attention import QUARTILES
from readme.place import measured_on, rows_and_columns, shown
from trained import mean_and_deviation
from turns import spread


def words(result: dict[str, Any]) -> list[str]:
    settings, parts = result["settings"], result["parts"]
    speeds = {
        str(part["width"]): {
            "times faster, both from text": shown(part["times_faster"]),
            "from numbered words": shown(part["times_faster_from_numbers"]),
            "times slower for the same bits on every run": shown(part["same_bits_slower"]),
            **{f"{way}, words/s": shown(rate) for way, rate in part["words_per_second"].items()},
        }
        for name, part in parts.items()
        if name.startswith("speed")
    }
    lines = [
        f"{measured_on(result)} {settings['words']:,} words, {settings['vocabulary']:,} of them different, "
        f"{settings['threads']} threads, {settings['turns']} turns. {QUARTILES}.",
        "",
        *rows_and_columns("width", speeds),
    ]
    seeds = [part for name, part in parts.items() if name.startswith("quality")]
    if not seeds:
        return lines
    cells = {
        f"{name}, {seeds[0][name]['pairs']} pairs": {
            way: mean_and_deviation([seed[name][way] for seed in seeds], 3) for way in seeds[0][name] if way != "pairs"
        }
        for name in seeds[0]
    }
    title = f"after {settings['epochs']} passes, mean and deviation over {len(seeds)} seeds"
    return [*lines, "", *rows_and_columns(title, cells)]


def words_gpu(result: dict[str, Any]) -> list[str]:
    settings, seeds = result["settings"], list(result["parts"].values())
    cells = {}
    for width in seeds[0]:
        rates = [rate for seed in seeds for rate in seed[width]["words_per_second"]]
        cells[width] = {"words/s": shown(spread(rates))} | {
            name: mean_and_deviation([seed[width]["quality"][name] for seed in seeds], 3)
            for name in seeds[0][width]["quality"]
        }
    return [
        f"{measured_on(result)} {settings['words']:,} words, {settings['epochs']} passes, {len(seeds)} seeds. "
        f"{QUARTILES} of speed, mean and deviation of quality.",
        "",
        *rows_and_columns("", cells),
    ]


def words_processes(result: dict[str, Any]) -> list[str]:
    """A row for each number of processes and interval; what differs from the first row is told below."""
    runs: dict[str, list[dict[str, float]]] = {}
    for name, scores in result["parts"].items():
        runs.setdefault(name.rpartition(", seed ")[0], []).append(scores)
    cells = {
        name: {score: mean_and_deviation([seed[score] for seed in seeds], 3) for score in seeds[0]}
        for name, seeds in runs.items()
    }
    counts = sorted({len(seeds) for seeds in runs.values()})
    title = f"on test, mean and deviation over {' or '.join(map(str, counts))} seeds"
    return [measured_on(result), "", *rows_and_columns(title, cells), "", _decided(runs)]


def _decided(runs: dict[str, list[dict[str, float]]]) -> str:
    """Which scores are decided to be others than those of the first row."""
    (first, plain), *others = runs.items()
    if min(map(len, runs.values())) < LEAST_SEEDS:
        return f"Whether they differ from {first} is not decided: that takes {LEAST_SEEDS} seeds."
    pairs = list(product(others, plain[0]))
    p_values = [t_test([a[score] - b[score] for a, b in zip(seeds, plain, strict=True)]) for (_, seeds), score in pairs]
    corrected = holm([p for p in p_values if p is not None])
    differ: dict[str, list[str]] = {}
    for ((name, _), score), p in zip(pairs, corrected, strict=True):
        if p < SIGNIFICANCE:
            differ.setdefault(name, []).append(score)
    found = "; ".join(f"{name} in {', '.join(scores)}" for name, scores in differ.items()) or "none"
    return (
        f"Decided to differ from {first}, in pairs of seeds and after Holm's correction for {len(pairs)} comparisons: "
        f"{found}."
    )
