"""The backward pass by hand: a line of maths above a line of code, no autograd. The README derives every line.

u_j = [v_j, 1], w_ij = phi(q_i) . phi(k_j) = P(s_ij), n_i = sum of w_ij u_j over the keys that query i attends to, and
the answer is z_i = n_i / t_i with t_i the last element of n_i. dz is the gradient that reaches the answer, g that which
reaches n.
Nothing was kept but operands and answer: features are made once more, a few tokens at a time. Two runs over the length
are enough, one with the sums over keys as they grow, one back with the sums over queries.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.attention.taylor.feature_maps import FeatureMap
from porism.layers.attention.taylor.kernels.cpu import Division, Operands, SeriesSettings, fold, prepared
from porism.layers.attention.taylor.kernels.spans import Masks, Span, pieces, spans


class SeriesGradient(NamedTuple):
    """What reaches the queries (B, A, T, D), keys (B, G, S, D), values (B, G, S, H) and the first state (N, M, H+1)."""

    q: Tensor
    k: Tensor
    v: Tensor
    state: Tensor


@torch.no_grad()
def gradient(
    settings: SeriesSettings,
    dz: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
) -> SeriesGradient:
    """From the gradients that reach the answer and the last state, if one was returned.

    What reaches the first state is empty if there was none.
    """
    operands, phi, division = prepared(settings, q, k, v, key_padding, first)
    state = operands.first_state(phi.count, first)
    dstate = operands.first_state(phi.count, dlast if settings.return_state else None)
    dq = torch.empty_like(q)
    # Sums over many queries, so in full precision.
    dk, dv = (torch.zeros_like(x, dtype=operands.dtype) for x in (k, v))
    plan = spans(settings.pattern, q.shape[2], k.shape[2], settings.offset)
    masks = Masks(settings.pattern, settings.offset, state)
    for span in plan:
        fold(operands, phi, state, span.fresh)
        x = operands.queries(span.queries)
        g = _reaches_sums(dz, answer, totals, operands, division, span)
        # dphi(q_i) = sum of phi(k_j) (u_j . g_i)               the sum over keys is the state
        dx = phi.pull_back(x, state @ g.mT)
        if span.has_masked:
            y, u = operands.keys(span.masked), operands.values(span.masked)
            mask = masks.of(span)
            # dw_ij = u_j . g_i                                   of the pairs that the mask shows
            dw = g @ u.mT
            operands.by_head(dw).mul_(mask)
            # ds_ij = dw_ij P'(s_ij), dq_i += sum of ds_ij k_j, dk_j += sum of ds_ij q_i
            w, dx_masked, dy = phi.weights_gradient(x, y, dw)
            dx += dx_masked
            operands.add_keys(dk, span.masked, dy)
            # du_j += sum of w_ij g_i
            operands.by_head(w).mul_(mask)
            operands.add_values(dv, span.masked, w.mT @ g)
        operands.write_queries(dq, span.queries, dx)
    # The keys after the last span's were folded into the state that was returned, and into nothing else.
    folded = plan[-1].fresh.stop if plan else 0
    if settings.return_state:
        reaches_keys(operands, phi, dstate, slice(folded, k.shape[2]), dk, dv)
    for span in reversed(plan):
        # dstate += sum of phi(q_i) g_i                          over the queries that read the state
        g = _reaches_sums(dz, answer, totals, operands, division, span)
        torch.baddbmm(dstate, phi(operands.queries(span.queries)), g, out=dstate)
        reaches_keys(operands, phi, dstate, span.fresh, dk, dv)
    return SeriesGradient(dq, dk.to(k.dtype), dv.to(v.dtype), dstate.new_empty(0) if first is None else dstate)


def _reaches_sums(
    dz: Tensor, answer: Tensor, totals: Tensor, operands: Operands, division: Division, span: Span
) -> Tensor:
    """g, (N, R n, H+1)."""
    z, total = (operands.rows(x, span.queries) for x in (answer, totals))
    # z_i = n_i / t_i, so dn_i = dz_i / t_i
    dn = operands.rows(dz, span.queries) * division.inverse(total, span.queries)
    # dt_i = - dz_i . n_i / t_i^2 = - dn_i . z_i
    return torch.cat([dn, -(dn * z).sum(-1, keepdim=True)], dim=-1)


def reaches_keys(operands: Operands, phi: FeatureMap, dstate: Tensor, keys: slice, dk: Tensor, dv: Tensor) -> None:
    """What keys and values that were folded into the state get from its gradient, added to dk and dv."""
    for few in pieces(keys):
        y, u = operands.keys(few), operands.values(few)
        # dphi(k_j) = dstate u_j
        operands.add_keys(dk, few, phi.pull_back(y, dstate @ u.mT))
        # du_j = phi(k_j) dstate
        operands.add_values(dv, few, phi(y).mT @ dstate)
