"""Language models: how fast they train, what they reach and what they cost."""

from typing import Any

from readme.attention import QUARTILES
from readme.place import measured_on, rows_and_columns, shown
from trained import by_recipe, mean_and_deviation

SPLITS = ("train", "valid", "test")


def language_training(result: dict[str, Any]) -> list[str]:
    settings = result["settings"]
    cells = {}
    for part in result["parts"].values():
        cells[f"{part['recipe']}, {part['precision']} on both sides"] = {
            "times faster than the best plain loop": shown(part["times_faster"]),
            "which": part["best_peer"],
            **{f"{name}, tokens/s": shown(rate) for name, rate in part["tokens_per_second"].items()},
            **{f"valid perplexity, {name}": f"{found:.1f}" for name, found in part["valid_perplexity"].items()},
        }
    units = "with" if result["hardware"].get("bf16_units") else "without"
    return [
        f"{measured_on(result)} A CPU {units} matrix units for bf16, {settings['threads']} threads, turns of "
        f"{settings['turn']} steps, {settings['optimizer']}. {QUARTILES}.",
        "",
        *rows_and_columns("recipe", cells),
    ]


def language_table(result: dict[str, Any]) -> list[str]:
    cells = {}
    for recipe, rows in by_recipe(result["rows"]).items():
        measured = {split: mean_and_deviation([row["perplexity"][split] for row in rows], 1) for split in SPLITS}
        published = {
            f"published {split}": f"{rows[0]['published'][split]:.1f}"
            for split in SPLITS
            if split in rows[0]["published"]
        }
        cells[recipe] = {**measured, **published, **_effort(rows)}
    return [measured_on(result), "", *rows_and_columns("mean and deviation over seeds", cells)]


def language_attention(result: dict[str, Any]) -> list[str]:
    """In the order of valid."""
    found = by_recipe(result["rows"])
    cells = {}
    for recipe in sorted(found, key=lambda name: sum(row["perplexity"]["valid"] for row in found[name])):
        rows = found[recipe]
        measured = {split: mean_and_deviation([row["perplexity"][split] for row in rows], 1) for split in SPLITS}
        cells[recipe] = {**measured, **_effort(rows), "FLOPs a token, forward": f"{rows[0]['flops']:,.0f}"}
    return [measured_on(result), "", *rows_and_columns("mean and deviation over seeds", cells)]


def _effort(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {
        "seeds": str(len(rows)),
        "parameters": f"{rows[0]['parameters']:,}",
        "epochs": mean_and_deviation([row["epochs"] for row in rows], 0),
    }
