"""Tables of results that were made under the first rules: no spread, peers not at their best, one seed.

Each says so above itself. When a benchmark is run anew its table comes from the other files of this folder; when the
last one is, this file goes.
"""

from typing import Any

from readme.place import measured_on


def language_attention(result: dict[str, Any]) -> list[str]:
    lines = [
        measured_on(result),
        "",
        "| recipe | parameters | FLOPs a token, forward | tokens/s | seconds | train | valid | test |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(result["rows"], key=lambda row: float(row["perplexity"]["valid"])):
        measured = " | ".join(f"{row['perplexity'][split]:.1f}" for split in ("train", "valid", "test"))
        effort = f"{row['parameters']:,} | {row['flops']:,.0f} | {row['tokens_per_second']:,.0f} | {row['seconds']:.1f}"
        lines.append(f"| {row['recipe']} | {effort} | {measured} |")
    return lines


OLD = {"language_attention": (language_attention, "one seed")}
"""Of each result the printer, and what a reader must know of it."""


def old_table(name: str, result: dict[str, Any]) -> list[str]:
    make, reason = OLD[name]
    return [f"*Made under earlier rules, to be measured anew: {reason}.*", "", *make(result)]
