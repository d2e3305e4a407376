"""Vectors of words: how fast they train, and what they are worth."""

from typing import Any

from readme.place import machine


def words(result: dict[str, Any]) -> list[str]:
    sizes = result["sizes"]
    lines = [
        f"{machine(result)} gensim {result['versions']['gensim']}. {sizes['words']:,} words, {sizes['vocabulary']:,} "
        "of them different.",
        "",
        "| width | gensim, words/s | Porism | times faster | the same bits on every run | times slower for that |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["speed"]:
        rates = row["words_per_second"]
        lines.append(
            f"| {row['width']} | {rates['peer']:,} | {rates['ours']:,} | {row['speed_up']:.1f} | "
            f"{rates['ours, deterministic']:,} | {row['slow_down']:.1f} |"
        )
    ways = [way for way in next(iter(result["quality"].values())) if way != "pairs"]
    titles = {
        "peer": "gensim",
        "ours": "Porism",
        "ours, deterministic": "the same bits",
        "peer, our rate": "gensim at our rate",
    }
    lines += ["", f"| after {sizes['epochs']} passes | pairs | " + " | ".join(titles[way] for way in ways) + " |"]
    lines.append("|---|---:|" + "---:|" * len(ways))
    for name, found in result["quality"].items():
        lines.append(f"| {name} | {found['pairs']} | " + " | ".join(f"{found[way]:.3f}" for way in ways) + " |")
    return lines


def words_gpu(result: dict[str, Any]) -> list[str]:
    sizes = result["sizes"]
    names = list(result["rows"][0]["quality"])
    lines = [
        f"{machine(result)} {sizes['words']:,} words, {sizes['epochs']} passes, {sizes['seeds']} seeds.",
        "",
        "| width | words/s | " + " | ".join(names) + " |",
        "|---:|---:|" + "---:|" * len(names),
    ]
    for row in result["rows"]:
        quality = " | ".join(f"{row['quality'][name]:.3f}" for name in names)
        lines.append(f"| {row['width']} | {row['words_per_second']:,} | {quality} |")
    return lines
