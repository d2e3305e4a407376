"""What the layer costs, and pictures of the patterns it costs that for. The README derives every term."""

from collections.abc import Callable, Mapping

from sympy import Expr, sympify
from torch import nn

from porism.costing.alphabet import A, B, D, T
from porism.costing.terms import Terms
from porism.layers.attention.pattern import CAUSAL, FULL, picture, sizes


def core(heads: Expr | int = A, key_heads: Expr | int | None = None, width: Expr = D) -> Terms:
    """The cost of `softmax_attention` on q (B, A, T, D) and k, v (B, G, T, D), through a fused kernel and no mask.

    Products are those of the whole square, as a kernel without causal blocks has them. `width` is the wider one of keys
    and values: the kernel takes both at that.

    >>> core().total("flops")
    4*A*B*D*T**2
    >>> core().total("backward_flops") / core().total("flops")
    5/2
    """
    groups = sympify(heads if key_heads is None else key_heads)
    square = 2 * B * heads * T**2 * width
    return Terms(
        flops={"scores": square, "values": square},
        # The kernel kept no weights: it computes the scores once more before it goes back.
        backward_flops={"scores again": square, "dV": square, "dP": square, "dQ": square, "dK": square},
        saved={
            "q": B * T * heads * width,
            "k": B * T * groups * width,
            "v": B * T * groups * width,
            "o": B * T * heads * width,
            "log of sums": B * T * heads,
        },
    )


def cost(heads: Expr | int = A, key_heads: Expr | int | None = None, bias: bool = True, out_proj: bool = True) -> Terms:
    """The cost of `Attention(A * D, A, ...)` attending x (B, T, A * D) to itself, x asking for a gradient too.

    >>> cost(bias=False).total("parameters")
    4*A**2*D**2
    >>> cost().total("flops")
    4*A*B*D*T*(2*A*D + T)
    """
    E = heads * D
    groups = heads if key_heads is None else key_heads
    inner = E + 2 * groups * D
    projections = Terms(
        parameters={"projections": E * inner} | ({"biases": inner} if bias else {}),
        flops={"projections": 2 * B * T * E * inner},
        backward_flops={"projections": 2 * B * T * E * inner, "projections' weights": 2 * B * T * E * inner},
        saved={"x": B * T * E},
    )
    if not out_proj:
        return projections + core(heads, key_heads)
    # What W_O reads is o, which is kept already.
    output = Terms(
        parameters={"output": E**2} | ({"output's bias": E} if bias else {}),
        flops={"output": 2 * B * T * E**2},
        backward_flops={"output": 2 * B * T * E**2, "output's weights": 2 * B * T * E**2},
    )
    return projections + core(heads, key_heads) + output


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost attention` counts: the layer with heads of any number and width, and its input."""
    from porism.layers.attention.softmax.layer import Attention

    return lambda A, D: Attention(A * D, A, batch_first=True), ("B T A*D",)


def drawing(letters: Mapping[str, int]) -> str:
    """What `porism cost attention --draw` shows: a row a query, a column a key.

    >>> print(drawing({"T": 3}).split("\\n\\n")[1])
    causal: 6 pairs
    ■ · ·
    ■ ■ ·
    ■ ■ ■
    """
    (length,) = sizes(letters, T=8)
    return "\n\n".join(picture(pattern.kind, length, pattern) for pattern in (FULL, CAUSAL))
