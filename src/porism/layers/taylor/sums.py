"""The forward pass: a running sum over keys, read by queries span after span."""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.pattern import Pattern
from porism.layers.taylor.division import Division
from porism.layers.taylor.features import FeatureMap
from porism.layers.taylor.operands import Operands
from porism.layers.taylor.spans import Masks, pieces, spans


class Task(NamedTuple):
    """What to compute, beside the tensors."""

    map: str
    order: int
    pattern: Pattern
    scale: float
    offset: int = 0
    return_state: bool = False


def forward(
    operands: Operands, phi: FeatureMap, task: Task, division: Division, state: Tensor
) -> tuple[Tensor, Tensor]:
    """The answer (B, A, T, H) and each query's sum of weights (B, A, T, 1).

    The state (N, M, H+1) is moved on in place, past all keys if it is to be returned.
    """
    (B, A, T, _), S, H = operands.q.shape, operands.k.shape[2], operands.H
    # Tokens before heads in memory, as a projection after it reads them.
    answer = operands.q.new_empty(B, T, A, H).transpose(1, 2)
    totals = state.new_empty(B, A, T, 1)
    masks = Masks(task.pattern, task.offset, state)
    folded = 0
    for span in spans(task.pattern, T, S, task.offset):
        fold(operands, phi, state, span.fresh)
        folded = span.fresh.stop
        q = operands.queries(span.queries)
        # sum of w_ij [v_j, 1] = phi(q_i) . sum of phi(k_j) [v_j, 1]
        sums = phi(q).mT @ state
        if span.has_masked:
            # and w_ij as it is for the keys that only some queries of the span look at
            w = phi.weights(q, operands.keys(span.masked))
            operands.by_head(w).mul_(masks.of(span))
            torch.baddbmm(sums, w, operands.values(span.masked), out=sums)
        # z_i = sum of w_ij v_j / sum of w_ij
        operands.write_rows(answer, span.queries, sums[..., :H] * division.inverse(sums[..., H:], span.queries))
        operands.write_rows(totals, span.queries, sums[..., H:])
    if task.return_state:
        fold(operands, phi, state, slice(folded, S))
    return answer, totals


def fold(operands: Operands, phi: FeatureMap, state: Tensor, keys: slice) -> None:
    """state += sum of phi(k_j) [v_j, 1] over these keys."""
    for few in pieces(keys):
        torch.baddbmm(state, phi(operands.keys(few)), operands.values(few), out=state)
