"""What the layer costs, and pictures of the patterns it costs that for. The README derives every term."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from math import factorial

from sympy import Expr, Integer, floor, prod, sympify
from torch import nn

from porism.costing.alphabet import A, B, D, H, M, T
from porism.costing.terms import Terms
from porism.layers.attention.method import transfers
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern, picture, sizes
from porism.layers.attention.request import RequestSizes
from porism.layers.attention.softmax.cost import as_function, sum_flops
from porism.layers.attention.taylor.feature_maps import MAPS, choose_map
from porism.layers.attention.taylor.kernels.spans import LENGTH


def features(feature_map: str = "rolled", order: int = 2, width: Expr = D) -> Expr:
    """M, the number of features of a map.

    >>> features("exact", 2).subs(D, 16), features("rolled").subs(D, 16), features("ordered", 4).subs(D, 16)
    (153, 161, 69905)
    """
    match feature_map:
        case "exact":
            return prod(width + i for i in range(1, order + 1)) / factorial(order)
        case "rolled":
            return 1 + width + width * (1 + floor(width / 2))
        case "ordered":
            return sum((width**degree for degree in range(order + 1)), start=Integer(0))
        case _:
            return 1 + 2 * width


def core(
    heads: Expr | int = A,
    num_kv_heads: Expr | int | None = None,
    causal: bool = False,
    count: Expr = M,
    value_width: Expr = H,
    products: int = 1,
    has_decay: bool = False,
) -> Terms:
    """The cost of `taylor_attention` on q (B, A, T, D), k (B, G, T, D) and v (B, G, T, H) with M features.

    >>> core().total("flops")
    4*A*B*M*T*(H + 1)
    >>> core().total("backward_flops") / core().total("flops")
    5/2

    Full, or causal: then the pass goes through the length in spans, and a floor of T tells how many they are. A masked
    weight takes one product where the map follows the series, and two of the diagonal map: of numbers and of squares.
    Where keys decay there are no more products, and the steps' decays are kept.
    """
    groups = sympify(heads if num_kv_heads is None else num_kv_heads)
    heads = sympify(heads)
    spans = floor((T - 1) / LENGTH) if causal else Integer(0)  # those before the last
    # Keys that are summed up: in a causal pass none of the last span's but its first.
    summed = spans * LENGTH + 1 if causal else T
    last = T - spans * LENGTH
    # Pairs of a query with a key that the span's first query does not look at: all are computed, half are masked.
    masked = spans * LENGTH * (LENGTH - 1) + last * (last - 1) if causal else Integer(0)
    per_key, per_query = (2 * B * number * count * (value_width + 1) for number in (groups * summed, heads * T))
    scores, values = (2 * B * heads * masked * width for width in (products * D, value_width + 1))
    return Terms(
        flops={"sum over keys": per_key, "read by queries": per_query}
        | ({"masked scores": scores, "masked values": values} if causal else {}),
        backward_flops={
            "sum over keys again": per_key,
            "dphi(q)": per_query,
            "sum over queries": per_query,
            "dphi(k)": per_key,
            "dv": per_key,
        }
        | (
            {
                "masked scores again": scores,
                "masked dw": values,
                "masked dq": scores,
                "masked dk": scores,
                "masked dv": values,
            }
            if causal
            else {}
        ),
        saved={
            "q": B * T * heads * D,
            "k": B * T * groups * D,
            "v": B * T * groups * value_width,
            "answer": B * T * heads * value_width,
            "sums of weights": B * T * heads,
        }
        | ({"log_decay": B * T * groups} if has_decay else {}),
    )


def cost(
    heads: Expr | int = A,
    causal: bool = False,
    feature_map: str | None = None,
    order: int = 2,
    bias: bool = True,
    out_proj: bool = True,
) -> Terms:
    """The cost of `TaylorAttention(A * D, A, ...)` attending x (B, T, A * D) to itself, x asking for a gradient too.

    >>> cost(feature_map="exact").total("parameters")
    4*A*D*(A*D + 1)
    """
    E = heads * D
    inner = 3 * E
    map_name = choose_map(feature_map, order)
    layer = Terms(
        parameters={"projections": E * inner} | ({"biases": inner} if bias else {}),
        flops={"projections": 2 * B * T * E * inner},
        backward_flops={"projections": 2 * B * T * E * inner, "projections' weights": 2 * B * T * E * inner},
        saved={"x": B * T * E},
    ) + core(
        heads,
        causal=causal,
        count=features(map_name, order),
        value_width=D,
        products=2 if map_name == "diagonal" else 1,
    )
    if not out_proj:
        return layer
    # What W_O reads is the answer, which is kept already.
    return layer + Terms(
        parameters={"output": E**2} | ({"output's bias": E} if bias else {}),
        flops={"output": 2 * B * T * E**2},
        backward_flops={"output": 2 * B * T * E**2, "output's weights": 2 * B * T * E**2},
    )


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost taylor` counts: the layer of order 2 with heads of any number and width, and its input.

    With the exact map, whose number of features is a polynomial in D for even and odd D alike.
    """
    # By name: the layer's method imports this file for its amounts of work.
    TaylorAttention = import_module(".layer", __package__).TaylorAttention

    return lambda A, D: TaylorAttention(A * D, A, feature_map="exact", batch_first=True), ("B T A*D",)


def subject_cost() -> Terms:
    """The cost by hand of what `subject` has counted."""
    return cost(feature_map="exact")


def drawing(letters: Mapping[str, int]) -> str:
    """What `porism cost taylor --draw` shows: a row a query, a column a key.

    >>> print(drawing({"T": 3, "W": 2}).split("\\n\\n")[2])
    block-causal, window 2: 7 pairs by the series
    ▒ ▒ ·
    ▒ ▒ ·
    ▒ ▒ ▒
    """
    length, window = sizes(letters, T=8, W=3)
    patterns = {"full": FULL, "causal": CAUSAL, f"block-causal, window {window}": Pattern("block-causal", window)}
    return "\n\n".join(picture(name, length, series=pattern) for name, pattern in patterns.items())


def work(request: RequestSizes) -> dict[str, float]:
    """How much there is to do: see `Method.work`."""
    causal, length, count = request.pattern.kind != "full", mean_length(request), feature_count(request)
    pairs = {"pairs": request.heads * length * min(length, LENGTH)} if causal else {}
    amounts = pairs | {
        "steps": -(-length // LENGTH),
        "features": request.heads * length * count,
        "flops": _flops(causal, request.backward)(request.heads, request.D, request.H, count, length),
    }
    return transfers(request) | {kind: float(amount) for kind, amount in amounts.items()}


def feature_count(request: RequestSizes) -> int:
    assert request.order is not None
    return MAPS[choose_map(None, request.order)].size(request.order, request.D)


def mean_length(request: RequestSizes) -> int:
    """What a pass over queries and one over keys take on the average."""
    return max(1, (request.T + request.S) // 2)


@cache
def _flops(causal: bool, backward: bool) -> Callable[..., int]:
    return as_function((A, D, H, M, T), sum_flops(core(causal=causal), backward).subs(B, 1))
