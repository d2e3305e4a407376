"""Writes the tables of benchmarks/README.md from what the benchmarks left in results/.

python benchmarks/tables.py            rewrite the tables
python benchmarks/tables.py --check    fail when they are not what results/ says
"""

import json
import sys
from pathlib import Path
from typing import Any

import tyro

import real_models

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


def attention_error(result: dict[str, Any]) -> list[str]:
    """Both errors at the longest text, how the hybrid fared at all of them, and where the series warned."""
    rows, longest = result["rows"], max(row["T"] for row in result["rows"])
    lines = [
        f"torch {result['versions']['torch']}, float64, heads of width {result['width']}, {result['seeds']} seeds."
    ]
    for kind in ("weights", "answer"):
        cells: dict[str, dict[str, str]] = {}
        for row in (row for row in rows if row["T"] == longest):
            numbers = " / ".join(f"{row[kind][name]:.2g}" for name in ("hybrid", "window", "series"))
            remark = "" if row["hybrid_is_closest"][kind] else " †"
            cells.setdefault(f"W = {row['W']}, order {row['order']}", {})[f"{row['deviation']:g}"] = numbers + remark
        lines += ["", *grid(f"{kind}, T = {longest}: hybrid / window / series", cells)]
    tally: dict[str, dict[str, str]] = {}
    for part in dict.fromkeys(row["T"] // row["W"] for row in rows):
        settings = [row["hybrid_is_closest"] for row in rows if row["T"] // row["W"] == part]
        for kind in ("weights", "answer"):
            holds = sum(setting[kind] for setting in settings)
            tally.setdefault(f"W = T / {part}", {})[kind] = f"{holds} of {len(settings)}"
    lengths = ", ".join(str(length) for length in dict.fromkeys(row["T"] for row in rows))
    lines += ["", *grid(f"settings in which the hybrid is closest, T = {lengths}", tally)]
    return [*lines, "", *series_warnings(result)]


def series_warnings(result: dict[str, Any]) -> list[str]:
    """The two neighbouring deviations between which the error passes the limit, and how many warnings were right."""
    inputs = result["watched"]
    cells: dict[str, dict[str, str]] = {}
    for one in inputs:
        setting = f"order {one['order']}, D = {one['D']}, {one['pattern']}"
        of_setting = [row for row in inputs if all(row[name] == one[name] for name in ("order", "D", "pattern", "T"))]
        below = max(row["deviation"] for row in of_setting if row["measured"] <= result["limit"])
        above = min(row["deviation"] for row in of_setting if row["measured"] > result["limit"])
        right = sum(row["rightly"] for row in of_setting)
        cell = f"{below:.2f} and {above:.2f}, {right} of {len(of_setting)} right"
        cells.setdefault(setting, {})[f"T = {one['T']}"] = cell
    return grid(f"the error passes {100 * result['limit']:.0f} % between deviations", cells)


def decoding(result: dict[str, Any]) -> list[str]:
    part, tokens = result["part"], result["sizes"]["T"]
    sizes = ", ".join(f"{letter} = {size}" for letter, size in result["sizes"].items())
    lines = [
        f"{machine(result)} float32, {sizes}, order 2.",
        "",
        f"| mechanism | µs a token, first {part} | second | last | last / second | bytes of state after {part} | "
        f"after {tokens:,} | difference to one pass, float32 | float64 |",
        f"|---|{'---:|' * 8}",
    ]
    for row in result["results"]:
        times = " | ".join(f"{row[part]:,.0f}" for part in ("first_us", "second_us", "last_us"))
        differences = " | ".join(f"{row['differences'][dtype]:.0e}" for dtype in ("float32", "float64"))
        states = f"{row['early_bytes']:,} | {row['last_bytes']:,}"
        lines.append(f"| {row['mechanism']} | {times} | {row['growth']:.2f} | {states} | {differences} |")
    return lines


def grid(corner: str, cells: dict[str, dict[str, str]]) -> list[str]:
    """A table of rows by name, each with the same columns by name."""
    columns = list(next(iter(cells.values())))
    rows = [f"| {name} | {' | '.join(row[column] for column in columns)} |" for name, row in cells.items()]
    return [f"| {corner} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}", *rows]


def mechanism(result: dict[str, Any]) -> list[str]:
    """What was chosen and what was best, case by case."""
    rows = result["results"]
    lines = [
        f"{machine(result)} Forward and backward, fp32. The best was chosen in {result['right']} of {len(rows)} cases; "
        f"at worst the choice took {result['worst']:.2f} times as long.",
        "",
        "| case | chosen | ms | best | ms | ratio |",
        "|---|---|---:|---|---:|---:|",
    ]
    for row in rows:
        took, best = (row["measured_ms"][name] for name in ("auto", row["best"]))
        lines.append(
            f"| {row['case']} | {row['chosen']} | {took:,.1f} | {row['best']} | {best:,.1f} | {row['ratio']:.2f} |"
        )
    return lines


TABLES = {
    "counters": counters,
    "real_models": lambda result: real_models.markdown(result).splitlines(),
    "roofline_cpu": roofline,
    "roofline_cuda": roofline,
    "roofline_cuda_bf16": roofline,
    "attention_error": attention_error,
    "decoding": decoding,
    "mechanism": mechanism,
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
