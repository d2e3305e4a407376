"""What the layer costs, and pictures of the patterns it costs that for. The README derives every term."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from sympy import Expr, Integer, Symbol, lambdify, sympify
from torch import nn

from porism.costing.alphabet import A, B, D, H, T
from porism.costing.terms import Terms
from porism.layers.attention.method import transfers
from porism.layers.attention.pattern import CAUSAL, FULL, picture, sizes
from porism.layers.attention.request import RequestSizes

CAUSAL_BLOCK, ON_GPU = 512, 128
"""Keys that torch's fused kernels take at once: those ahead of a query are skipped by whole blocks."""


def core(heads: Expr | int = A, num_kv_heads: Expr | int | None = None, width: Expr = D) -> Terms:
    """The cost of `softmax_attention` on q (B, A, T, D) and k, v (B, G, T, D), through a fused kernel and no mask.

    Products are those of the whole square, as a kernel without causal blocks has them. `width` is the wider one of keys
    and values: the kernel takes both at that.

    >>> core().total("flops")
    4*A*B*D*T**2
    >>> core().total("backward_flops") / core().total("flops")
    5/2
    """
    groups = sympify(heads if num_kv_heads is None else num_kv_heads)
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


def cost(
    heads: Expr | int = A, num_kv_heads: Expr | int | None = None, bias: bool = True, out_proj: bool = True
) -> Terms:
    """The cost of `Attention(A * D, A, ...)` attending x (B, T, A * D) to itself, x asking for a gradient too.

    >>> cost(bias=False).total("parameters")
    4*A**2*D**2
    >>> cost().total("flops")
    4*A*B*D*T*(2*A*D + T)
    """
    E = heads * D
    groups = heads if num_kv_heads is None else num_kv_heads
    inner = E + 2 * groups * D
    projections = Terms(
        parameters={"projections": E * inner} | ({"biases": inner} if bias else {}),
        flops={"projections": 2 * B * T * E * inner},
        backward_flops={"projections": 2 * B * T * E * inner, "projections' weights": 2 * B * T * E * inner},
        saved={"x": B * T * E},
    )
    if not out_proj:
        return projections + core(heads, num_kv_heads)
    # What W_O reads is o, which is kept already.
    output = Terms(
        parameters={"output": E**2} | ({"output's bias": E} if bias else {}),
        flops={"output": 2 * B * T * E**2},
        backward_flops={"output": 2 * B * T * E**2, "output's weights": 2 * B * T * E**2},
    )
    return projections + core(heads, num_kv_heads) + output


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost attention` counts: the layer with heads of any number and width, and its input."""
    # By name: the layer's method imports this file for its amounts of work.
    Attention = import_module(".layer", __package__).Attention

    return lambda A, D: Attention(A * D, A, batch_first=True), ("B T A*D",)


def variants() -> dict[str, tuple[str, Callable[[int, int], nn.Module], tuple[str, ...]]]:
    """What `porism cost attention` counts beside it: the form that textbooks count, 3 D^2 parameters for any heads."""
    Attention = import_module(".layer", __package__).Attention

    def plain(A: int, D: int) -> nn.Module:
        made: nn.Module = Attention(A * D, A, bias=False, out_proj=False, batch_first=True)
        return made

    return {"attention-plain": ("without output projection and biases", plain, ("B T A*D",))}


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


def work(request: RequestSizes) -> dict[str, float]:
    """How much the fused kernels have to do: see `Method.work`.

    >>> work(RequestSizes(B=1, A=8, T=1024, S=1024, D=64, H=64, backward_flops=False))["flops"]       # 4 A D T^2
    2147483648.0
    """
    skips = request.is_limited and not request.is_masked
    pairs = _causal_pairs(request) if skips else request.T * request.S
    width, heads = max(request.D, request.H), _busy_heads(request)
    flops = pair_flops(request.backward)(heads, width) * pairs
    amounts = {"pairs": heads * pairs, "flops": flops, "numbers": 2 * request.heads * (request.T + request.S) * width}
    mask = {"mask": _mask(request)} if request.is_masked else {}
    return transfers(request) | {kind: float(amount) for kind, amount in (amounts | mask).items()}


def dense_work(request: RequestSizes) -> dict[str, float]:
    """How much plain products have to do that hold all weights."""
    pairs = request.T * request.S
    flops = _dense_flops(request.backward)(request.heads, request.D, request.H) * pairs
    amounts = {"heads": request.heads, "pairs": request.heads * pairs, "flops": flops}
    mask = {"mask": _mask(request)} if request.is_limited else {}
    return transfers(request) | {kind: float(amount) for kind, amount in (amounts | mask).items()}


def _causal_pairs(request: RequestSizes) -> int:
    """Those that the fused kernel computes."""
    T, S, block = request.T, request.S, CAUSAL_BLOCK if request.device == "cpu" else ON_GPU
    whole, rest = divmod(min(T, S), block)
    return block**2 * whole * (whole + 1) // 2 + rest * (whole * block + rest) + max(0, T - S) * S


def _busy_heads(request: RequestSizes) -> int:
    """Heads with those that might have been done beside them: on a CPU a thread goes back through a head alone."""
    together = request.threads if request.device == "cpu" else 1
    return -(-request.heads // together) * together


def _mask(request: RequestSizes) -> int:
    return request.T * request.S * (request.B if request.padded else 1)


@cache
def pair_flops(backward: bool) -> Callable[..., int]:
    """FLOPs of one pair of query and key, as a function of heads and width."""
    return as_function((A, D), sum_flops(core(), backward).subs({B: 1, T: 1}))


@cache
def _dense_flops(backward: bool) -> Callable[..., int]:
    # Weights that are held are not computed again, and keys need not be as wide as values.
    keys, values = core(width=D), core(width=H)
    flops = keys.flops["scores"] + values.flops["values"]
    if backward:
        slopes = keys.backward_flops, values.backward_flops
        flops += slopes[0]["dQ"] + slopes[0]["dK"] + slopes[1]["dV"] + slopes[1]["dP"]
    return as_function((A, D, H), flops.subs({B: 1, T: 1}))


def sum_flops(cost: Terms, backward: bool) -> Expr:
    """The FLOPs of both passes, or of the forward pass alone."""
    terms = [*cost.flops.values(), *(cost.backward_flops.values() if backward else ())]
    return sum(terms, start=Integer(0))


def as_function(letters: tuple[Symbol, ...], formula: Expr) -> Callable[..., int]:
    function: Callable[..., int] = lambdify(letters, formula, modules="math")
    return function
