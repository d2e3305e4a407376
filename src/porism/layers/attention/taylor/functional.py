"""Attention by the series of the exponential: the functions."""

from collections.abc import Sequence
from typing import Literal, overload

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.pattern import CAUSAL, Pattern
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.taylor.feature_maps import check_order
from porism.layers.attention.taylor.method import TAYLOR, attend, check_request
from porism.layers.attention.taylor.state import ChunkedTaylorState, TaylorState


@overload
def taylor_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: float = ...,
    is_causal: bool = ...,
    *,
    scale: float | Tensor | None = ...,
    enable_gqa: bool = ...,
    pattern: Pattern | None = ...,
    key_padding_mask: Tensor | None = ...,
    cu_seqlens: Sequence[int] | Tensor | None = ...,
    offset: int = ...,
    order: int = ...,
    feature_map: str | None = ...,
    allow_odd: bool = ...,
    log_decay: Tensor | None = ...,
    initial_state: TaylorState | ChunkedTaylorState | None = ...,
    output_final_state: Literal[False] = ...,
) -> Tensor: ...


@overload
def taylor_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = ...,
    dropout_p: float = ...,
    is_causal: bool = ...,
    *,
    scale: float | Tensor | None = ...,
    enable_gqa: bool = ...,
    pattern: Pattern | None = ...,
    key_padding_mask: Tensor | None = ...,
    cu_seqlens: Sequence[int] | Tensor | None = ...,
    offset: int = ...,
    order: int = ...,
    feature_map: str | None = ...,
    allow_odd: bool = ...,
    log_decay: Tensor | None = ...,
    initial_state: TaylorState | ChunkedTaylorState | None = ...,
    output_final_state: Literal[True],
) -> tuple[Tensor, TaylorState]: ...


def taylor_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | Tensor | None = None,
    enable_gqa: bool = True,
    pattern: Pattern | None = None,
    key_padding_mask: Tensor | None = None,
    cu_seqlens: Sequence[int] | Tensor | None = None,
    offset: int = 0,
    order: int = 2,
    feature_map: str | None = None,
    allow_odd: bool = False,
    log_decay: Tensor | None = None,
    initial_state: TaylorState | ChunkedTaylorState | None = None,
    output_final_state: bool = False,
) -> Tensor | tuple[Tensor, TaylorState]:
    """Attention whose weights are the series of exp(scale q k^T), in time and memory linear in the length.

    >>> q, k, v = torch.randn(2, 8, 1000, 16), torch.randn(2, 2, 1000, 16), torch.randn(2, 2, 1000, 64)
    >>> taylor_attention(q, k, v, is_causal=True).shape                 # 8 query heads share 2 key heads
    torch.Size([2, 8, 1000, 64])

    It is close to softmax attention while logits are small (`series_error` measures how close). Its price grows with
    the number of features, C(D+K, K) for order K, so D wants to be small; values may be of any width. A query that
    attends to no key gives 0.

    - `attn_mask`, `dropout_p`: refused, since no single weight is ever there
    - `is_causal`: makes a full pattern causal; refused with block-causal, which attends ahead
    - `pattern`: full, causal or block-causal
    - `key_padding_mask`: (B, S), True (or -inf) for a key that is only padding
    - `cu_seqlens`: where packed sequences start in a batch of 1, and the end
    - `offset`: the position of the first query
    - `order`: K, even; an odd one needs `allow_odd`, since its weights can turn negative
    - `feature_map`: "rolled" (order 2, the fastest), "exact" (any order, the fewest features), "ordered" or "diagonal",
      which books give; see taylor/feature_maps.py. By default rolled at order 2 and exact above
    - `log_decay`: (G,) for each key head, or (B, G, S) for each of its steps too: a weight is multiplied by exp of the
      sum of those from the key, without it, to the query, so that keys decay. Causal passes only; a pad is no step.
      Below -750, and -inf, it leaves nothing of the keys before; one above 0 that lets weights overflow makes answers
      NaN
    - `initial_state`: sums over keys before these, which every query attends to too; `output_final_state` asks for
      those sums after these

    Shapes: query (B, A, T, D), key (B, G, S, D), value (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    check_order(order, allow_odd)
    if cu_seqlens is not None and (initial_state is not None or output_final_state):
        raise ShapeError(
            "taylor: cu_seqlens came with a state, and every sequence has its own. Pad them with key_padding_mask."
        )
    request = AttentionRequest.make(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
        pattern=pattern,
        key_padding_mask=key_padding_mask,
        cu_seqlens=cu_seqlens,
        offset=offset,
        order=order,
        feature_map=feature_map,
        log_decay=log_decay,
        layer="taylor",
    )
    check_request(request)
    if initial_state is None and not output_final_state:
        return TAYLOR.attend(request)
    answer, last = attend(request, initial_state, output_final_state)
    return (answer, last) if last is not None else answer


@overload
def taylor_decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: TaylorState | None = ...,
    *,
    order: int = ...,
    feature_map: str | None = ...,
    scale: float | Tensor | None = ...,
    key_padding_mask: Tensor | None = ...,
    allow_odd: bool = ...,
    log_decay: Tensor | None = ...,
) -> tuple[Tensor, TaylorState]: ...


@overload
def taylor_decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: ChunkedTaylorState,
    *,
    order: int = ...,
    feature_map: str | None = ...,
    scale: float | Tensor | None = ...,
    key_padding_mask: Tensor | None = ...,
    allow_odd: bool = ...,
    log_decay: Tensor | None = ...,
) -> tuple[Tensor, ChunkedTaylorState]: ...


def taylor_decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: TaylorState | ChunkedTaylorState | None = None,
    *,
    order: int = 2,
    feature_map: str | None = None,
    scale: float | Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    allow_odd: bool = False,
    log_decay: Tensor | None = None,
) -> tuple[Tensor, TaylorState | ChunkedTaylorState]:
    """New tokens that continue a text: what the whole text in one causal pass would answer for them, and the state.

    >>> q, k, v = torch.randn(3, 2, 8, 10, 16)                          # three times B A T D
    >>> _, state = taylor_decode(q[:, :, :9], k[:, :, :9], v[:, :, :9])
    >>> y, state = taylor_decode(q[:, :, 9:], k[:, :, 9:], v[:, :, 9:], state)
    >>> state.sums.shape                                                # as large after ten tokens as after a million
    torch.Size([2, 8, 161, 16])

    Gradients flow through the state too. `key_padding_mask` is that of the new tokens, (B, T), and `log_decay` theirs
    as well. For a large batch `state.in_chunks(16)`, once, makes the tokens after it faster: see `ChunkedTaylorState`.
    """
    check_order(order, allow_odd)
    request = AttentionRequest.make(
        query,
        key,
        value,
        scale=scale,
        pattern=CAUSAL,
        key_padding_mask=key_padding_mask,
        order=order,
        feature_map=feature_map,
        log_decay=log_decay,
        decoding=True,
        layer="taylor",
    )
    check_request(request)
    return TAYLOR.decode(request, state)
