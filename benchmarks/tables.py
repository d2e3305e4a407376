"""Writes the tables of benchmarks/README.md from what the benchmarks left in results/.

python benchmarks/tables.py            rewrite the tables
python benchmarks/tables.py --check    fail when they are not what results/ says
"""

import json
import sys
from pathlib import Path
from typing import Any

import tyro

HERE = Path(__file__).parent


def machine(result: dict[str, Any]) -> str:
    """Where it was measured, in words."""
    hardware, versions = result["hardware"], result["versions"]
    device = hardware["gpu"] or f"{hardware['threads']} threads of {hardware['cpu']}"
    return f"Measured on {device}, torch {versions['torch']}."


def language_training(result: dict[str, Any]) -> list[str]:
    lines = [
        machine(result),
        "",
        "| recipe | products in | Porism, tokens/s | plain loop, tokens/s | ratio | valid perplexity after one epoch |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for found in result["results"]:
        quality = f"{found['valid_perplexity']:.1f}, plain {found['plain_valid_perplexity']:.1f}"
        lines.append(
            f"| {found['recipe']} | {found['precision']} | {found['tokens_per_second']:,} | "
            f"{found['plain_tokens_per_second']:,} | {found['ratio']:.2f} | {quality} |"
        )
    return lines


def language_table(result: dict[str, Any]) -> list[str]:
    lines = [
        machine(result),
        "",
        "| recipe | parameters | epochs | seconds | train | valid | test | published test |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        measured = " | ".join(f"{row['perplexity'][split]:.1f}" for split in ("train", "valid", "test"))
        published = f"{row['published']['test']:.1f}" if row["published"] else ""
        effort = f"{row['parameters']:,} | {row['epochs']} | {row['seconds']:.1f}"
        lines.append(f"| {row['recipe']} | {effort} | {measured} | {published} |")
    return lines


def counters(result: dict[str, Any]) -> list[str]:
    """The tally first, then every case: the forward pass by all counters, the backward pass by those that count it."""
    rows, tally = result["rows"], result["tally"]
    forward, backward = (list(rows[0][passed]["ratios"]) for passed in ("forward", "backward"))
    packages = ", ".join(f"{name} {version}" for name, version in result["versions"].items() if name != "porism")
    lines = [
        f"Counted with {packages}.",
        "",
        f"| counter, {len(rows)} cases | forward exact | off by two times or more | backward exact | off |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in forward:
        there, back = tally["forward"][name], tally["backward"].get(name, {"exact": "-", "off_by_two": "-"})
        lines.append(f"| {name} | {there['exact']} | {there['off_by_two']} | {back['exact']} | {back['off_by_two']} |")
    heads = ["case", "forward", *forward, "backward", *(f"{name}, back" for name in backward)]
    lines += ["", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in rows:
        cells = [
            cell
            for passed in ("forward", "backward")
            for cell in (row[passed]["formula"], *row[passed]["ratios"].values())
        ]
        lines.append(f"| {' | '.join([row['case'], *cells])} |")
    return lines


def roofline(result: dict[str, Any]) -> list[str]:
    """Predicted over measured time of every layer, a column a size."""
    sizes = list(dict.fromkeys(found["size"] for found in result["results"]))
    layers: dict[str, dict[str, dict[str, Any]]] = {}
    for found in result["results"]:
        layers.setdefault(found["layer"], {})[found["size"]] = found
    lines = [
        f"{machine(result)} {result['dtype']}, median error {100 * result['median_error']:.1f} %, "
        f"every case within {result['worst_factor']:.2f} times.",
        "",
        f"| predicted / measured (bound by) | {' | '.join(sizes)} |",
        f"|---|{'---:|' * len(sizes)}",
    ]
    for layer, by_size in layers.items():
        cells = [f"{by_size[size]['ratio']:.2f} ({by_size[size]['bound']})" for size in sizes]
        lines.append(f"| {layer} | {' | '.join(cells)} |")
    return lines


TABLES = {
    "counters": counters,
    "roofline_cuda": roofline,
    "roofline_cuda_bf16": roofline,
    "language_training": language_training,
    "language_table": language_table,
}


def written(text: str) -> str:
    """The text with every table between its two marks made anew."""
    for name, make in TABLES.items():
        result = json.loads((HERE / "results" / f"{name}.json").read_text())
        start, end = f"<!-- {name} -->\n", "\n<!-- end -->"
        if text.count(start) != 1:
            raise SystemExit(f"README.md has {text.count(start)} places for {name}, wanted 1.")
        before, _, rest = text.partition(start)
        text = before + start + "\n".join(make(result)) + end + rest.partition(end)[2]
    return text


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
