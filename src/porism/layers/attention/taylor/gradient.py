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
    """What reaches the queries (B, A, T, D), keys (B, G, S, D), values (B, G, S, H), log_decay (B, G, S), and the
    first state (N, M, H+1); the last two are empty where they were not given.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor
    state: Tensor


class KeyGradient:
    """Sums of what reaches keys (B, G, S, D), values (B, G, S, H) and log_decay, in full precision."""

    def __init__(self, operands: Operands) -> None:
        self._operands = operands
        self.k, self.v = (torch.zeros_like(x, dtype=operands.dtype) for x in (operands.k, operands.v))
        self.dlogs = None if operands.decay is None else self.k.new_zeros(self.k[..., 0].shape).flatten(0, 1)

    def add_values(self, tokens: slice, du: Tensor) -> None:
        """From du_j = what reaches [v_j, 1], rows (N, n, H+1)."""
        self._operands.add_values(self.v, tokens, du)
        if self.dlogs is not None:
            # exp(L_i - L_j) u_j is all that knows L_j as a key: dL_j -= du_j . u_j
            self.dlogs[:, tokens] -= (du * self._operands.values(tokens)).sum(-1)

    def log_decay(self) -> Tensor:
        """From dL: L_i = sum of log_decay up to i, so that of a step is the sum of dL_i from there on."""
        if self.dlogs is None:
            return self.k.new_empty(0)
        return self.dlogs.double().flip(1).cumsum(1).flip(1).view(self.k.shape[:3])


@torch.no_grad()
def gradient(
    settings: SeriesSettings,
    dz: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
) -> SeriesGradient:
    """From the gradients that reach the answer and the last state, if one was returned."""
    operands, phi, division = prepared(settings, q, k, v, key_padding, log_decay, first)
    state = operands.first_state(phi.count, first)
    dstate = operands.first_state(phi.count, dlast if settings.return_state else None)
    dq, reached = torch.empty_like(q), KeyGradient(operands)
    plan = spans(settings.pattern, q.shape[2], k.shape[2], settings.offset)
    masks = Masks(settings.pattern, settings.offset, state)
    for span in plan:
        fold(operands, phi, state, span.fresh)
        x = operands.queries(span.queries)
        g = _reaches_sums(dz, answer, totals, operands, division, span)
        # dphi(q_i) = sum of phi(k_j) (u_j . g_i)               the sum over keys is the state
        dx = phi.pull_back(x, state @ _decayed(operands, span, g).mT)
        if span.has_masked:
            y, u = operands.keys(span.masked), operands.values(span.masked)
            mask = operands.limits(span, masks.of(span))
            # dw_ij = u_j . g_i                                   of the pairs that the mask shows
            dw = g @ u.mT
            operands.by_head(dw).mul_(mask)
            # ds_ij = dw_ij P'(s_ij), dq_i += sum of ds_ij k_j, dk_j += sum of ds_ij q_i
            w, dx_masked, dy = phi.weights_gradient(x, y, dw)
            dx += dx_masked
            operands.add_keys(reached.k, span.masked, dy)
            # du_j += sum of w_ij g_i
            operands.by_head(w).mul_(mask)
            reached.add_values(span.masked, w.mT @ g)
        operands.write_queries(dq, span.queries, dx)
    # The keys after the last span's were folded into the state that was returned, and into nothing else.
    folded = plan[-1].fresh.stop if plan else 0
    if settings.return_state:
        if reached.dlogs is not None and dlast is not None and k.shape[2]:
            fold(operands, phi, state, slice(folded, k.shape[2]))
            # The last state is what is left of all keys at the last one: dL += dstate . state there
            reached.dlogs[:, -1] += (dlast * state).sum((1, 2))
        reaches_keys(operands, phi, dstate, slice(folded, k.shape[2]), reached)
    for span in reversed(plan):
        # dstate += sum of phi(q_i) g_i                          over the queries that read the state
        g = _reaches_sums(dz, answer, totals, operands, division, span)
        torch.baddbmm(dstate, phi(operands.queries(span.queries)), _decayed(operands, span, g), out=dstate)
        reaches_keys(operands, phi, dstate, span.fresh, reached)
    dfirst = dstate.new_empty(0) if first is None else dstate
    dlog_decay = reached.log_decay() if log_decay is None else reached.log_decay().to(log_decay.dtype)
    return SeriesGradient(dq, reached.k.to(k.dtype), reached.v.to(v.dtype), dlog_decay, dfirst)


def _reaches_sums(
    dz: Tensor, answer: Tensor, totals: Tensor, operands: Operands, division: Division, span: Span
) -> Tensor:
    """g, (N, R n, H+1)."""
    z, total = (operands.rows(x, span.queries) for x in (answer, totals))
    # z_i = n_i / t_i, so dn_i = dz_i / t_i
    dn = operands.rows(dz, span.queries) * division.inverse(total, span.queries)
    # dt_i = - dz_i . n_i / t_i^2 = - dn_i . z_i
    return torch.cat([dn, -(dn * z).sum(-1, keepdim=True)], dim=-1)


def _decayed(operands: Operands, span: Span, g: Tensor) -> Tensor:
    """g_i times what is left of the span's state at query i."""
    decay = operands.decay_of_state(span)
    return g if decay is None else g * decay


def reaches_keys(operands: Operands, phi: FeatureMap, dstate: Tensor, keys: slice, reached: KeyGradient) -> None:
    """What keys and values that were folded into the state get from its gradient.

    Where keys decay, dstate is taken back from the state after these keys to the one before them.
    """
    for few in reversed(list(pieces(keys))):
        y, u, decay = operands.keys(few), operands.values(few), operands.decay
        left = None if decay is None else decay.until(few.stop - 1, few)
        # dphi(k_j) = dstate u_j                                 of u_j as far as it is left
        operands.add_keys(reached.k, few, phi.pull_back(y, dstate @ (u if left is None else u * left).mT))
        # du_j = phi(k_j) dstate
        du = phi(y).mT @ dstate
        reached.add_values(few, du if left is None else du * left)
        if decay is not None:
            dstate.mul_(decay.over(few))
