"""The mechanisms of attention: how exact, how fast, and which is chosen."""

from typing import Any

from readme.place import measured_on, rows_and_columns, shown

QUARTILES = "Medians, with quartiles in brackets"


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
        lines += ["", *rows_and_columns(f"{kind}, T = {longest}: hybrid / window / series", cells)]
    tally: dict[str, dict[str, str]] = {}
    for part in dict.fromkeys(row["T"] // row["W"] for row in rows):
        settings = [row["hybrid_is_closest"] for row in rows if row["T"] // row["W"] == part]
        for kind in ("weights", "answer"):
            holds = sum(setting[kind] for setting in settings)
            tally.setdefault(f"W = T / {part}", {})[kind] = f"{holds} of {len(settings)}"
    lengths = ", ".join(str(length) for length in dict.fromkeys(row["T"] for row in rows))
    lines += ["", *rows_and_columns(f"settings in which the hybrid is closest, T = {lengths}", tally)]
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
    return rows_and_columns(f"the error passes {100 * result['limit']:.0f} % between deviations", cells)


def parts(result: dict[str, Any], field: str = "T") -> list[dict[str, Any]]:
    """Those that are measured sizes, by size."""
    rows = [part for part in result["parts"].values() if isinstance(part, dict) and field in part]
    return sorted(rows, key=lambda row: (row["T"], row.get("W", 0)))


def attention_speed(result: dict[str, Any]) -> list[str]:
    settings, rows = result["settings"], parts(result)
    equal = f"Queries, keys and values of width {settings['width']} for all."
    lines = [
        f"{measured_on(result)} fp32, {settings['heads']} heads, a window of {settings['window']} keys, forward and "
        f"backward, {settings['turns']} turns. {QUARTILES}.",
        "",
        *rows_and_columns(
            "T",
            {
                f"{row['T']:,}": {
                    "window: times faster than its best peer": shown(row["window"]["times_faster"]),
                    "which": row["window"]["best_peer"],
                    "series: times faster than full attention": shown(row["series"]["times_faster"]),
                }
                for row in rows
            },
        ),
        "",
        f"{equal} Below 1 ours is slower. Milliseconds, the series with keys of {settings['narrow']}, which is another "
        "model, beside them:",
        "",
        *rows_and_columns(
            "T", {f"{row['T']:,}": {name: shown(taken) for name, taken in row["ms"].items()} for row in rows}
        ),
    ]
    memory = [
        f"{name.removeprefix('memory: ')}: {found['peak_bytes'] / 2**30:.2f} GiB"
        for name, found in result["parts"].items()
        if name.startswith("memory")
    ]
    return [*lines, "", f"Peak memory of one pass: {'; '.join(memory)}."] if memory else lines


def against_full(result: dict[str, Any]) -> list[str]:
    """series_gpu and hybrid_gpu: at the width of full attention first, then all widths, then keys that decay."""
    settings = result["settings"]
    rows, decayed = ([row for row in parts(result) if field in row] for field in ("times_faster", "times_as_long"))
    errors = ", ".join(f"{name} {max(found.values()):.1e}" for name, found in result["parts"]["errors"].items())
    for name, found in result["parts"].get("errors with decay", {}).items():
        errors += f", with a decay {name} {max(found.values()):.1e}"
    ways = [name for name in rows[0]["ms"] if name != "full"]
    equal = [way for way in ways if f"D={settings['values']}" in way]
    lines = [
        f"{measured_on(result)} bfloat16, causal, {settings['heads']} heads, values of width {settings['values']}, "
        f"{settings['tokens']:,} tokens in all, {settings['turns']} turns. {QUARTILES}. Largest error against float64: "
        f"{errors}.",
    ]
    for title, chosen in (
        (f"times faster than full attention of the same width {settings['values']}, forward and backward", equal),
        ("narrower queries and keys, another model", [way for way in ways if way not in equal]),
    ):
        cells = {f"{row['T']:,}": {way: shown(row["times_faster"][way]["both"]) for way in chosen} for row in rows}
        lines += ["", *rows_and_columns(f"T; {title}", cells)]
    times = {
        f"{row['T']:,}": {
            f"{way}, {label}": shown(taken[kind])
            for way, taken in row["ms"].items()
            for kind, label in (("forward", "forward"), ("both", "with backward"))
        }
        for row in rows
    }
    lines += ["", *rows_and_columns("T; milliseconds", times)]
    for title, field in (
        ("milliseconds with a decay of each token", "ms"),
        ("times as long as without a decay", "times_as_long"),
    ):
        cells = {
            f"{row['T']:,}": {
                f"{way}, {'with backward' if kind == 'both' else kind}": shown(taken[kind])
                for way, taken in row[field].items()
                for kind in ("forward", "both")
            }
            for row in decayed
        }
        lines += ["", *rows_and_columns(f"T; {title}", cells)] if cells else []
    return [*lines, *_decoded(result["parts"])]


def _decoded(found: dict[str, Any]) -> list[str]:
    rows = {name.removeprefix("decoding "): row for name, row in found.items() if name.startswith("decoding ")}
    if not rows:
        return []
    titles = {"chunked": "16 tokens, in a chunk", "plain": "16 tokens, each into the state", "single": "one token"}
    cells = {D: {title: shown(row[name]) for name, title in titles.items()} for D, row in rows.items()}
    worst = max(max(row.values()) for row in found["errors of decoding"].values())
    return [
        "",
        *rows_and_columns("microseconds of a decoded token, batch 64", cells),
        "",
        f"Each column is one captured graph. Largest error of decoded tokens against float64: {worst:.1e}.",
    ]


def window_gpu(result: dict[str, Any]) -> list[str]:
    settings, rows = result["settings"], parts(result, "W")
    errors = ", ".join(f"{number} {error:.1e}" for number, error in result["parts"]["errors"].items())
    heads = {
        f"{row['T']:,}, {row['W']:,}": {
            "times faster than the best kernel for the window, forward": shown(
                row["compared"]["forward"]["times_faster"]
            ),
            "with backward": shown(row["compared"]["both"]["times_faster"]),
            "which": row["compared"]["both"]["best_peer"],
            "than full attention, with backward": shown(row["compared"]["both"]["times_faster_than_full"]),
        }
        for row in rows
    }
    times = {
        f"{row['T']:,}, {row['W']:,}": {
            f"{way}, {label}": shown(taken[kind])
            for way, taken in row["ms"].items()
            for kind, label in (("forward", "forward"), ("both", "with backward"))
        }
        for row in rows
    }
    return [
        f"{measured_on(result)} bfloat16, {settings['heads']} heads of width {settings['width']}, "
        f"{settings['tokens']:,} tokens in all, FlexAttention compiled ({settings['flex_mode']}), {settings['turns']} "
        f"turns. {QUARTILES}. Largest error against float64: {errors}.",
        "",
        *rows_and_columns("T, W", heads),
        "",
        *rows_and_columns("T, W; milliseconds", times),
    ]


def decoding(result: dict[str, Any]) -> list[str]:
    settings = result["settings"]
    part, tokens = settings["part"], settings["T"]
    sizes = ", ".join(f"{letter} = {settings[letter]}" for letter in "TADHW")
    cells = {
        row["mechanism"]: {
            f"µs a token, first {part}": shown(row["first_us"]),
            "second": shown(row["second_us"]),
            "last": shown(row["last_us"]),
            "last / second": f"{row['growth']:.2f}",
            f"bytes of state after {part}": f"{row['early_bytes']:,}",
            f"after {tokens:,}": f"{row['last_bytes']:,}",
            "difference to one pass, float32": f"{row['differences']['float32']:.0e}",
            "float64": f"{row['differences']['float64']:.0e}",
        }
        for row in result["parts"]["mechanisms"]
    }
    return [
        f"{measured_on(result)} float32, {sizes}, order 2, {settings['turns']} turns. {QUARTILES}.",
        "",
        *rows_and_columns("mechanism", cells),
    ]


def heads(result: dict[str, Any]) -> list[str]:
    """Milliseconds by number of heads, and how they compare with one head."""
    settings = result["settings"]
    cells = {}
    for row in (row for rows in result["parts"].values() for row in rows):
        cells[f"{row['T']:,}, {row['heads']}"] = {
            "Porism, to one head": shown(row["porism_with_backward_to_one_head"]),
            "nn.MultiheadAttention, to one head": shown(row["torch_with_backward_to_one_head"]),
            "FLOPs, forward": f"{row['flops']:,}",
            "exponentials": f"{row['exponentials']:,}",
            "Porism, ms": shown(row["porism_with_backward_ms"]),
            "nn.MultiheadAttention, ms": shown(row["torch_with_backward_ms"]),
        }
    return [
        f"{measured_on(result)} {settings['dtype']}, batch {settings['batch']}, width {settings['width']}, causal, "
        f"forward and backward, {settings['turns']} turns. {QUARTILES}.",
        "",
        *rows_and_columns("T, heads", cells),
    ]


def mechanism(result: dict[str, Any]) -> list[str]:
    """What was chosen and what was best, case by case."""
    rows = list(result["parts"].values())
    right, same = [row for row in rows if row["chosen"] == row["best"]], [row["same_call"]["median"] for row in rows]
    worst = max(row["ratio"]["median"] for row in rows)
    cells = {
        row["case"]: {
            "auto / best": shown(row["ratio"]),
            "chosen": row["chosen"],
            "ms": shown(row["measured_ms"]["auto"]),
            "best": row["best"],
            "best, ms": shown(row["measured_ms"][row["best"]]),
        }
        for row in rows
    }
    return [
        f"{measured_on(result)} Forward and backward, fp32, {result['settings']['turns']} turns, each case measured "
        f"once. {QUARTILES}. The best was chosen in {len(right)} of {len(rows)} cases; at worst the choice took "
        f"{worst:.2f} times as long. The same call made directly and by auto differs by factors of {min(same):.2f} to "
        f"{max(same):.2f}: that much is noise and dispatch.",
        "",
        *rows_and_columns("case", cells),
    ]
