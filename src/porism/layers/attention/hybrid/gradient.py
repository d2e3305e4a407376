"""The backward pass by hand: a line of maths above a line of code, no autograd. The README derives every line.

u_j = [v_j, 1], w_ij = exp(s_ij) for near keys and P(s_ij) for far ones, n_i = exp(-m_i) sum of w_ij u_j, and the answer
is o_i = n_i / t_i with t_i the last element of n_i. m_i goes out of the quotient, so it counts as a constant. dO is the
gradient that reaches the answer, g that reaches n. Nothing was kept but operands, answer, t and m.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.attention.hybrid.kernels.cpu import Passed, exact, fading, logits, near_logits, prepared, series
from porism.layers.attention.hybrid.kernels.spans import FarKeys, HybridSettings, Sights, between, leaving, scans, spans
from porism.layers.attention.taylor.feature_maps import FeatureMap
from porism.layers.attention.taylor.gradient import KeyGradient, reaches_keys
from porism.layers.attention.taylor.kernels.cpu import Division, Operands, fold


class HybridGradient(NamedTuple):
    """What reaches the queries (B, A, T, D), keys (B, G, S, D), values (B, G, S, H) and the first state (N, M, H+1)."""

    q: Tensor
    k: Tensor
    v: Tensor
    state: Tensor


@torch.no_grad()
def gradient(
    settings: HybridSettings,
    dO: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    passed: Passed,
) -> HybridGradient:
    """From the gradients that reach the answer and the last state, if one was returned.

    What reaches the first state is empty if there was none.
    """
    operands, phi, sights, division = prepared(settings, q, k, v, key_padding, first)
    state = operands.first_state(phi.count, first)
    dstate = operands.first_state(phi.count, dlast if settings.return_state else None)
    T, S = q.shape[2], k.shape[2]
    # Sums over many pairs, so in full precision.
    dq, reached = torch.zeros_like(q, dtype=operands.dtype), KeyGradient(operands)
    for queries in spans(T):
        keys = between(settings, queries, S)
        if keys.stop > keys.start:
            g = _reaches_sums(dO, passed, operands, division, queries)
            _pairs_back(g, passed, operands, settings, sights, queries, keys, dq, reached)
    earlier, *ahead = scans(settings, T, S, resumed=first is not None)
    if settings.return_state:
        # The keys that no query of these read were folded into the state that was returned.
        folded = earlier[-1].fresh.stop if earlier else 0
        reaches_keys(operands, phi, dstate, slice(folded, leaving(settings, S)), reached)
    _scan_back(dO, passed, operands, division, phi, earlier, state, dstate, dq, reached)
    for scan in ahead:
        none, dnone = torch.zeros_like(state), torch.zeros_like(state)
        _scan_back(dO, passed, operands, division, phi, scan, none, dnone, dq, reached)
    dfirst = dstate.new_empty(0) if first is None else dstate
    return HybridGradient(dq.to(q.dtype), reached.k.to(k.dtype), reached.v.to(v.dtype), dfirst)


def _reaches_sums(dO: Tensor, passed: Passed, operands: Operands, division: Division, queries: slice) -> Tensor:
    """g, (N, R n, H+1)."""
    o, t = (operands.rows(x, queries) for x in (passed.answer, passed.totals))
    # o_i = n_i / t_i, so dn_i = dO_i / t_i
    dn = operands.rows(dO, queries) * division.inverse(t, queries)
    # dt_i = - dO_i . n_i / t_i^2 = - dn_i . o_i
    return torch.cat([dn, -(dn * o).sum(-1, keepdim=True)], dim=-1)


def _pairs_back(
    g: Tensor,
    passed: Passed,
    operands: Operands,
    settings: HybridSettings,
    sights: Sights,
    queries: slice,
    keys: slice,
    dq: Tensor,
    reached: KeyGradient,
) -> None:
    """What pairs that were looked at one by one send to their query, key and value."""
    x, y, u = operands.queries(queries), operands.keys(keys), operands.values(keys)
    sight, s = sights.of(queries, keys), logits(operands, queries, keys)
    m = operands.rows(passed.peaks, queries).view(*s.shape[:-1], 1)
    # dw_ij = u_j . g_i
    dw = g @ u.mT
    # ds_ij = dw_ij w'_ij                the slope: exp(s) again where near, the series of one order less where far
    near, faded = exact(near_logits(s, sight), m), fading(m)
    ds = dw * (near + series(s, sight, settings.order - 1, faded)).view_as(dw)
    # dq_i = sum of ds_ij k_j, dk_j = sum of ds_ij q_i
    _add_queries(operands, dq, queries, y @ ds.mT)
    operands.add_keys(reached.k, keys, x @ ds)
    # du_j = sum of w_ij g_i
    w = near.add_(series(s, sight, settings.order, faded)).view_as(dw)
    reached.add_values(keys, w.mT @ g)


def _scan_back(
    dO: Tensor,
    passed: Passed,
    operands: Operands,
    division: Division,
    phi: FeatureMap,
    scan: list[FarKeys],
    state: Tensor,
    dstate: Tensor,
    dq: Tensor,
    reached: KeyGradient,
) -> None:
    """What the sums over far keys send: to queries along the scan, to keys and values on the way back."""
    for step in scan:
        fold(operands, phi, state, step.fresh)
        g = _reaches_far_sums(dO, passed, operands, division, step.queries)
        # dphi(q_i) = sum of phi(k_j) (u_j . g_i)                 the sum over keys is the state
        dx = phi.pull_back(operands.queries(step.queries), state @ g.mT)
        _add_queries(operands, dq, step.queries, dx)
    for step in reversed(scan):
        g = _reaches_far_sums(dO, passed, operands, division, step.queries)
        # dstate += sum of phi(q_i) g_i                            over the queries that read the state
        torch.baddbmm(dstate, phi(operands.queries(step.queries)), g, out=dstate)
        reaches_keys(operands, phi, dstate, step.fresh, reached)


def _reaches_far_sums(dO: Tensor, passed: Passed, operands: Operands, division: Division, queries: slice) -> Tensor:
    # n_i = ... + exp(-m_i) phi(q_i) . state
    return _reaches_sums(dO, passed, operands, division, queries) * fading(operands.rows(passed.peaks, queries))


def _add_queries(operands: Operands, dq: Tensor, queries: slice, columns: Tensor) -> None:
    """Adds columns, times the scale, to their place in dq."""
    part = torch.empty_like(dq[:, :, queries])
    operands.write_queries(part, slice(None), columns)
    dq[:, :, queries] += part
