"""How far from softmax are its window, its series and both in one, and does the series warn where it should?

    python benchmarks/attention_error.py                                  all, some minutes
    python benchmarks/attention_error.py --lengths 256 --orders 2 --out result.json

Peer: full softmax attention, causal, in float64. Queries, keys and values are normal, and queries are scaled so that
logits have the requested deviation. Two errors, the mean over several seeds:

- answer: the error that taylor/error.py defines, that of the whole answer in relation to its norm
- weights: half the sum of |difference| of a query's weights, the mean over queries; it is the most that its answer can
  be off for values between 0 and 1, and is read off by values that are one-hot

Then, for many inputs, whether `TaylorAttention` warns where the error of its answer passes the limit, and only there.
Leaves with 1 where that is not so, or where a claim that the documents make does not hold: `CLAIMS`.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from porism.layers import (
    Pattern,
    TaylorAttention,
    hybrid_attention,
    softmax_attention,
    taylor_attention,
    window_attention,
)
from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.taylor import SeriesWarning, series_error
from porism.training.device import versions
from sources import checksums

MEASURES = ("layers/attention/hybrid", "layers/attention/taylor", "layers/attention/window")
RESULT = Path(__file__).parent / "results" / "attention_error.json"
DEVIATIONS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
PARTS = (4, 8, 16)
"""A window is such a part of the text."""
WIDTH = 8
"""Narrow heads, for which order 6 has 3,003 features: at 16 it has 74,613. Errors hardly depend on the width."""

LIMIT = 0.05
WATCHED = tuple((order, D) for order, widths in {2: (8, 16, 64), 4: (8, 16)}.items() for D in widths)
FINE = torch.linspace(0.05, 1.5, 24, dtype=torch.float64).tolist()
HEADS = 4

Row = dict[str, Any]

CLAIMS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "the hybrid's weights are closest": ("weights", lambda row: True),
    "the hybrid's answer is closest with a window of a quarter of the text": (
        "answer",
        lambda row: bool(4 * row["W"] >= row["T"]),
    ),
    "the hybrid's answer is closest up to a deviation of 2": ("answer", lambda row: bool(row["deviation"] <= 2)),
}
"""What the documents say, of which error, and for which rows."""


def drawn(deviation: float, T: int, D: int, seed: int, heads: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values whose logits deviate by so much: at the usual scale those of normal vectors do by 1."""
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, heads, T, D, generator=draw, dtype=torch.float64) for _ in range(3))
    return deviation * q, k, v


def error(answer: Tensor, expected: Tensor) -> float:
    return float((answer - expected).norm() / expected.norm())


def errors(deviation: float, T: int, W: int, order: int, seeds: int) -> Row:
    """One row of the first table."""
    found: dict[str, dict[str, float]] = {kind: {} for kind in ("answer", "weights")}
    for seed in range(seeds):
        q, k, v = drawn(deviation, T, WIDTH, seed)
        values = torch.cat([v, torch.eye(T, dtype=v.dtype)[None, None]], -1)
        expected = softmax_attention(q, k, values, pattern=CAUSAL)
        answers = {
            "hybrid": hybrid_attention(q, k, values, window_size=W, order=order, pattern=CAUSAL),
            "window": window_attention(q, k, values, pattern=Pattern("sliding", window_size=W)),
            "series": taylor_attention(q, k, values, order=order, pattern=CAUSAL),
        }
        for name, answer in answers.items():
            off = {
                "answer": error(answer[..., :WIDTH], expected[..., :WIDTH]),
                "weights": float((answer - expected)[..., WIDTH:].abs().sum(-1).mean() / 2),
            }
            for kind, number in off.items():
                found[kind][name] = found[kind].get(name, 0.0) + number / seeds
    closest = {kind: off["hybrid"] < min(off["window"], off["series"]) for kind, off in found.items()}
    return {"T": T, "W": W, "order": order, "deviation": deviation, **found, "hybrid_is_closest": closest}


def broken(rows: list[Row]) -> list[str]:
    """The claims that do not hold, with the row that breaks each first."""
    return [
        f"{claim}: not at T={row['T']}, W={row['W']}, order {row['order']}, deviation {row['deviation']}: {row[kind]}"
        for claim, (kind, covers) in CLAIMS.items()
        for row in [row for row in rows if covers(row) and not row["hybrid_is_closest"][kind]][:1]
    ]


def watched(deviation: float, T: int, D: int, order: int, causal: bool, seed: int) -> Row:
    """One row of the second table: the layer's own answer against softmax, the estimate, and whether it warned."""
    q, k, v = drawn(deviation, T, D, seed, HEADS)
    layer = TaylorAttention(
        HEADS * D, HEADS, order=order, bias=False, out_proj=False, batch_first=True, dtype=q.dtype, warn_above=LIMIT
    )
    # Identity projections, so that the layer's queries, keys and values are these.
    layer.in_proj_weight.data.copy_(torch.eye(HEADS * D).repeat(3, 1))
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = [x.transpose(1, 2).flatten(2) for x in (q, k, v)]
        answer, _ = layer(rows[0], rows[1], rows[2], is_causal=causal)
    pattern = CAUSAL if causal else FULL
    expected = softmax_attention(q, k, v, pattern=pattern).transpose(1, 2).flatten(2)
    measured = error(answer, expected)
    warned = any(issubclass(warning.category, SeriesWarning) for warning in caught)
    return {
        "T": T,
        "D": D,
        "order": order,
        "pattern": pattern.kind,
        "deviation": deviation,
        "measured": measured,
        "estimate": series_error(q, k, v, order=order, pattern=pattern, limit=LIMIT),
        "warned": warned,
        "rightly": warned == (measured > LIMIT),
    }


def comparison(lengths: tuple[int, ...], orders: tuple[int, ...], seeds: int) -> Iterator[Row]:
    for T, part, order in product(lengths, PARTS, orders):
        for deviation in DEVIATIONS:
            yield errors(deviation, T, T // part, order, seeds)


def watch(lengths: tuple[int, ...], orders: tuple[int, ...]) -> Iterator[Row]:
    for (order, D), T, causal in product(WATCHED, lengths, (False, True)):
        for seed, deviation in enumerate(FINE if order in orders else ()):
            yield watched(deviation, T, D, order, causal, seed)


def main(
    lengths: tuple[int, ...] = (256, 512, 1024),
    watched_lengths: tuple[int, ...] = (64, 256, 1024),
    orders: tuple[int, ...] = (2, 4, 6),
    seeds: int = 4,
    out: Path = RESULT,
) -> None:
    """Measure, print and keep.

    lengths: T of the comparison; watched_lengths: T of the inputs that a layer should warn of, or not.
    orders: of the series.
    seeds: how many texts the comparison takes the mean of.
    out: where to keep the result as JSON.
    """
    rows = []
    for row in comparison(lengths, orders, seeds):
        rows.append(row)
        for kind in ("answer", "weights"):
            numbers = "  ".join(f"{name} {number:.5f}" for name, number in row[kind].items())
            remark = "" if row["hybrid_is_closest"][kind] else "  the hybrid is not the closest"
            place = f"T {row['T']:5} W {row['W']:4} order {row['order']} deviation {row['deviation']:4}"
            print(f"{place}  {kind:7}  {numbers}{remark}", flush=True)
    warned = []
    for row in watch(watched_lengths, orders):
        warned.append(row)
        if not row["rightly"] or abs(row["measured"] / LIMIT - 1) < 0.1:
            print("near the limit:" if row["rightly"] else "WRONG:", row, flush=True)
    agreeing = sum(row["rightly"] for row in warned)
    print(f"the series warned exactly where its error passed {LIMIT:.0%} on {agreeing} of {len(warned)} inputs")
    result = {"versions": versions(), "width": WIDTH, "seeds": seeds, "limit": LIMIT, "heads": HEADS}
    result["sources"] = checksums(MEASURES, "cpu")
    out.write_text(json.dumps({**result, "rows": rows, "watched": warned}, indent=1) + "\n")
    if wrong := [*broken(rows), *(f"it should have warned, or not: {row}" for row in warned if not row["rightly"])]:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    tyro.cli(main)
