"""Attention by the series on single numbers, whose operations are counted: the algorithm as a book writes it."""

from itertools import combinations_with_replacement
from math import prod

from porism.claims.checks.count import Matrix, Noted, Vector, product, sum_of, transposed


def features(x: Vector, order: int) -> Vector:
    """phi(x): every monomial from one that is shorter by its last factor, one product each."""
    shares = _shares(x, order)
    longest = [(i, 1, x_i) for i, x_i in enumerate(x)]  # last variable, how often it stands there, the feature
    found = [_one(x), *x]
    for _ in range(2, order + 1):
        longest = [
            (j, repeats, feature * shares[j][repeats - 1])
            for i, before, feature in longest
            for j in range(i, len(x))
            for repeats in [before + 1 if j == i else 1]
        ]
        found += [feature for _, _, feature in longest]
    return found


def features_anew(x: Vector, order: int) -> Vector:
    """phi(x) with every monomial multiplied up from its factors."""
    shares = _shares(x, order)
    found = [_one(x), *x]
    for degree in range(2, order + 1):
        for factors in combinations_with_replacement(range(len(x)), degree):
            first, *others = (shares[i][factors[:place].count(i)] for place, i in enumerate(factors))
            found.append(prod(others, start=first))
    return found


def sums_over_keys(phi_k: Matrix, v: Matrix) -> Matrix:
    """Phi(K)^T V, (M, D)."""
    return product(transposed(phi_k), v)


def totals(phi_q: Matrix, phi_k: Matrix) -> Vector:
    """Each query's sum of weights: phi(q_i) . sum of phi(k_j), (T)."""
    over_keys = [sum_of(column) for column in transposed(phi_k)]
    return [sum_of(x * y for x, y in zip(row, over_keys, strict=True)) for row in phi_q]


def divided(rows: Matrix, by: Vector) -> Matrix:
    return [[number / total for number in row] for row, total in zip(rows, by, strict=True)]


def attention(q: Matrix, k: Matrix, v: Matrix, order: int) -> Matrix:
    """Diag(Phi(Q) (Phi(K)^T 1))^-1 Phi(Q) (Phi(K)^T V), sums over keys first."""
    phi_q, phi_k = ([features(x, order) for x in rows] for rows in (q, k))
    return divided(product(phi_q, sums_over_keys(phi_k, v)), totals(phi_q, phi_k))


def attention_from_the_left(q: Matrix, k: Matrix, v: Matrix, order: int) -> Matrix:
    """(Diag(v)^-1 Phi(Q) Phi(K)^T) V, the weights of all pairs first."""
    phi_q, phi_k = ([features(x, order) for x in rows] for rows in (q, k))
    weights = product(phi_q, transposed(phi_k))
    return product(divided(weights, [sum_of(row) for row in weights]), v)


def _one(x: Vector) -> Noted:
    return Noted(1.0, x[0].tally)


def _shares(x: Vector, order: int) -> Matrix:
    """x_i / sqrt(m) for m = 1 ... order: the m-th x_i of a monomial brings this, so that alpha! comes out right."""
    return [[x_i, *(x_i * m**-0.5 for m in range(2, order + 1))] for x_i in x]
