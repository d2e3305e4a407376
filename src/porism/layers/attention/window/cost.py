"""What the layer costs, and pictures of the patterns it costs that for. The README derives every term."""

from collections.abc import Callable, Mapping

from sympy import Expr, Piecewise, floor
from torch import nn

from porism.costing.alphabet import A, T, W
from porism.costing.terms import Terms
from porism.layers.attention.pattern import CAUSAL, Kind, Pattern, picture, sizes
from porism.layers.attention.softmax.cost import cost as attention_cost
from porism.layers.attention.window.kernels.blocks import ROWS

MULTIPLES = {"T": ROWS}
"""The lengths that `porism cost window` counts at: those without a rest, for which the formula is short."""

_PRODUCTS = ("scores", "values", "scores again", "dV", "dP", "dQ", "dK")


def pairs(kind: Kind = "sliding", window: Expr | int = W, ahead: Expr | int = 0) -> Expr:
    """Pairs of query and key that one head multiplies, T queries and as many keys: those looked at, and some in vain.

    >>> pairs("sliding", window=64).subs(T, 16384), Pattern("sliding", window=64).pairs(16384)
    (1556480, 1046560)
    >>> pairs("block", window=60).subs(T, 16384), Pattern("block", window=60).pairs(16384)
    (982816, 982816)
    """
    if kind == "block":
        whole = floor(T / window)
        rest = T - whole * window
        return whole * window**2 + rest**2
    whole = floor(T / ROWS)
    rest = T - whole * ROWS
    outside = window - 1 + ahead
    blocks = whole * ROWS * (ROWS + outside) + rest * (rest + outside)
    # A window that is as long as the text is no window.
    return Piecewise((T**2, window >= T), (blocks, True))


def cost(
    heads: Expr | int = A,
    key_heads: Expr | int | None = None,
    bias: bool = True,
    out_proj: bool = True,
    kind: Kind = "sliding",
    window: Expr | int = W,
    ahead: Expr | int = 0,
) -> Terms:
    """The cost of `WindowAttention(A * D, A, W, ...)` attending x (B, T, A * D) to itself, x asking for a gradient too.

    It is that of `Attention` with `pairs` in place of T**2, on a CPU, without dropout and dilation; with a look ahead,
    for T > W + ahead.

    >>> cost(bias=False).total("parameters")
    4*A**2*D**2
    >>> cost(kind="block", window=1).total("flops")
    4*A*B*D*T*(2*A*D + 1)
    """
    dense = attention_cost(heads, key_heads, bias, out_proj)
    share = pairs(kind, window, ahead) / T**2

    def fewer(part: str) -> dict[str, Expr]:
        return {name: term * share if name in _PRODUCTS else term for name, term in dense.terms(part).items()}

    return Terms(**{part: fewer(part) for part in Terms.kinds()})


def subject() -> tuple[Callable[[int, int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost window` counts: the layer with heads of any number and width and any window, and its input."""
    from porism.layers.attention.window.layer import WindowAttention

    return lambda A, D, W: WindowAttention(A * D, A, W, batch_first=True), ("B T A*D",)


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
        f"sliding, window {window}, 1 ahead": Pattern("sliding", window, ahead=1),
        f"sliding, window {window}, dilation 2": Pattern("sliding", window, dilation=2),
        f"block, window {window}": Pattern("block", window),
        f"block, window {window}, causal inside": Pattern("block", window, causal_inside=True),
    }
    return "\n\n".join(picture(name, length, pattern) for name, pattern in patterns.items())
