"""The weight of a pair: exp(s) where the key is near, the series of exp(s) where it is far, 0 where it is not seen."""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.attention.hybrid.kernels.spans import HybridSettings, Sight, Sights, between, leaving, scans, spans
from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.taylor.feature_maps import MAPS, FeatureMap, choose_map, exponential, feature_map
from porism.layers.attention.taylor.kernels.cpu import Division, Operands, SeriesProducts, fold

FAINTEST = -40.0
"""Below it exp(-m) would be a number so large that its products with other numbers overflow."""


def near_logits(s: Tensor, sight: Sight) -> Tensor:
    """The logits (..., queries, keys) of near keys, -inf in place of all others."""
    return s.masked_fill(sight.not_near, -torch.inf)


def peaks(near: Tensor, near_alone: Tensor | slice) -> Tensor:
    """m_i, (..., 1): the largest near logit of query i, and not below 0 unless it sees near keys alone.

    Taken off every exponent it lets none overflow, and not all of them vanish: of near keys alone the largest weight is
    then 1, and far weights are not small by themselves.
    """
    largest = near.amax(-1, keepdim=True)
    if isinstance(near_alone, Tensor):
        return torch.where(near_alone, largest, largest.clamp(min=0))
    for others in (slice(0, near_alone.start), slice(max(near_alone.start, near_alone.stop), near.shape[-2])):
        if others.stop > others.start:
            largest[..., others, :].clamp_(min=0)
    return largest


def fading(peak: Tensor) -> Tensor:
    """exp(-m), the factor of far weights. Where m is below 0 there are none, and any finite factor will do."""
    return torch.exp(-peak.clamp(min=FAINTEST))


def exact(near: Tensor, peak: Tensor) -> Tensor:
    """exp(s - m) for near keys, 0 for the others, in place of their logits."""
    return near.sub_(peak).exp_()


def series(s: Tensor, sight: Sight, order: int, faded: Tensor) -> Tensor:
    """P(s) exp(-m) for far keys, 0 for the others. Its slope is the series of one order less."""
    return (exponential(s, order) * faded).masked_fill_(sight.not_far, 0)


class Passed(NamedTuple):
    """The answer (B, A, T, H), each query's sum of weights times exp(-m), and its m: (B, A, T, 1)."""

    answer: Tensor
    totals: Tensor
    peaks: Tensor


def prepared(
    settings: HybridSettings, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None
) -> tuple[Operands, FeatureMap, Sights, Division]:
    """What both passes read, and how."""
    operands = Operands(q, k, v, key_padding, settings.scale)
    phi = feature_map(choose_map(None, settings.order), settings.order, operands.no_columns)
    pattern = CAUSAL if settings.causal else FULL
    division = Division(operands, pattern, settings.offset, phi.is_positive, first)
    return operands, phi, Sights(settings, operands, first), division


def forward(
    settings: HybridSettings,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None = None,
    first: Tensor | None = None,
) -> tuple[Passed, Tensor]:
    """What was computed, and the last state (N, M, H+1), which is empty unless it is to be returned.

    That sums over all keys that leave the window, after those of the `first` one.
    """
    operands, phi, sights, division = prepared(settings, q, k, v, key_padding, first)
    state = operands.first_state(phi.count, first)
    (B, A, T, _), S, H = q.shape, k.shape[2], operands.H
    far = _far_sums(operands, phi, settings, state, resumed=first is not None)
    # Tokens before heads in memory, as a projection after it reads them.
    answer = q.new_empty(B, T, A, H).transpose(1, 2)
    totals, all_peaks = state.new_empty(B, A, T, 1), state.new_zeros(B, A, T, 1)
    for queries in spans(T):
        keys = between(settings, queries, S)
        sums = operands.rows(far, queries)
        if keys.stop > keys.start:
            s = logits(operands, queries, keys)
            sight = sights.of(queries, keys)
            near = near_logits(s, sight)
            m = peaks(near, sights.near_alone(queries))
            faded = fading(m)
            w = exact(near, m).add_(series(s, sight, settings.order, faded))
            # n_i = exp(-m_i) (sum of near exp(s_ij) [v_j, 1] + sum of far P(s_ij) [v_j, 1])
            rows = sums.shape[:2]
            sums = torch.baddbmm(sums * faded.view(*rows, 1), w.view(*rows, s.shape[-1]), operands.values(keys))
            operands.write_rows(all_peaks, queries, m)
        # o_i = n_i / t_i, t_i the last element of n_i
        operands.write_rows(answer, queries, sums[..., :H] * division.inverse(sums[..., H:], queries))
        operands.write_rows(totals, queries, sums[..., H:])
    return Passed(answer, totals, all_peaks), state if settings.return_state else state.new_empty(0)


def logits(operands: Operands, queries: slice, keys: slice) -> Tensor:
    """s_ij = scale q_i . k_j, (B, G, A / G, queries, keys)."""
    s = operands.queries(queries).mT @ operands.keys(keys)
    return s.view(operands.B, operands.G, operands.R, queries.stop - queries.start, keys.stop - keys.start)


def _far_sums(operands: Operands, phi: FeatureMap, settings: HybridSettings, state: Tensor, resumed: bool) -> Tensor:
    """The sums of P(s_ij) [v_j, 1] over the keys that are far from a query's whole span: (B, A, T, H+1)."""
    (B, A, T, _), S = operands.q.shape, operands.k.shape[2]
    far = state.new_zeros(B, A, T, operands.H + 1)
    earlier, *ahead = scans(settings, T, S, resumed)
    for scan, sums in ((earlier, state), *((scan, torch.zeros_like(state)) for scan in ahead)):
        for step in scan:
            fold(operands, phi, sums, step.fresh)
            # sum of P(s_ij) [v_j, 1] = phi(q_i) . sum of phi(k_j) [v_j, 1]
            read = phi(operands.queries(step.queries)).mT @ sums
            operands.write_rows(far, step.queries, operands.rows(far, step.queries) + read)
    if settings.return_state:
        fold(operands, phi, state, slice(earlier[-1].fresh.stop if earlier else 0, leaving(settings, S)))
    return far


def products(
    settings: HybridSettings, q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], resumed: bool
) -> SeriesProducts:
    """Of operands of these shapes, with a first state if `resumed`."""
    (B, A, T, D), (_, G, S, _), H = q, k, v[3]
    both = scans(settings, T, S, resumed)
    earlier, steps = both[0], [step for scan in both for step in scan]
    folded = earlier[-1].fresh.stop if earlier else 0
    ranges = [(queries, between(settings, queries, S)) for queries in spans(T)]
    pairs = sum((queries.stop - queries.start) * max(0, keys.stop - keys.start) for queries, keys in ranges)
    M = MAPS[choose_map(None, settings.order)].size(settings.order, D)
    key = 2 * B * G * M * (H + 1)
    return SeriesProducts(
        keys=key * sum(max(0, step.fresh.stop - step.fresh.start) for step in steps),
        rest=key * max(0, leaving(settings, S) - folded) if settings.return_state else 0,
        queries=2 * B * A * M * (H + 1) * sum(step.queries.stop - step.queries.start for step in steps),
        scores=2 * B * A * pairs * D,
        values=2 * B * A * pairs * (H + 1),
    )
