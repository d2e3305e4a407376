"""One token that continues a text on a CPU, where nobody wants a gradient: few operations, and one pass over the state.

A step is so little work, 4 M (H + 1) operations a head, that the spans, slices and masks of a pass over many tokens
take several times as long.
"""

import torch
from torch import Tensor

from porism.layers.attention.taylor.feature_maps import map_of_rows
from porism.layers.attention.taylor.kernels.cpu import SeriesSettings, inverse
from porism.layers.operators import is_unobserved


def decodes(q: Tensor, k: Tensor, v: Tensor, *state: Tensor | None) -> bool:
    """Whether the queries are those of one token, and only numbers matter: see `is_unobserved`."""
    return q.shape[2] == 1 and is_unobserved(q, k, v, *state)


def decode(
    settings: SeriesSettings,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor,
) -> tuple[Tensor, Tensor]:
    """The answer (B, A, 1, H), and the state after the token; as the one before, (B, G, M, H+1), a tensor of its own.

    The operands are those of `forward` in kernels/cpu.py.
    """
    (B, G, M, columns), (A, D), exact = first.shape, q.shape[1::2], first.dtype
    N, R, H = B * G, A // G, columns - 1
    phi = map_of_rows(settings.map, settings.order, D, exact, q.device)
    queries = in_type(q.reshape(N, R, D), exact) * settings.scale
    # Queries and the key in one call: N, R + 1, M
    rows = torch.cat([queries, in_type(k.reshape(N, 1, D), exact)], 1).view(N * (R + 1), D)
    query, key = phi.of_rows(rows).view(N, R + 1, M).split_with_sizes([R, 1], 1)
    values = ones_beside(in_type(v.reshape(N, 1, H), exact))
    if key_padding is not None:
        values = values * ~key_padding[:, None, None].expand(B, G, 1, 1).reshape(N, 1, 1)
    before = first.reshape(N, M, columns)
    if log_decay is not None:
        before = before * in_type(log_decay, exact).exp().reshape(N, 1, 1)
    # S += phi(k)^T [v, 1]
    state = torch.addcmul(before, key.mT, values)
    # z = phi(q) S / t, t the last column
    z, t = torch.bmm(query, state).split_with_sizes([H, 1], 2)
    factors = inverse(t, phi.is_positive)
    if key_padding is not None:
        # The first feature is 1, so that its sum is the number of keys.
        factors = factors.masked_fill(state[:, :1, H:] == 0, 0)
    return as_heads(z * factors, q), state.view(B, G, M, columns)


def decode_in_chunk(
    settings: SeriesSettings, q: Tensor, k: Tensor, v: Tensor, first: Tensor, keys: Tensor, values: Tensor
) -> Tensor:
    """The answer (B, A, 1, H) from the sums before a chunk, (B, G, M, H+1), and its keys and values, this token's too.

    Those are (B, G, n, D) and (B, G, n, H).
    """
    (B, G, M, columns), (A, D), n, exact = first.shape, q.shape[1::2], keys.shape[2], first.dtype
    N, R, H = B * G, A // G, columns - 1
    phi = map_of_rows(settings.map, settings.order, D, exact, q.device)
    queries = in_type(q.reshape(N, R, D), exact) * settings.scale
    features = phi.of_rows(queries.view(N * R, D)).view(N, R, M)
    weights = phi.weights(queries.mT, in_type(keys.reshape(N, n, D), exact).mT)
    # z = (phi(q) S + w v) / t, t the last column
    near = torch.bmm(weights, ones_beside(in_type(values.reshape(N, n, H), exact)))
    z, t = torch.baddbmm(near, features, first.reshape(N, M, columns)).split_with_sizes([H, 1], 2)
    return as_heads(z * inverse(t, phi.is_positive), q)


def in_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    # Even a call that has nothing to do takes a while.
    return x if x.dtype is dtype else x.to(dtype)


def ones_beside(v: Tensor) -> Tensor:
    """[v, 1]."""
    # Below torch.nn.functional.pad, which takes longer than this does.
    return torch.constant_pad_nd(v, (0, 1), 1.0)


def as_heads(z: Tensor, q: Tensor) -> Tensor:
    """Rows (N, R, H) as (B, A, 1, H) in the type of q, tokens before heads in memory.

    It is no view, so that it may be changed in place.
    """
    return in_type(z, q.dtype).view(q.shape[0], 1, q.shape[1], z.shape[2]).transpose(1, 2).data
