"""Language models: how fast they train, what they reach and what they cost."""

from itertools import combinations
from typing import Any

from porism.report.contest import LEAST_SEEDS
from porism.runs.statistics import SIGNIFICANCE, holm, interval, t_test
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
        *_by_default(result["parts"]),
    ]


def _by_default(parts: dict[str, Any]) -> list[str]:
    """Where both types were measured, what users of each side get who choose nothing: bf16 here, fp32 in torch."""
    rates = {(part["recipe"], part["precision"]): part["tokens_per_second"] for part in parts.values()}
    ratios = [
        f"{recipe} {rates[recipe, 'bf16']['porism']['median'] / rates[recipe, 'fp32']['plain']['median']:.3g}"
        for recipe in dict.fromkeys(recipe for recipe, _ in rates)
        if {(recipe, "bf16"), (recipe, "fp32")} <= rates.keys()
    ]
    if not ratios:
        return []
    return [
        "",
        "Unequal types, as each side is without a choice: Porism's bf16 over the plain loop's fp32 "
        f"{', '.join(ratios)}, of medians from different turns.",
    ]


def precision(result: dict[str, Any]) -> list[str]:
    parts = result["parts"].values()
    cells = {
        part["recipe"]: {
            "bf16, times faster": shown(part["times_faster"]),
            "auto takes": part["chosen"],
            **{f"{name}, ms a step": shown(found) for name, found in part["milliseconds"].items()},
        }
        for part in parts
    }
    # The time of what auto takes over that of what it leaves.
    lost = [part["times_faster"]["median"] ** (-1 if part["chosen"] == "bf16" else 1) for part in parts]
    right = sum(ratio <= 1 for ratio in lost)
    return [
        f"{measured_on(result)} {result['settings']['turns']} turns. {QUARTILES}. {right} of {len(lost)} "
        f"take the faster type; at worst a step takes {max(lost):.3g} times as long as in the other.",
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
    table = rows_and_columns("mean and deviation over seeds", cells)
    return [measured_on(result), "", *table, "", _decided({recipe: found[recipe] for recipe in cells})]


def _decided(found: dict[str, list[dict[str, Any]]]) -> str:
    """What the best on valid is better than, on test: as reports decide it, in pairs of seeds, of all pairs."""
    test = {recipe: {row["seed"]: row["perplexity"]["test"] for row in rows} for recipe, rows in found.items()}
    pairs = {
        (first, second): [test[second][seed] - lower for seed, lower in test[first].items() if seed in test[second]]
        for first, second in combinations(test, 2)
    }
    p_values = [1.0 if (p := t_test(leads)) is None else p for leads in pairs.values()]
    corrected = dict(zip(pairs, holm(p_values), strict=True))
    leader, *others = test
    better: list[str] = []
    open_: list[str] = []
    for other in others:
        leads = pairs[leader, other]
        lead = interval(leads)
        decided = len(leads) >= LEAST_SEEDS and lead.mean > 0 and corrected[leader, other] < SIGNIFICANCE
        told = f"{other} ({-lead.mean:+.1f}, 95 % interval {-lead.high:+.1f} to {-lead.low:+.1f})"
        (better if decided else open_).append(told)
    clauses = [f"is better than {', '.join(better)}"] if better else []
    clauses += [f"is neither better nor worse, as far as these seeds tell, than {', '.join(open_)}"] if open_ else []
    return (
        f"On test {leader}, the best on valid, {'; it '.join(clauses)}. In pairs of seeds, p-values corrected by "
        f"Holm's method for {len(pairs)} comparisons."
    )


def _effort(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {
        "seeds": str(len(rows)),
        "parameters": f"{rows[0]['parameters']:,}",
        "epochs": mean_and_deviation([row["epochs"] for row in rows], 0),
    }
