"""What tables said under earlier rules, what today's say at equal conditions, and why they differ.

Earlier numbers are quoted from benchmarks/README.md of commit 71e1378d; today's are read from results/.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from readme.place import rows_and_columns
from trained import by_recipe

PROCESSORS = {"arm": "ARM", "x86": "x86"}

Result = dict[str, Any]


class Question(NamedTuple):
    """One table: what it said, what was unequal, and how to read today's number from results by name."""

    title: str
    said: str
    unequal: str
    today: Callable[[Mapping[str, Result]], str]


def earlier(results: Mapping[str, Result]) -> list[str]:
    """A row for each table whose headline was made at unequal conditions."""
    cells = {
        one.title: {"said before": one.said, "says now": one.today(results), "what was unequal": one.unequal}
        for one in QUESTIONS
    }
    return rows_and_columns("table", cells)


def _by_processor(name: str, read: Callable[[Result], str]) -> Callable[[Mapping[str, Result]], str]:
    """Of both kinds of CPU, as far as they are measured."""

    def today(results: Mapping[str, Result]) -> str:
        found = {kind: results[f"{name}_{key}"] for key, kind in PROCESSORS.items() if f"{name}_{key}" in results}
        return "; ".join(f"{kind} {read(result)}" for kind, result in found.items())

    return today


def _of(name: str, read: Callable[[Result], str]) -> Callable[[Mapping[str, Result]], str]:
    return lambda results: read(results[name])


def _ratio(found: dict[str, float]) -> str:
    return f"{found['median']:.3g}"


def _counters(result: Result) -> str:
    alike = result["tally"]["alike"]
    off = {name: found["off_by_two"] for name, found in alike["forward"].items() if name != "porism"}
    return f"of {alike['cases']} forward {', '.join(f'{name} {count}' for name, count in off.items())}"


def _longest(result: Result) -> str:
    row = max((part for part in result["parts"].values() if "T" in part), key=lambda part: part["T"])
    return f"{_ratio(row['window']['times_faster'])} and {_ratio(row['series']['times_faster'])}"


def _series(result: Result) -> str:
    rows = [part for part in result["parts"].values() if "times_faster" in part]
    return ", ".join(f"{_ratio(row['times_faster']['series D=64']['both'])} at T = {row['T']:,}" for row in rows)


def _window(result: Result) -> str:
    rows = [part for part in result["parts"].values() if "compared" in part]
    best = [row["compared"]["both"]["times_faster"]["median"] for row in rows]
    return f"{min(best):.3g} to {max(best):.3g} over {len(rows)} sizes"


def _decoding(result: Result) -> str:
    last = {row["mechanism"]: row["last_us"]["median"] for row in result["parts"]["mechanisms"]}
    return ", ".join(f"{name} {taken:,.0f}" for name, taken in last.items())


def _mechanism(result: Result) -> str:
    rows = list(result["parts"].values())
    right = sum(row["chosen"] == row["best"] for row in rows)
    return f"{right} of {len(rows)}; {max(row['ratio']['median'] for row in rows):.2f}"


def _recurrent(result: Result) -> str:
    found = {name: part for name, part in result["parts"].items() if name.endswith("float32")}
    ways = [name for name in next(iter(found.values()))["times_faster"] if name.startswith("elman / nn.RNN")]
    return ", ".join(_ratio(part["times_faster"][way]["captured, both"]) for part in found.values() for way in ways[:1])


def _grid(result: Result) -> str:
    found = [part["compared"]["ours"]["times_faster"] for part in result["parts"].values() if part.get("compared")]
    return ", ".join(_ratio(ratio) for ratio in found)


def _grid_captured(result: Result) -> str:
    rows = [part for part in result["parts"].values() if "ours, captured" in part.get("compared", {})]
    first = [row for row in rows if (row["Y"], row["B"]) == (28, 128)]
    return ", ".join(_ratio(row["compared"]["ours, captured"]["times_faster"]) for row in first)


def _cora(result: Result) -> str:
    found = result["parts"]["cora"]["compared"]
    return "; ".join(f"{way} {_ratio(one['times_faster'])}" for way, one in found.items())


def _words(result: Result) -> str:
    speeds = [part["times_faster"] for name, part in result["parts"].items() if name.startswith("speed")]
    return " and ".join(map(_ratio, speeds))


def _training_by_processor(results: Mapping[str, Result]) -> str:
    """The kinds of CPU, one with matrix units for bf16 among them."""
    amx = results.get("language_training_amx_x86")
    others = _by_processor("language_training", _training)(results)
    return others if amx is None else f"{others}; x86 with AMX {_training(amx)}"


def _training(result: Result) -> str:
    return ", ".join(f"{name}: {_ratio(part['times_faster'])}" for name, part in result["parts"].items())


def _attention(result: Result) -> str:
    found = by_recipe(result["rows"])
    means = {name: sum(row["perplexity"]["test"] for row in rows) / len(rows) for name, rows in found.items()}
    seeds = min(map(len, found.values()))
    return f"{means['hybrid-ptb']:.1f} and {means['attention-ptb']:.1f} over {seeds} seeds"


def _seeds(result: Result) -> str:
    rows = by_recipe(result["rows"]).values()
    return f"{min(map(len, rows))} seeds and their deviation"


QUESTIONS = (
    Question(
        "[counters](#how-right-are-flop-counters): cases off by two times or more",
        "of 79 forward torch 21, fvcore 31, torchinfo 41, thop 16, ptflops 24, calflops 23",
        "cases in which conventions differ, and layers of ours, were counted against the others",
        _of("counters", _counters),
    ),
    Question(
        "[windows and the series on a CPU](#how-fast-are-windows-and-the-series-on-two-cores), times faster at "
        "T = 16,384",
        "3.0 than local-attention, 107.7 than a dense mask; 10.4 than full attention",
        "no blocks in plain torch beside the window; keys of width 16 beside 64",
        _by_processor("attention_speed", _longest),
    ),
    Question(
        "[the series on a GPU](#from-which-length-on-does-the-series-beat-full-attention-on-a-gpu), times faster",
        "from 2,048 tokens on, 41.6 at 65,536",
        "keys of width 16 beside 64: another model",
        _of("series_gpu", _series),
    ),
    Question(
        "[windows on a GPU](#how-fast-is-a-window-beside-other-kernels-for-it-on-a-gpu), times faster",
        "51.5",
        "full attention beside a window, two lengths and two windows, not in turns",
        _of("window_gpu", _window),
    ),
    Question(
        "[decoding](#what-does-one-more-token-cost), µs for the last token",
        "softmax 585, window 343, series 1,984, hybrid 2,228",
        "no cache that is allocated before, as users of torch write it",
        _by_processor("decoding", _decoding),
    ),
    Question(
        "[the choice of a mechanism](#does-the-cheapest-mechanism-get-chosen), best chosen; at worst times as long",
        "28 of 30; 1.07",
        "only cases above 1.10 were measured once more",
        _by_processor("mechanism", _mechanism),
    ),
    Question(
        "[Elman nets on a GPU](#how-fast-are-recurrent-nets-on-a-gpu) in float32, nn.RNN's time over ours, captured",
        "0.63, 1.54, 0.996",
        "cuDNN rounded to TF32, not all of ours did; not in turns; kernels are others since",
        _of("recurrent_gpu", _recurrent),
    ),
    Question(
        "[grids on a CPU](#how-fast-does-a-recurrent-net-scan-a-grid), times faster",
        "9.9, 8.6, 5.1",
        "a loop over pixels was the only peer: none by diagonals, none compiled",
        _by_processor("grid", _grid),
    ),
    Question(
        "[grids on a GPU](#how-fast-does-a-recurrent-net-scan-a-grid), 28 x 28, times faster",
        "131.7 and 131.5",
        "the same; ours and the peer are captured now",
        _of("grid_cuda", _grid_captured),
    ),
    Question(
        "[graphs on a CPU](#how-fast-does-a-graph-convolution-train), Cora, times faster",
        "13.3",
        "dense words for the peer, sparse ones for ours",
        _by_processor("graphs", _cora),
    ),
    Question(
        "[graphs on a GPU](#how-fast-does-a-graph-convolution-train), Cora, times faster",
        "12.3",
        "ours captured, the peer eager",
        _of("graphs_cuda", _cora),
    ),
    Question(
        "[words](#how-fast-are-vectors-of-words-trained-and-what-are-they-worth), times faster, widths 100 and 300",
        "5.4 and 4.6",
        "gensim read a file, ours had numbered words; quality without its spread, at unequal rates",
        _by_processor("words", _words),
    ),
    Question(
        "[language training on a CPU](#how-fast-does-a-language-model-train-on-two-cores), times faster",
        "3.73 and 3.26",
        "bf16 beside fp32, on a CPU with matrix units; no compiled peer, no fused optimizer",
        _training_by_processor,
    ),
    Question(
        "[attention in linear time](#what-does-a-language-model-lose-by-attending-in-linear-time-at-64-words), "
        "perplexity of hybrid and softmax",
        "93.7 and 94.5",
        "one seed; what five decide stands below the table now; settings were chosen anew since",
        _of("language_attention", _attention),
    ),
    Question(
        "[published settings](#how-do-the-published-settings-come-out)",
        "one seed each",
        "a difference of a point was shown without how far seeds differ",
        _of("language_table", _seeds),
    ),
    Question(
        "[clothes](#how-well-are-clothes-told-apart)",
        "one seed each",
        "the same",
        _of("images_table", _seeds),
    ),
)
