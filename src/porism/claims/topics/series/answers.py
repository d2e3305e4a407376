"""The answer as products of matrices: which of them give what the layer gives.

Phi(Q) is (T, M) and Phi(K) is (S, M), made by the layer's feature map; V is (S, H).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from porism.claims.checks.compare import compared, tried
from porism.claims.claim import Claim, Finding, Statement
from porism.layers.attention.softmax.naive import softmax_attention
from porism.layers.attention.taylor import naive
from porism.layers.attention.taylor.feature_maps import feature_map

OfTwo = Callable[[Tensor, Tensor], Tensor]
OfThree = Callable[[Tensor, Tensor, Tensor], Tensor]


class Inputs(NamedTuple):
    """Queries (T, D), keys (S, D) and values (S, H), and what the features of the two former are."""

    q: Tensor
    k: Tensor
    v: Tensor
    phi_q: Tensor
    phi_k: Tensor

    @property
    def answer(self) -> Tensor:
        """By the oracle, every weight of every pair."""
        q, k, v = (x[None, None] for x in self[:3])
        return naive.taylor_attention(q, k, v, scale=1.0)[0, 0]

    @property
    def softmax(self) -> Tensor:
        """The weights of softmax attention, (T, S): its answers where the values are the rows of the identity."""
        q, k, v = (x[None, None] for x in (self.q, self.k, torch.eye(len(self.k), dtype=self.k.dtype)))
        return softmax_attention(q, k, v, torch.ones(len(self.q), len(self.k), dtype=torch.bool), scale=1.0)[0, 0]


def inputs(T: int, S: int, D: int = 3, H: int = 2, scale: float = 0.5) -> Inputs:
    draw = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(size, generator=draw, dtype=torch.float64) / 2 for size in ((T, D), (S, D), (S, H)))
    q = q * (scale / 0.5)
    phi = feature_map("exact", 2, q.mT)
    return Inputs(q, k, v, phi(q.mT).mT, phi(k.mT).mT)


# 10 features at D = 3: with as many keys Phi(K) is square.
LENGTHS = {"5 queries, 7 keys": inputs(5, 7), "7 tokens": inputs(7, 7), "as many tokens as features": inputs(10, 10)}


# Weights that are all one: there many a wrong form is right.
ALL_ONE = {"queries of zero": inputs(5, 7, scale=0.0), "a query of zero and one key": inputs(1, 1, scale=0.0)}


def row_sums(form: OfTwo) -> Finding:
    """exp(Q K^T) over form(Q, K), row by row, against the layer's softmax."""
    return compared(
        (where, x.softmax, torch.exp(x.q @ x.k.mT) / form(x.q, x.k)[:, None]) for where, x in LENGTHS.items()
    )


def distance_from_softmax(form: Callable[[Inputs], float]) -> Finding:
    """How far apart exp(Q K^T) over its row sums and the layer's softmax are, against what form says they are."""
    worst, evidence = 0.0, "as far apart as stated"
    for where, x in (LENGTHS | ALL_ONE).items():
        powers = torch.exp(x.q @ x.k.mT)
        found, given = float((powers / powers.sum(1, keepdim=True) - x.softmax).abs().max()), form(x)
        if abs(found - given) > worst:
            worst, evidence = abs(found - given), f"{where}: {found:.1e} apart, {given:.1e} stated"
    return Finding(worst, 1e-14, evidence)


def weights_as_product(form: OfTwo) -> Finding:
    """form(Phi(Q), Phi(K)) against the oracle's weight of every pair."""
    return compared((where, naive.weights(x.q, x.k), tried(form, x.phi_q, x.phi_k)) for where, x in LENGTHS.items())


def answer_as_product(form: OfThree) -> Finding:
    """form(Phi(Q), Phi(K), V) against the oracle's answer."""
    return compared((where, x.answer, tried(form, x.phi_q, x.phi_k, x.v)) for where, x in LENGTHS.items())


def answer_of_rows(form: OfTwo) -> Finding:
    """form(Phi(Q) Phi(K)^T V, v), v the sums of weights, against the oracle's answer."""
    return compared(
        (where, x.answer, form(x.phi_q @ (x.phi_k.mT @ x.v), x.phi_q @ x.phi_k.sum(0)))
        for where, x in (LENGTHS | ALL_ONE).items()
    )


def _sums(phi_q: Tensor, phi_k: Tensor) -> Tensor:
    return (phi_q @ phi_k.sum(0))[:, None]


def _distance_of_series(x: Inputs) -> float:
    series = naive.weights(x.q, x.k)
    return float((series / series.sum(1, keepdim=True) - x.softmax).abs().max())


def _divided_by_keys(phi_q: Tensor, phi_k: Tensor, v: Tensor) -> Tensor:
    """Divided before the sum over keys, which takes the sums over queries instead."""
    return phi_q @ ((phi_k / _sums(phi_k, phi_q)).mT @ v)


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="002-15",
        topic="series",
        where="1.3",
        says="What softmax divides the rows of exp(Q K^T) by is exp(Q K^T) times a vector of ones.",
        verdict="holds",
        precise="With the exponential of every element, before the sum.",
        judge=row_sums,
        stated=lambda q, k: torch.exp(q @ k.mT) @ torch.ones(len(k), dtype=q.dtype),
        rival=lambda q, k: torch.exp((q @ k.mT) @ torch.ones(len(k), dtype=q.dtype)),
    ),
    Claim(
        id="002-17",
        topic="series",
        where="1.3",
        says="Diag(v)^-1 exp(Q K^T), v the row sums of exp(Q K^T), approximates softmax.",
        verdict="imprecise",
        precise="It is softmax. What approximates is the series in the place of exp, in weights and sums alike.",
        judge=distance_from_softmax,
        stated=_distance_of_series,
        corrected=lambda x: 0.0,
        right_where=lambda x: not bool(x.q.any()),
    ),
    Claim(
        id="002-18",
        topic="series",
        where="1.3",
        says="The answer is Diag(v)^-1 Phi(Q) Phi(K)^-1 V.",
        verdict="wrong",
        precise=(
            "Phi(K)^T stands there. Phi(K) has a row a key and a column a feature, so that it mostly has no inverse, "
            "and where it has one the answer is another."
        ),
        judge=answer_as_product,
        stated=lambda phi_q, phi_k, v: phi_q @ (torch.linalg.inv(phi_k) @ v) / _sums(phi_q, phi_k),
        corrected=lambda phi_q, phi_k, v: phi_q @ (phi_k.mT @ v) / _sums(phi_q, phi_k),
    ),
    Claim(
        id="003-23",
        topic="series",
        where="1.3",
        says="Row i and column j of Phi(Q) Phi(K)^T hold phi(q_i) . phi(k_j).",
        verdict="holds",
        judge=weights_as_product,
        stated=lambda phi_q, phi_k: phi_q @ phi_k.mT,
        # The features of another query.
        rival=lambda phi_q, phi_k: phi_q.roll(1, 0) @ phi_k.mT,
    ),
    Claim(
        id="003-28",
        topic="series",
        where="1.4",
        says="The answer may be computed from the right: Phi(K)^T V first, Phi(Q) times that, and Diag(v)^-1 last.",
        verdict="holds",
        judge=answer_as_product,
        stated=lambda phi_q, phi_k, v: torch.diag(1 / _sums(phi_q, phi_k)[:, 0]) @ (phi_q @ (phi_k.mT @ v)),
        rival=_divided_by_keys,
    ),
    Claim(
        id="003-32",
        topic="series",
        where="1.4",
        says="Instead of a product with Diag(v)^-1 each row is divided by its cell of Diag(v)^-1.",
        verdict="wrong",
        precise="It is divided by its cell of Diag(v), or multiplied by that of the inverse.",
        judge=answer_of_rows,
        stated=lambda rows, v: rows / (1 / v)[:, None],
        corrected=lambda rows, v: rows / v[:, None],
        right_where=lambda rows, v: bool((v == 1).all()),
    ),
)
