"""Writes the tables of benchmarks/README.md from what the benchmarks left in results/.

python benchmarks/tables.py            rewrite the tables
python benchmarks/tables.py --check    fail when they are not what results/ says
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

import architectures
import followed_gpu
import real_models
from readme import attention, choices, cost, images, language, layers, untuned, words
from readme.earlier import earlier
from sources import changes

HERE = Path(__file__).parent

TABLES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "counters": cost.counters,
    "counters_cuda": cost.counters_by_device,
    "real_models": lambda result: real_models.markdown(result).splitlines(),
    "architectures": architectures.markdown,
    "followed_gpu": followed_gpu.markdown,
    "roofline_arm": cost.roofline,
    "roofline_x86": cost.roofline,
    "roofline_cuda": cost.roofline,
    "roofline_bfloat16_cuda": cost.roofline,
    "attention_error": attention.attention_error,
    "attention_speed_arm": attention.attention_speed,
    "attention_speed_x86": attention.attention_speed,
    "series_gpu": attention.against_full,
    "hybrid_gpu": attention.against_full,
    "window_gpu": attention.window_gpu,
    "decoding_arm": attention.decoding,
    "decoding_x86": attention.decoding,
    "heads_arm": attention.heads,
    "heads_x86": attention.heads,
    "mechanism_arm": attention.mechanism,
    "mechanism_x86": attention.mechanism,
    "recurrent_gpu": layers.recurrent_gpu,
    "grid_arm": layers.grid,
    "grid_x86": layers.grid,
    "grid_cuda": layers.grid,
    "graphs_arm": layers.graphs,
    "graphs_x86": layers.graphs,
    "graphs_cuda": layers.graphs,
    "choices": choices.choices,
    "images_table": images.images_table,
    "words_arm": words.words,
    "words_x86": words.words,
    "words_gpu": words.words_gpu,
    "words_processes_x86": words.words_processes,
    "language_training_arm": language.language_training,
    "language_training_x86": language.language_training,
    "language_training_amx_x86": language.language_training,
    "precision_amx_x86": language.precision,
    "language_table": language.language_table,
    "language_attention": language.language_attention,
    "untuned": untuned.untuned,
}
"""The name of a result to the lines that README.md shows of it."""


def lines_of(make: Callable[[dict[str, Any]], list[str]], file: Path) -> list[str]:
    """The table of a result, and below it what has changed since it was measured."""
    if not file.exists():
        return ["*Not measured yet.*"]
    result = json.loads(file.read_text())
    changed = changes(result)
    return [*make(result), *(["", *changed] if changed else [])]


def written(text: str) -> str:
    """The text with every table between its two marks made anew."""
    for name, make in TABLES.items():
        file = HERE / "results" / f"{name}.json"
        text = _between(text, name, lines_of(make, file))
    results = {file.stem: json.loads(file.read_text()) for file in (HERE / "results").glob("*.json")}
    return _between(text, "earlier", earlier(results))


def _between(text: str, name: str, lines: list[str]) -> str:
    """The text with these lines between the two marks of a table."""
    start, end = f"<!-- {name} -->\n", "\n<!-- end -->"
    if text.count(start) != 1:
        raise SystemExit(f"README.md has {text.count(start)} sections for {name}, expected 1.")
    before, _, rest = text.partition(start)
    return before + start + "\n".join(lines) + end + rest.partition(end)[2]


def main(check: bool = False) -> None:
    """Rewrite or check the tables."""
    readme = HERE / "README.md"
    before = readme.read_text()
    after = written(before)
    if check and after != before:
        sys.exit("benchmarks/README.md is not what results/ says. Run python benchmarks/tables.py.")
    readme.write_text(after)


if __name__ == "__main__":
    tyro.cli(main)
