"""How much there is to do on each way, in units that take about the same time each. FLOPs are the layers' own formulas.

Beside its FLOPs a call costs what every call costs, what each step of its loop costs, what the products of each head
cost however small, what it takes to move the numbers of q, k, v and the answer, and what is done once for each pair of
query and key (exponentials), each feature of a token, and each element of a mask.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from sympy import Expr, Integer, Symbol, lambdify

from porism.costing.alphabet import A, B, D, H, M, T, W
from porism.costing.terms import Terms
from porism.layers.attention.hybrid.cost import core as hybrid_core
from porism.layers.attention.hybrid.cost import pairs as hybrid_pairs
from porism.layers.attention.hybrid.kernels import spans as walks
from porism.layers.attention.pattern import Kind
from porism.layers.attention.request import Question
from porism.layers.attention.softmax.cost import core as softmax_core
from porism.layers.attention.taylor.cost import core as taylor_core
from porism.layers.attention.taylor.feature_maps import MAPS, choose_map
from porism.layers.attention.taylor.kernels import spans
from porism.layers.attention.window.cost import pairs as window_pairs
from porism.layers.attention.window.kernels.blocks import blocks_of

Work = dict[str, float]
Amounts = dict[str, int]

CAUSAL_BLOCK, ON_GPU = 512, 128
"""Keys that torch's fused kernels take at once: those ahead of a query are skipped by whole blocks."""


def work(name: str, asked: Question) -> Work:
    """What a way has to do, both passes together where a backward pass follows.

    >>> asked = Question(B=1, A=8, T=1024, S=1024, D=64, H=64, pattern=FULL, backward=False)
    >>> work("softmax", asked)["flops"]                    # 4 A D T^2
    2147483648.0
    """
    amounts = {"calls": 1, "numbers": asked.heads * (asked.T + asked.S) * (asked.D + asked.H)} | _AMOUNTS[name](asked)
    return {kind: float(amount) for kind, amount in amounts.items()}


def _softmax(asked: Question) -> Amounts:
    skips = asked.is_limited and not asked.is_masked
    pairs = _causal_pairs(asked) if skips else asked.T * asked.S
    width, heads = max(asked.D, asked.H), _busy_heads(asked)
    flops = _flops("softmax", asked.backward)(heads, width) * pairs
    mask = {"mask": _mask(asked)} if asked.is_masked else {}
    return {"pairs": heads * pairs, "flops": flops, "numbers": 2 * asked.heads * (asked.T + asked.S) * width} | mask


def _causal_pairs(asked: Question) -> int:
    """Those that the fused kernel computes."""
    block = CAUSAL_BLOCK if asked.device == "cpu" else ON_GPU
    whole, rest = divmod(min(asked.T, asked.S), block)
    return block**2 * whole * (whole + 1) // 2 + rest * (whole * block + rest) + max(0, asked.T - asked.S) * asked.S


def _busy_heads(asked: Question) -> int:
    """Heads with those that might have been done beside them: on a CPU a thread goes back through a head alone."""
    together = asked.threads if asked.device == "cpu" else 1
    return -(-asked.heads // together) * together


def _window(asked: Question) -> Amounts:
    pattern = asked.pattern
    # A dilated window is as many texts as the dilation says, each with a window without one.
    texts, length = pattern.dilation, -(-asked.T // pattern.dilation)
    pairs = _window_pairs(pattern.kind)(length, pattern.window, pattern.ahead)
    heads = asked.heads * texts
    steps = len(blocks_of(replace(pattern, dilation=1), length, -(-asked.S // texts), asked.offset // texts))
    flops = _flops("softmax", asked.backward)(heads, max(asked.D, asked.H)) * pairs
    return {"steps": steps, "pairs": heads * pairs, "flops": flops}


def _dense(asked: Question) -> Amounts:
    pairs = asked.T * asked.S
    flops = _flops("dense", asked.backward)(asked.heads, asked.D, asked.H) * pairs
    amounts = {"heads": asked.heads, "pairs": asked.heads * pairs, "flops": flops}
    return amounts | ({"mask": _mask(asked)} if asked.is_limited else {})


def _mask(asked: Question) -> int:
    return asked.T * asked.S * (asked.B if asked.padded else 1)


def _taylor(asked: Question) -> Amounts:
    causal, length = asked.pattern.kind != "full", _length(asked)
    count = _features(asked)
    flops = _flops("causal taylor" if causal else "taylor", asked.backward)
    steps = -(-length // spans.LENGTH)
    pairs = {"pairs": asked.heads * length * min(length, spans.LENGTH)} if causal else {}
    return pairs | {
        "steps": steps,
        "features": asked.heads * length * count,
        "flops": flops(asked.heads, asked.D, asked.H, count, length),
    }


def _hybrid(asked: Question) -> Amounts:
    assert asked.window is not None
    assert asked.order is not None
    causal, length = asked.pattern.kind != "full", _length(asked)
    flops, pairs = _hybrid_formulas(asked.window, causal, asked.order, asked.backward)
    task = walks.Task(asked.window, asked.order, causal, scale=1.0)
    far = [step for walk in walks.walks(task, length, length) for step in walk]
    tokens = sum(part.stop - part.start for step in far for part in step)
    return {
        "steps": -(-length // walks.LENGTH),
        "far steps": len(far),
        "pairs": asked.heads * pairs(length),
        "features": asked.heads * tokens * _features(asked),
        "flops": flops(asked.heads, asked.D, asked.H, length),
    }


def _features(asked: Question) -> int:
    assert asked.order is not None
    return MAPS[choose_map(None, asked.order)].size(asked.order, asked.D)


def _length(asked: Question) -> int:
    """What a pass over queries and one over keys take on the average."""
    return max(1, (asked.T + asked.S) // 2)


_AMOUNTS: dict[str, Callable[[Question], Amounts]] = {
    "softmax": _softmax,
    "window": _window,
    "dense softmax": _dense,
    "taylor": _taylor,
    "dense taylor": _dense,
    "hybrid": _hybrid,
}


@cache
def _flops(formula: str, backward: bool) -> Callable[..., int]:
    """A layer's formula as a function: for one pair where all pairs cost the same, else for a text."""
    match formula:
        case "softmax":
            return _as_function((A, D), _total(softmax_core(), backward).subs({B: 1, T: 1}))
        case "dense":
            # Weights that are held are not computed again, and keys need not be as wide as values.
            keys, values = softmax_core(width=D), softmax_core(width=H)
            total = keys.flops["scores"] + values.flops["values"]
            if backward:
                total += (
                    keys.backward_flops["dQ"]
                    + keys.backward_flops["dK"]
                    + values.backward_flops["dV"]
                    + values.backward_flops["dP"]
                )
            return _as_function((A, D, H), total.subs({B: 1, T: 1}))
        case _:
            total = _total(taylor_core(causal=formula == "causal taylor"), backward).subs(B, 1)
            return _as_function((A, D, H, M, T), total)


@cache
def _window_pairs(kind: Kind) -> Callable[..., int]:
    ahead = Symbol("ahead", integer=True)
    return _as_function((T, W, ahead), window_pairs(kind, W, ahead))


@cache
def _hybrid_formulas(
    window: int, causal: bool, order: int, backward: bool
) -> tuple[Callable[..., int], Callable[..., int]]:
    total = _total(hybrid_core(window=window, causal=causal, order=order), backward).subs(B, 1)
    return _as_function((A, D, H, T), total), _as_function((T,), hybrid_pairs(window, causal))


def _total(cost: Terms, backward: bool) -> Expr:
    terms = [*cost.flops.values(), *(cost.backward_flops.values() if backward else ())]
    return sum(terms, start=Integer(0))


def _as_function(letters: tuple[Symbol, ...], formula: Expr) -> Callable[..., int]:
    function: Callable[..., int] = lambdify(letters, formula, modules="math")
    return function
