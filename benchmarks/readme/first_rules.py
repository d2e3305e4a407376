"""Tables of results that were made under the first rules: no spread, peers not at their best, one seed.

Each says so above itself. When a benchmark is run anew its table comes from the other files of this folder; when the
last one is, this file goes.
"""

from typing import Any

from readme.place import measured_on, rows_and_columns


def decoding(result: dict[str, Any]) -> list[str]:
    part, tokens = result["part"], result["sizes"]["T"]
    sizes = ", ".join(f"{letter} = {size}" for letter, size in result["sizes"].items())
    lines = [
        f"{measured_on(result)} float32, {sizes}, order 2.",
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


def mechanism(result: dict[str, Any]) -> list[str]:
    """What was chosen and what was best, case by case."""
    rows = result["results"]
    lines = [
        f"{measured_on(result)} Forward and backward, fp32. The best was chosen in {result['right']} of {len(rows)} "
        f"cases; at worst the choice took {result['worst']:.2f} times as long.",
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


def attention_speed(result: dict[str, Any]) -> list[str]:
    names = [key.removesuffix("_ms") for key in result["results"][0] if key.endswith("_ms")]
    memory = ", ".join(f"{name} {found['peak_bytes'] / 2**30:.2f} GiB" for name, found in result["memory"].items())
    lines = [
        f"{measured_on(result)} At T = {result['longest']:,} a pass forward and backward peaks at: {memory}.",
        "",
        f"| T | {' | '.join(f'{name}, ms' for name in names)} | dense mask / window | "
        "local-attention / window | full / series |",
        f"|---:|{'---:|' * (len(names) + 3)}",
    ]
    ratios = ("window_over_dense_mask", "window_over_local_attention", "series_over_full")
    for row in result["results"]:
        times = " | ".join(f"{row[f'{name}_ms']:,.1f}" for name in names)
        lines.append(f"| {row['T']:,} | {times} | {' | '.join(f'{row.get(ratio, 0):.1f}' for ratio in ratios)} |")
    return lines


def series_gpu(result: dict[str, Any]) -> list[str]:
    """Times at every length and width, and from which length on each width beats full attention."""
    rows = result["results"]
    ways = [name for name in rows[0] if name != "T"]
    errors = ", ".join(f"{number} {max(by_width.values()):.1e}" for number, by_width in result["errors"].items())
    steps = ", ".join(f"D = {width} {time:.0f} µs" for width, time in result["decoding_us"].items())
    lines = [
        f"{measured_on(result)} bfloat16, causal, {result['heads']} heads, values of width {result['values']}, "
        f"{result['tokens']:,} tokens in all, milliseconds. Largest error against float64: {errors}. "
        f"One decoded token for a batch of 64: {steps}.",
        "",
        f"| T | {' | '.join(f'{way}, forward | with backward' for way in ways)} |",
        f"|---:|{'---:|---:|' * len(ways)}",
    ]
    for row in rows:
        times = " | ".join(f"{row[way]['forward_ms']:.2f} | {row[way]['both_ms']:.2f}" for way in ways)
        lines.append(f"| {row['T']:,} | {times} |")
    return [*lines, "", *_wins(rows, ways[0], ways[1:])]


def _wins(rows: list[dict[str, Any]], peer: str, ways: list[str]) -> list[str]:
    """The shortest length measured from which on a way is faster than its peer at all lengths, in both passes."""
    cells: dict[str, dict[str, str]] = {}
    longest = rows[-1]
    for way in ways:
        slower = [row["T"] for row in rows if row[way]["both_ms"] >= row[peer]["both_ms"]]
        faster = [row["T"] for row in rows if row["T"] > max(slower, default=0)]
        factor = longest[peer]["both_ms"] / longest[way]["both_ms"]
        cells[way] = {
            f"beats {peer} attention from T on": f"{faster[0]:,}" if faster else "never",
            f"factor at T = {longest['T']:,}": f"{factor:.1f}",
        }
    return rows_and_columns("forward with backward", cells)


def window_gpu(result: dict[str, Any]) -> list[str]:
    rows = result["results"]
    ways = [name for name, times in rows[0].items() if isinstance(times, dict)]
    errors = ", ".join(f"{number} {error:.1e}" for number, error in result["errors"].items())
    lines = [
        f"{measured_on(result)} bfloat16, {result['heads']} heads of width {result['width']}, {result['tokens']:,} "
        f"tokens in all, milliseconds. Largest error against float64: {errors}.",
        "",
        f"| T | W | {' | '.join(f'{way}, forward | with backward' for way in ways)} | full / window |",
        f"|---:|---:|{'---:|---:|' * len(ways)}---:|",
    ]
    for row in rows:
        times = " | ".join(f"{row[way]['forward_ms']:.2f} | {row[way]['both_ms']:.2f}" for way in ways)
        factor = row["full"]["both_ms"] / row["window"]["both_ms"]
        lines.append(f"| {row['T']:,} | {row['W']:,} | {times} | {factor:.1f} |")
    return lines


def heads(result: dict[str, Any]) -> list[str]:
    """Milliseconds by number of heads, and how they compare with one head."""
    lines = [
        measured_on(result),
        f"{result['dtype']}, batch {result['batch']}, width {result['width']}, causal; ms forward / with backward.",
        "",
        "| T | heads | FLOPs, forward | exponentials | Porism | to one head | nn.MultiheadAttention | to one head |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    single = {row["T"]: row for row in result["rows"] if row["heads"] == 1}
    for row in result["rows"]:
        cells = []
        for name in ("porism", "torch"):
            forward, both = (row[f"{name}_{kind}_ms"] for kind in ("forward", "with_backward"))
            cells += [f"{forward:.1f} / {both:.1f}", f"{both / single[row['T']][f'{name}_with_backward_ms']:.2f}"]
        work = f"{row['flops']:,} | {row['exponentials']:,}"
        lines.append(f"| {row['T']:,} | {row['heads']} | {work} | {' | '.join(cells)} |")
    return lines


def recurrent_gpu(result: dict[str, Any]) -> list[str]:
    """Times by size and layer, of eager calls and captured in a CUDA graph."""
    lines = [
        f"{measured_on(result)} Milliseconds; error is the largest against float64, of states and gradients over 64 "
        "steps.",
        "",
        "| B, T, H | type | layer | kernel | error "
        "| eager, forward | with backward | captured, forward | with backward |",
        "|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in result["results"]:
        error = f"{row['error']:.0e}" if "error" in row else ""
        times = " | ".join(
            f"{row[f'{mode}{part}_ms']:.3f}" for mode in ("", "captured_") for part in ("forward", "both")
        )
        size = f"{row['B']}, {row['T']:,}, {row['H']} | {row['dtype']}"
        lines.append(f"| {size} | {row['layer']} | {row['kernel']} | {error} | {times} |")
    return lines


def grid(result: dict[str, Any]) -> list[str]:
    """Times by size, a diagonal's share, and how many times faster than a loop over pixels where that was timed."""
    lines = [
        f"{measured_on(result)} Forward and backward, milliseconds.",
        "",
        "| image | batch | hidden | type | by diagonals | a diagonal | pixel by pixel | times faster |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for row in result["results"]:
        loop = f"{row['pixels_ms']:,.1f} | {row['times_faster']:.1f}" if "pixels_ms" in row else " | "
        size = f"{row['Y']} x {row['X']} | {row['B']} | {row['H']} | {row['dtype']}"
        lines.append(f"| {size} | {row['diagonals_ms']:,.2f} | {row['ms_a_diagonal']:.3f} | {loop} |")
    return lines


def graphs(result: dict[str, Any]) -> list[str]:
    """Both trainings on Cora, then an epoch on the large graph where one was measured."""
    cora = result["cora"]
    lines = [
        f"{measured_on(result)} {cora['epochs']} epochs on Cora, {cora['turns']} seeds each.",
        "",
        "| Cora | seconds | test accuracy | deviation |",
        "|---|---:|---:|---:|",
    ]
    for way, name in (("ours", "Porism"), ("peer", "PyTorch Geometric")):
        if way in cora:
            found = cora[way]
            lines.append(f"| {name} | {found['seconds']:.3f} | {found['accuracy']:.3f} | {found['deviation']:.3f} |")
    if "times_faster" in cora:
        lines += ["", f"{cora['times_faster']:.1f} times faster."]
    return [*lines, *_large(result["large"])] if "large" in result else lines


def _large(large: dict[str, Any]) -> list[str]:
    sizes = large["sizes"]
    lines = [
        "",
        f"| {sizes['N']:,} nodes, {sizes['E']:,} edges, {sizes['D']} features | seconds an epoch | peak, GB | "
        "times faster than the fastest peer | memory of the smallest peer |",
        "|---|---:|---:|---:|---:|",
    ]
    for way, found in large["ways"].items():
        compared = large["compared"].get(way)
        ratios = f"{compared['times_faster']:.2f} | {compared['memory_of_smallest_peer']:.2f}" if compared else " | "
        lines.append(f"| {way} | {found['seconds']:.2f} | {found['peak_bytes'] / 1e9:.2f} | {ratios} |")
    return lines


def images_table(result: dict[str, Any]) -> list[str]:
    lines = [
        measured_on(result),
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


def words(result: dict[str, Any]) -> list[str]:
    sizes = result["sizes"]
    lines = [
        f"{measured_on(result)} {sizes['words']:,} words, {sizes['vocabulary']:,} of them different.",
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
        f"{measured_on(result)} {sizes['words']:,} words, {sizes['epochs']} passes, {sizes['seeds']} seeds.",
        "",
        "| width | words/s | " + " | ".join(names) + " |",
        "|---:|---:|" + "---:|" * len(names),
    ]
    for row in result["rows"]:
        quality = " | ".join(f"{row['quality'][name]:.3f}" for name in names)
        lines.append(f"| {row['width']} | {row['words_per_second']:,} | {quality} |")
    return lines


def language_training(result: dict[str, Any]) -> list[str]:
    lines = [
        measured_on(result),
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
        measured_on(result),
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
        measured_on(result),
        "",
        "| recipe | parameters | FLOPs a token, forward | tokens/s | seconds | train | valid | test |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        measured = " | ".join(f"{row['perplexity'][split]:.1f}" for split in ("train", "valid", "test"))
        effort = f"{row['parameters']:,} | {row['flops']:,.0f} | {row['tokens_per_second']:,.0f} | {row['seconds']:.1f}"
        lines.append(f"| {row['recipe']} | {effort} | {measured} |")
    return lines


OLD = {
    "attention_speed": (attention_speed, "the series with keys of width 16 stands beside full attention of width 64"),
    "series_gpu": (
        series_gpu,
        "not in turns, and narrower keys lead the table: only D=64 is the width of full attention",
    ),
    "window_gpu": (
        window_gpu,
        "not in turns, some sizes only, and the ratio is to full attention, not to FlexAttention",
    ),
    "decoding": (decoding, "one mechanism after the other, the least time of each token, no peer but our own cache"),
    "heads": (heads, "the least of all times"),
    "mechanism": (mechanism, "cases above 1.10 were measured a second time and the better result kept"),
    "recurrent_gpu": (recurrent_gpu, "not in turns, and cuDNN's float32 is TF32"),
    "grid": (grid, "the peer is a loop over pixels, not one over diagonals in plain torch"),
    "grid_cuda": (grid, "the peer is a loop over pixels, not one over diagonals in plain torch"),
    "graphs": (
        graphs,
        "the peer read Cora's words dense and ours sparse; with sparse words for both the lead is near 2",
    ),
    "graphs_cuda": (graphs, "the peer read dense words and was not captured, ours was"),
    "images_table": (images_table, "one seed"),
    "words": (words, "ours starts from numbered words and gensim from text; means of 3 seeds without spread"),
    "words_gpu": (words_gpu, "the best epoch counts, and there is no spread"),
    "language_training": (
        language_training,
        "Porism computes in bf16 and the plain loop in fp32; equal types on an ARM CPU gave 1.3",
    ),
    "language_table": (language_table, "one seed"),
    "language_attention": (language_attention, "one seed"),
}
"""Of each result the printer, and what a reader must know of it."""


def old_table(name: str, result: dict[str, Any]) -> list[str]:
    make, reason = OLD[name]
    return [f"*Made under earlier rules, to be measured anew: {reason}.*", "", *make(result)]
