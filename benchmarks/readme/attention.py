"""The mechanisms of attention: how exact, how fast, and which is chosen."""

from typing import Any

from readme.place import machine


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


def attention_speed(result: dict[str, Any]) -> list[str]:
    names = [key.removesuffix("_ms") for key in result["results"][0] if key.endswith("_ms")]
    memory = ", ".join(f"{name} {found['peak_bytes'] / 2**30:.2f} GiB" for name, found in result["memory"].items())
    lines = [
        f"{machine(result)} At T = {result['longest']:,} a pass forward and backward peaks at: {memory}.",
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
        f"{machine(result)} bfloat16, causal, {result['heads']} heads, values of width {result['values']}, "
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
    return grid("forward with backward", cells)


def window_gpu(result: dict[str, Any]) -> list[str]:
    rows = result["results"]
    ways = [name for name, times in rows[0].items() if isinstance(times, dict)]
    errors = ", ".join(f"{number} {error:.1e}" for number, error in result["errors"].items())
    lines = [
        f"{machine(result)} bfloat16, {result['heads']} heads of width {result['width']}, {result['tokens']:,} tokens "
        f"in all, milliseconds. Largest error against float64: {errors}.",
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
        machine(result),
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
