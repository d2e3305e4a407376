"""Language models: how fast they train, what they reach and what they cost."""

from typing import Any

from readme.place import machine


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
        "| recipe | parameters | epochs | seconds | train | valid | test | published train | valid | test |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        splits = ("train", "valid", "test")
        measured = " | ".join(f"{row['perplexity'][split]:.1f}" for split in splits)
        published = " | ".join(
            f"{row['published'][split]:.1f}" if split in row["published"] else "" for split in splits
        )
        effort = f"{row['parameters']:,} | {row['epochs']} | {row['seconds']:.1f}"
        lines.append(f"| {row['recipe']} | {effort} | {measured} | {published} |")
    return lines


def language_attention(result: dict[str, Any]) -> list[str]:
    lines = [
        machine(result),
        "",
        "| recipe | parameters | FLOPs a token, forward | tokens/s | seconds | train | valid | test |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        measured = " | ".join(f"{row['perplexity'][split]:.1f}" for split in ("train", "valid", "test"))
        effort = f"{row['parameters']:,} | {row['flops']:,.0f} | {row['tokens_per_second']:,.0f} | {row['seconds']:.1f}"
        lines.append(f"| {row['recipe']} | {effort} | {measured} |")
    return lines
