"""Vectors of words: how fast they train, and what they are worth."""

from typing import Any

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
