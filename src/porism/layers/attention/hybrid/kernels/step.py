"""One token that continues a text on a CPU, where nobody wants a gradient: see the series' kernels/step.py."""

import torch
from torch import Tensor

from porism.layers.attention.hybrid.kernels.cpu import fading
from porism.layers.attention.hybrid.kernels.spans import HybridSettings
from porism.layers.attention.taylor.feature_maps import choose_map, map_of_rows
from porism.layers.attention.taylor.kernels.cpu import inverse
from porism.layers.attention.taylor.kernels.step import as_heads, in_type, ones_beside


def decode(
    settings: HybridSettings, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor
) -> tuple[Tensor, Tensor]:
    """The answer (B, A, 1, H), and the sums over far keys after the token, (B, G, M, H+1), in memory of their own.

    Keys and values are the near ones, up to and including the token's own; the first of W of them leaves the window
    after it.
    """
    (B, G, M, columns), (A, D), S, exact = first.shape, q.shape[1::2], k.shape[2], first.dtype
    N, R, H, leaves = B * G, A // G, columns - 1, settings.window == S
    phi = map_of_rows(choose_map(None, settings.order), settings.order, D, exact, q.device)
    sums = first.reshape(N, M, columns)
    queries = in_type(q.reshape(N, R, D), exact) * settings.scale
    keys, values = in_type(k.reshape(N, S, D), exact), in_type(v.reshape(N, S, H), exact)
    # Queries and the key that leaves in one call: N, R + 1, M
    rows = torch.cat([queries, keys[:, :1]], 1) if leaves else queries
    features = phi.of_rows(rows.flatten(0, 1)).view(N, rows.shape[1], M)
    s = torch.bmm(queries, keys.mT)  # N R S
    if key_padding is not None:
        pads = key_padding[:, None].expand(B, G, S).reshape(N, 1, S)
        s = s.masked_fill(pads, -torch.inf)
    # m is the largest near logit, and not below 0 where a far key is seen, or no near one. The first feature is 1, so
    # that its sum is the number of keys.
    has_far = sums[:, :1, H:] > 0
    m = s.amax(-1, keepdim=True)
    m = torch.where(has_far, m.clamp(min=0), m)
    if key_padding is not None:
        m = m.masked_fill(m == -torch.inf, 0)
    faded = fading(m)
    w = s.sub_(m).exp_()
    # n = exp(-m) (sum of near exp(s_j) [v_j, 1] + phi(q) S), t its last column
    far, t = (torch.bmm(features[:, :R], sums) * faded).split_with_sizes([H, 1], 2)
    factors = inverse(t + w.sum(-1, keepdim=True), phi.is_positive)
    if key_padding is not None:
        factors = factors.masked_fill(pads.all(-1, keepdim=True) & ~has_far, 0)
    answer = as_heads(torch.baddbmm(far, w, values) * factors, q)
    if not leaves:
        return answer, first.clone()
    leaving = ones_beside(values[:, :1])
    if key_padding is not None:
        leaving = leaving * ~pads[..., :1]
    # S += phi(k)^T [v, 1]
    return answer, torch.addcmul(sums, features[:, R:].mT, leaving).view(B, G, M, columns)
