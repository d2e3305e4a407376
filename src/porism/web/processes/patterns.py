"""Attention weights on a text: by softmax, and by cheaper methods, with how far each is off.

    s_ij = scale q_i . k_j,   z_i = sum over j of w_ij v_j / sum over j of w_ij,   j <= i

with w = exp(s) where the method is exact and its series of order K elsewhere. The error is |z - softmax| / |softmax|.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import DataError
from porism.layers.attention.heads import Heads
from porism.layers.attention.pattern import CAUSAL, Pattern
from porism.layers.attention.request import AttentionRequest, share
from porism.layers.attention.taylor.feature_maps import exponential
from porism.tasks.language.task import Language
from porism.training.loop import answering
from porism.web.processes.models import loaded
from porism.web.processes.process import JobStep

MOST_WORDS = 64
RANDOM_HEADS, RANDOM_WIDTH = 4, 16
ORDERS = (2, 4, 6, 8)
METHODS = ("softmax", "sliding", "block", "taylor", "hybrid")
DIGITS = 5
"""Of a weight, as it is sent."""


class Projected(NamedTuple):
    """Queries, keys and values (A, T, D) of one layer, the scale in the queries; words, and those not known."""

    q: Tensor
    k: Tensor
    v: Tensor
    words: list[str]
    unknown: list[str]
    layers: int
    cut: bool


def patterns(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    """The weights of every head, and the errors of all methods and orders."""
    step.progress(0, None, "reading the model" if "path" in payload else "")
    with torch.no_grad():
        found = _of_run(payload) if "path" in payload else _random(payload["text"])
        step.check()
        exact = softmax_weights(found, CAUSAL)
        method, K, W = payload["method"], payload["K"], payload["W"]
        weights = method_weights(found, method, K, W)
        errors = _errors(weights, exact, found.v)
        heads = [
            {"weights": _plain(exact[head]), "method": _plain(weights[head]), "error": errors[head]}
            for head in range(len(exact))
        ]
        series = method if method in ("taylor", "hybrid") else "taylor"
        orders = [
            {"K": order, "error": _error(method_weights(found, series, order, W), exact, found.v)} for order in ORDERS
        ]
        compared = [
            {
                "method": name,
                "pairs": _pairs(name, len(found.words), W),
                "error": _error(method_weights(found, name, K, W), exact, found.v),
            }
            for name in METHODS
        ]
    return {
        "tokens": found.words,
        "unknown": found.unknown,
        "cut": found.cut,
        "layers": found.layers,
        "heads": heads,
        "orders": orders,
        "methods": compared,
        "source": payload["source"] or "random",
    }


def _random(text: str) -> Projected:
    """Seeded random vectors whose logits deviate by 1."""
    words = text.split()
    cut = words[:MOST_WORDS]
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, RANDOM_HEADS, len(cut), RANDOM_WIDTH, generator=generator, dtype=torch.float64)
    return Projected(q / RANDOM_WIDTH**0.5, k, v, cut, [], 1, len(words) > MOST_WORDS)


def _of_run(payload: dict[str, Any]) -> Projected:
    """The queries, keys and values of one layer of a run's model, on the words alone."""
    run = loaded(payload["path"])
    task = run.task
    assert isinstance(task, Language)
    tokens = task.tokenizer.tokens(payload["text"])
    words = tokens[:MOST_WORDS]
    known = [word if word in task.vocabulary or word.lower() not in task.vocabulary else word.lower() for word in words]
    layers = [module for module in run.model.modules() if isinstance(module, Heads)]
    if not words or payload["layer"] > len(layers):
        count = f"{len(layers)} layer{'' if len(layers) == 1 else 's'}"
        what = f"it has {count}, got layer {payload['layer']}" if words else "the text has no words"
        raise DataError(f"patterns of {payload['source']}: {what}. Choose another.")
    seen: list[AttentionRequest] = []
    model: Any = run.model
    with answering(run.model), _observed(layers[payload["layer"] - 1], seen):
        model.logits(task.vocabulary.encode(known)[:, None], model.start(1))
    request = seen[0]
    A = request.q.shape[1]
    q, k, v = (x[0].double() for x in (request.q * request.scale, share(request.k, A), share(request.v, A)))
    unknown = list(dict.fromkeys(word for word in known if word not in task.vocabulary))
    return Projected(q, k, v, words, unknown, len(layers), len(tokens) > MOST_WORDS)


@contextmanager
def _observed(layer: Any, seen: list[AttentionRequest]) -> Iterator[None]:
    """Let a layer tell of its requests while this lasts."""
    layer.observe = seen.append
    try:
        yield
    finally:
        del layer.observe


def softmax_weights(found: Projected, pattern: Pattern) -> Tensor:
    """Weights (A, T, T) by softmax over the keys of a pattern."""
    T = found.q.shape[1]
    logits = found.q @ found.k.mT
    return logits.masked_fill(~pattern.mask(T, T), -torch.inf).softmax(-1)


def method_weights(found: Projected, method: str, K: int, W: int) -> Tensor:
    """Weights (A, T, T) by one method."""
    T = found.q.shape[1]
    if method in ("softmax", "sliding", "block"):
        return softmax_weights(found, pattern_of(method, W))
    logits = found.q @ found.k.mT
    causal, series = CAUSAL.mask(T, T), exponential(logits, K)
    if method == "hybrid":
        series = torch.where(Pattern("sliding", window_size=W).mask(T, T), logits.exp(), series)
    weights = series * causal
    return weights / weights.sum(-1, keepdim=True)


def pattern_of(method: str, W: int) -> Pattern:
    match method:
        case "sliding":
            return Pattern("sliding", window_size=W)
        case "block":
            return Pattern("block", window_size=W, is_causal=True)
    return CAUSAL


def _pairs(method: str, T: int, W: int) -> int:
    """How many pairs of query and key a method attends to."""
    return pattern_of(method, W).num_pairs(T)


def _error(weights: Tensor, exact: Tensor, v: Tensor) -> float:
    """Over all heads."""
    right = exact @ v
    return float((weights @ v - right).norm() / right.norm())


def _errors(weights: Tensor, exact: Tensor, v: Tensor) -> list[float]:
    """Of each head."""
    right = exact @ v
    errors: list[float] = ((weights @ v - right).norm(dim=(1, 2)) / right.norm(dim=(1, 2))).tolist()
    return errors


def _plain(weights: Tensor) -> list[list[float]]:
    return [[round(weight, DIGITS) for weight in row] for row in weights.tolist()]
