"""Writes the tables of benchmarks/README.md from what the benchmarks left in results/.

python benchmarks/tables.py            rewrite the tables
python benchmarks/tables.py --check    fail when they are not what results/ says
"""

import json
import re
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
        "| recipe | products in | Porism, tokens/s | plain loop, tokens/s | ratio | valid perplexity after one epoch |"
    ]
    lines.append("|---|---|---:|---:|---:|---:|")
    for found in result["results"]:
        quality = f"{found['valid_perplexity']:.1f}, plain {found['plain_valid_perplexity']:.1f}"
        lines.append(
            f"| {found['recipe']} | {found['precision']} | {found['tokens_per_second']:,} | "
            f"{found['plain_tokens_per_second']:,} | {found['ratio']:.2f} | {quality} |"
        )
    return lines


def language_table(result: dict[str, Any]) -> list[str]:
    lines = ["| recipe | parameters | epochs | seconds | train | valid | test | published test |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in result["rows"]:
        measured = " | ".join(f"{row['perplexity'][split]:.1f}" for split in ("train", "valid", "test"))
        published = f"{row['published']['test']:.1f}" if row["published"] else ""
        effort = f"{row['parameters']:,} | {row['epochs']} | {row['seconds']:.1f}"
        lines.append(f"| {row['recipe']} | {effort} | {measured} | {published} |")
    return lines


TABLES = {"language_training": language_training, "language_table": language_table}


def written(text: str) -> str:
    """The text with every table between its two marks made anew."""
    for name, make in TABLES.items():
        result = json.loads((HERE / "results" / f"{name}.json").read_text())
        table = "\n".join([machine(result), "", *make(result)])
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text, count = re.subn(pattern, lambda found, table=table: f"{found[1]}{table}{found[2]}", text, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"README.md has {count} places for {name}, wanted 1.")
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
