"""Image classifiers: what they reach."""

from typing import Any

from readme.place import machine


def images_table(result: dict[str, Any]) -> list[str]:
    lines = [
        machine(result),
        "",
        "| recipe | parameters | epochs | seconds | train | valid | test |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        measured = " | ".join(f"{row['accuracy'][split]:.4f}" for split in ("train", "valid", "test"))
        lines.append(
            f"| {row['recipe']} | {row['parameters']:,} | {row['epochs']} | {row['seconds']:.1f} | {measured} |"
        )
    return lines
