"""What the layer costs, and pictures of the patterns it costs that for. The README derives every term."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from sympy import Expr, Integer, Max, Min, floor, sympify
from torch import nn

from porism.costing.alphabet import A, B, D, H, T
from porism.costing.terms import Terms
from porism.layers.attention.hybrid.kernels.spans import LENGTH, HybridSettings, scans
from porism.layers.attention.method import transfers
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern, picture, sizes
from porism.layers.attention.request import RequestSizes
from porism.layers.attention.softmax.cost import as_function, sum_flops
from porism.layers.attention.taylor.cost import feature_count, features, mean_length

WINDOW, WIDTH, TEXT = 64, 16, 2 * LENGTH
"""Window, width of a head and length that `porism cost hybrid` counts with: two spans, the second with keys far off."""


def pairs(window_size: int, causal: bool = False, length: Expr | int = T) -> Expr:
    """Pairs of query and key that one head takes one by one, T queries and as many keys.

    >>> pairs(64, causal=True, length=16384), pairs(64, length=16384)
    (3121280, 4145408)
    """
    before, last = _spans(length)
    # A span's keys are its own, and window - 1 on each side that is attended to: fewer where the text starts or ends.
    reached = _reached(before, window_size)
    own = before * LENGTH**2 + last**2
    first_spans = LENGTH * reached + last * Min(before * LENGTH, window_size - 1)
    if causal:
        return own + first_spans
    # Ahead of a span lie as many keys as before the one that is as far from the other end.
    return own + first_spans + LENGTH * _left(before, last, window_size)


def _spans(length: Expr | int) -> tuple[Expr, Expr]:
    """The number of whole spans before the last, and the length of the last."""
    before = floor((sympify(length) - 1) / LENGTH)
    return before, length - before * LENGTH


def _reached(spans: Expr, window_size: int) -> Expr:
    """The sum of min(b * LENGTH, window - 1) over the spans b = 0 ... spans - 1."""
    short = (window_size - 1) // LENGTH + 1  # as many start less than a window after the text's start
    few = Min(spans, short)
    return LENGTH * few * (few - 1) / 2 + (spans - few) * (window_size - 1)


def _left(spans: Expr, last: Expr, window_size: int) -> Expr:
    """The sum of min(keys ahead of a span, window - 1) over all spans but the last, which has none."""
    # A window is as long as so many spans: the last few whole spans may have less than that left.
    total = Integer(0)
    short = (window_size - 1) // LENGTH + 1
    for b in range(short):
        total += Min(Max(spans - b, 0), 1) * Min(last + b * LENGTH, window_size - 1)
    return total + Max(spans - short, 0) * (window_size - 1)


def core(
    heads: Expr | int = A,
    num_kv_heads: Expr | int | None = None,
    window_size: int = WINDOW,
    causal: bool = False,
    order: int = 2,
    width: Expr | int = D,
    value_width: Expr | int = H,
    length: Expr | int = T,
) -> Terms:
    """The cost of `hybrid_attention` on q (B, A, T, D), k (B, G, T, D) and v (B, G, T, H).

    >>> core(8, window_size=64, causal=True).at(B=1, T=16384, D=16, H=64)["flops"]
    9478439440
    """
    groups, heads = (sympify(number) for number in (heads if num_kv_heads is None else num_kv_heads, heads))
    M = features("rolled" if order == 2 else "exact", order, sympify(width))
    spans, _ = _spans(length)
    # Past keys: spans that start a window or more after the text's start read; the last one has all others' far keys.
    readers = Max(0, length - -(-window_size // LENGTH) * LENGTH)
    summed = Max(0, spans * LENGTH - window_size + 1)
    if not causal:
        # Ahead: spans that end a window or more before the text's end; the first one has all others' far keys.
        ends = floor((sympify(length) - window_size) / LENGTH)
        readers += Max(0, ends) * LENGTH
        summed += Max(0, length - LENGTH - window_size + 1)
    per_key, per_query = (2 * B * number * M * (value_width + 1) for number in (groups * summed, heads * readers))
    scores, values = (
        2 * B * heads * pairs(window_size, causal, length) * columns for columns in (width, value_width + 1)
    )
    return Terms(
        flops={"sum over far keys": per_key, "read by queries": per_query, "scores": scores, "values": values},
        backward_flops={
            "sum over far keys again": per_key,
            "dphi(q)": per_query,
            "sum over queries": per_query,
            "dphi(k)": per_key,
            "far dv": per_key,
            "scores again": scores,
            "dw": values,
            "dq": scores,
            "dk": scores,
            "dv": values,
        },
        saved={
            "q": B * length * heads * width,
            "k": B * length * groups * width,
            "v": B * length * groups * value_width,
            "answer": B * length * heads * value_width,
            "sums of weights": B * length * heads,
            "largest logits": B * length * heads,
        },
    )


def cost(
    heads: Expr | int = A,
    window_size: int = WINDOW,
    causal: bool = True,
    order: int = 2,
    bias: bool = True,
    out_proj: bool = True,
    width: Expr | int = WIDTH,
    length: Expr | int = TEXT,
) -> Terms:
    """The cost of `HybridAttention(A * D, A, window_size=W, ...)` on x (B, T, A * D) that asks for a gradient too.

    With width=D and length=T it holds for all of them, and is full of the floors and limits that spans bring.

    >>> cost(width=D).total("parameters")
    4*A*D*(A*D + 1)
    """
    E = heads * width
    inner = 3 * E
    total = Terms(
        parameters={"projections": E * inner} | ({"biases": inner} if bias else {}),
        flops={"projections": 2 * B * length * E * inner},
        backward_flops={"projections": 2 * B * length * E * inner, "projections' weights": 2 * B * length * E * inner},
        saved={"x": B * length * E},
    ) + core(heads, window_size=window_size, causal=causal, order=order, width=width, value_width=width, length=length)
    if not out_proj:
        return total
    # What W_O reads is the answer, which is kept already.
    return total + Terms(
        parameters={"output": E**2} | ({"output's bias": E} if bias else {}),
        flops={"output": 2 * B * length * E**2},
        backward_flops={"output": 2 * B * length * E**2, "output's weights": 2 * B * length * E**2},
    )


def subject() -> tuple[Callable[[int], nn.Module], tuple[str, ...]]:
    """What `porism cost hybrid` counts: the causal layer of order 2 with any number of heads, and its input.

    Width and length are fixed. Features grow by floors of the width, spans by floors of the length, and to find both
    from counts would take long.
    """
    # By name: the layer's method imports this file for its amounts of work.
    HybridAttention = import_module(".layer", __package__).HybridAttention

    def build(A: int) -> nn.Module:
        layer: nn.Module = HybridAttention(WIDTH * A, A, window_size=WINDOW, pattern=CAUSAL, batch_first=True)
        return layer

    return build, (f"B {TEXT} {WIDTH}*A",)


def drawing(letters: Mapping[str, int]) -> str:
    """What `porism cost hybrid --draw` shows: a row a query, a column a key, ■ softmax's weight and ▒ its series'.

    >>> print(drawing({"T": 4, "W": 2}).split("\\n\\n")[1])
    causal, window 2: 7 pairs, and 3 by the series
    ■ · · ·
    ■ ■ · ·
    ▒ ■ ■ ·
    ▒ ▒ ■ ■
    """
    length, window = sizes(letters, T=8, W=3)
    both_sides, past = Pattern("sliding", window, lookahead=window - 1), Pattern("sliding", window)
    full = picture(f"full, window {window}", length, both_sides, FULL)
    return f"{full}\n\n{picture(f'causal, window {window}', length, past, CAUSAL)}"


def work(request: RequestSizes) -> dict[str, float]:
    """How much there is to do: see `Method.work`."""
    assert request.window_size is not None
    assert request.order is not None
    causal, length = request.pattern.kind != "full", mean_length(request)
    flops, count = _formulas(request.window_size, causal, request.order, request.backward)
    settings = HybridSettings(request.window_size, request.order, causal, scale=1.0)
    far = [step for scan in scans(settings, length, length) for step in scan]
    tokens = sum(part.stop - part.start for step in far for part in step)
    amounts = {
        "steps": -(-length // LENGTH),
        "far steps": len(far),
        "pairs": request.heads * count(length),
        "features": request.heads * tokens * feature_count(request),
        "flops": flops(request.heads, request.D, request.H, length),
    }
    return transfers(request) | {kind: float(amount) for kind, amount in amounts.items()}


@cache
def _formulas(
    window_size: int, causal: bool, order: int, backward: bool
) -> tuple[Callable[..., int], Callable[..., int]]:
    """The FLOPs of a text and its pairs of near keys, as functions of their letters."""
    formula = sum_flops(core(window_size=window_size, causal=causal, order=order), backward).subs(B, 1)
    return as_function((A, D, H, T), formula), as_function((T,), pairs(window_size, causal))
