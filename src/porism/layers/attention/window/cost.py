"""What the layer costs, and pictures of the patterns it costs that for. The README derives every term."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module

from sympy import Expr, Piecewise, Symbol, floor
from torch import nn

from porism.costing.alphabet import A, T, W
from porism.costing.terms import Terms
from porism.errors import RecipeError
from porism.layers.attention.method import transfers
from porism.layers.attention.pattern import CAUSAL, Kind, Pattern, picture, sizes
from porism.layers.attention.request import RequestSizes
from porism.layers.attention.softmax.cost import as_function, pair_flops
from porism.layers.attention.softmax.cost import cost as attention_cost
from porism.layers.attention.window.kernels.blocks import ROWS, blocks_of

MULTIPLES = {"T": ROWS}
"""The lengths that `porism cost window` counts at: those without a rest, for which the formula is short."""

_PRODUCTS = ("scores", "values", "scores again", "dV", "dP", "dQ", "dK")


def pairs(kind: Kind = "sliding", window_size: Expr | int = W, lookahead: Expr | int = 0) -> Expr:
    """Pairs of query and key that one head multiplies, T queries and as many keys: those looked at, and some in vain.

    >>> pairs("sliding", 64).subs(T, 16384), Pattern("sliding", window_size=64).num_pairs(16384)
    (1556480, 1046560)
    >>> pairs("block", 60).subs(T, 16384), Pattern("block", window_size=60).num_pairs(16384)
    (982816, 982816)
    """
    if kind == "block":
        whole = floor(T / window_size)
        rest = T - whole * window_size
        return whole * window_size**2 + rest**2
    whole = floor(T / ROWS)
    rest = T - whole * ROWS
    outside = window_size - 1 + lookahead
    blocks = whole * ROWS * (ROWS + outside) + rest * (rest + outside)
    # A window that is as long as the text is no window.
    return Piecewise((T**2, window_size >= T), (blocks, True))


def cost(
    heads: Expr | int = A,
    num_kv_heads: Expr | int | None = None,
    bias: bool = True,
    out_proj: bool = True,
    kind: Kind = "sliding",
    window_size: Expr | int = W,
    lookahead: Expr | int = 0,
) -> Terms:
    """The cost of `WindowAttention(A * D, A, window_size=W)` on x (B, T, A * D), x asking for a gradient too.

    It is that of `Attention` with `pairs` in place of T**2, on a CPU, without dropout and dilation; with a lookahead,
    for T > W + lookahead.

    >>> cost(bias=False).total("parameters")
    4*A**2*D**2
    >>> cost(kind="block", window_size=1).total("flops")
    4*A*B*D*T*(2*A*D + 1)
    """
    dense = attention_cost(heads, num_kv_heads, bias, out_proj)
    share = pairs(kind, window_size, lookahead) / T**2

    def fewer(part: str) -> dict[str, Expr]:
        return {name: term * share if name in _PRODUCTS else term for name, term in dense.terms(part).items()}

    return Terms(**{part: fewer(part) for part in Terms.kinds()})


def subject() -> tuple[Callable[[int, int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost window` counts: the layer with heads of any number and width and any window, and its input."""
    # By name: the layer's method imports this file for its amounts of work.
    WindowAttention = import_module(".layer", __package__).WindowAttention

    return lambda A, D, W: WindowAttention(A * D, A, window_size=W, batch_first=True), ("B T A*D",)


def drawing(letters: Mapping[str, int]) -> str:
    """What `porism cost window --draw` shows: the patterns, a row a query and a column a key, and their pairs.

    >>> print(drawing({"T": 3, "W": 2}).split("\\n\\n")[1])
    sliding, window 2: 5 pairs
    ■ · ·
    ■ ■ ·
    · ■ ■
    """
    length, window = sizes(letters, T=8, W=3)
    patterns = {
        "causal": CAUSAL,
        f"sliding, window {window}": Pattern("sliding", window),
        f"sliding, window {window}, 1 ahead": Pattern("sliding", window, lookahead=1),
        f"sliding, window {window}, dilation 2": Pattern("sliding", window, dilation=2),
        f"block, window {window}": Pattern("block", window),
        f"block, window {window}, causal inside": Pattern("block", window, is_causal=True),
    }
    return "\n\n".join(
        [*(picture(name, length, pattern) for name, pattern in patterns.items()), nested(length, window)]
    )


def curves(letters: Mapping[str, int]) -> tuple[str, dict[str, Expr]]:
    """What `porism cost window --plot FILE.svg` shows: the products of one head over T, for windows of W, 4 W, 16 W ...

    >>> title, lines = curves({"W": 16, "D": 64})
    >>> list(lines)
    ['W = 16', 'W = 64', 'W = 256', 'W = 1,024', 'full attention']
    """
    if unknown := [letter for letter in letters if letter not in ("W", "D")]:
        raise RecipeError(f"cost: this picture goes along T and has no letter {unknown[0]} to set. It has W, D.")
    width, window = letters.get("D", 64), letters.get("W", 16)
    lines = {f"W = {wide:,}": 4 * width * pairs("sliding", wide) for wide in (window * 4**power for power in range(4))}
    return f"forward FLOPs of a head of width {width}", {**lines, "full attention": 4 * width * T**2}


def nested(length: int, window: int) -> str:
    """Sliding windows of W, 2 W, 4 W ... in one picture: where a number stands, that window and all wider ones attend.

    >>> print(nested(5, 1))
    sliding windows in one picture, by the narrowest that has the pair: W=1 5 pairs, W=2 9, W=4 14, causal 15
    1 · · · ·
    2 1 · · ·
    4 2 1 · ·
    4 4 2 1 ·
    ■ 4 4 2 1
    """
    widths = [window]
    while 2 * widths[-1] < length:
        widths.append(2 * widths[-1])
    masks = {f"W={width}": Pattern("sliding", width).mask(length, length) for width in widths}
    masks["causal"] = CAUSAL.mask(length, length)
    marks = [["·"] * length for _ in range(length)]
    for name, mask in reversed(masks.items()):
        for query, key in mask.nonzero().tolist():
            marks[query][key] = name.removeprefix("W=") if name != "causal" else "■"
    wide = len(str(widths[-1]))
    counts = [f"{name} {int(mask.sum())}" for name, mask in masks.items()]
    title = f"sliding windows in one picture, by the narrowest that has the pair: {counts[0]} pairs"
    rows = (" ".join(f"{mark:>{wide}}" for mark in row) for row in marks)
    return "\n".join([", ".join([title, *counts[1:]]), *rows])


def work(request: RequestSizes) -> dict[str, float]:
    """How much there is to do: see `Method.work`."""
    pattern = request.pattern
    # A dilated window is as many texts as the dilation says, each with a window without one.
    texts, length = pattern.dilation, -(-request.T // pattern.dilation)
    count = _pairs_of(pattern.kind)(length, pattern.window_size, pattern.lookahead)
    heads = request.heads * texts
    steps = len(blocks_of(replace(pattern, dilation=1), length, -(-request.S // texts), request.offset // texts))
    flops = pair_flops(request.backward)(heads, max(request.D, request.H)) * count
    amounts = {"steps": steps, "pairs": heads * count, "flops": flops}
    return transfers(request) | {kind: float(amount) for kind, amount in amounts.items()}


@cache
def _pairs_of(kind: Kind) -> Callable[..., int]:
    lookahead = Symbol("lookahead", integer=True)
    return as_function((T, W, lookahead), pairs(kind, W, lookahead))
