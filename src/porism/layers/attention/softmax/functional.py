"""Softmax attention over any pattern, through the fused kernels of torch."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import dropout, pad, scaled_dot_product_attention

from porism.errors import ShapeError
from porism.layers.attention.masks import Mask
from porism.layers.attention.method import DENSE, SQUARE, Method, fits_densely, trial
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes, share
from porism.layers.autocast import without_autocast
from porism.layers.operands import check_indices


class KVCache(NamedTuple):
    """The keys (B, G, S, D) and values (B, G, S, H) of all tokens so far; (B, S), True for a pad, if there was one.

    >>> k, v = torch.randn(2, 1, 8, 9, 64)                              # twice B A T D
    >>> first, new = KVCache(k[:, :, :8], v[:, :, :8]), KVCache(k[:, :, 8:], v[:, :, 8:])
    >>> new.after(first).length, new.after(first).last(3).length
    (9, 3)

    `pattern` is the one that the tokens were decoded with, since it says which of them were kept; None if not known.
    """

    k: Tensor
    v: Tensor
    padding: Tensor | None = None
    pattern: Pattern | None = None

    @property
    def length(self) -> int:
        return self.k.shape[2]

    def after(self, state: "KVCache | None", layer: str = "attention") -> "KVCache":
        """These tokens after those of a previous state, which has to be of the same batch, heads and pattern."""
        if state is None:
            return self
        self._check_continues(state, layer)
        padding = None
        if state.padding is not None or self.padding is not None:
            padding = torch.cat([state._all_padding(), self._all_padding()], 1)
        return KVCache(torch.cat([state.k, self.k], 2), torch.cat([state.v, self.v], 2), padding, self.pattern)

    def last(self, count: int) -> "KVCache":
        """The last so many tokens, copied.

        A view would hold on to the memory of all the others, and would change when the caller overwrites it.
        """
        first = self.length - min(self.length, count)
        padding = None if self.padding is None else self.padding[:, first:].clone()
        return KVCache(self.k[:, :, first:].clone(), self.v[:, :, first:].clone(), padding, self.pattern)

    def reorder_cache(self, beam_idx: Tensor) -> "KVCache":
        """The tokens of the chosen texts of the batch, in the order of the indices (N,)."""
        check_beams(beam_idx, self.k)
        padding = None if self.padding is None else self.padding.index_select(0, beam_idx)
        return KVCache(self.k.index_select(0, beam_idx), self.v.index_select(0, beam_idx), padding, self.pattern)

    def _all_padding(self) -> Tensor:
        if self.padding is not None:
            return self.padding
        return self.k.new_zeros(self.k.shape[0], self.length, dtype=torch.bool)

    def _check_continues(self, state: "KVCache", layer: str) -> None:
        """Refuses the state of another batch, layer or pattern."""
        if not isinstance(state, KVCache):
            raise ShapeError(
                f"{layer}: the state is a {type(state).__name__}, expected a KVCache. Pass what the same function gave."
            )
        for name, kept, new in (("keys", state.k, self.k), ("values", state.v, self.v)):
            if kept.dim() != 4 or kept.shape[:2] != new.shape[:2] or kept.shape[3] != new.shape[3]:
                raise ShapeError(
                    f"{layer}: the state has {name} of {tuple(kept.shape)}, the new ones are {tuple(new.shape)}. "
                    "Pass the state that the same batch gave."
                )
            if kept.dtype != new.dtype or kept.device != new.device:
                raise ShapeError(
                    f"{layer}: the state has {name} of {kept.dtype} on {kept.device}, the new ones are {new.dtype} on "
                    f"{new.device}. Pass the state that the same layer gave, under the same autocast."
                )
        if state.v.shape[2] != state.length or not state._has_fitting_padding():
            raise ShapeError(
                f"{layer}: the state has {state.length} keys, {state.v.shape[2]} values and padding that may not fit. "
                "Pass a state as it was given."
            )
        if state.pattern is not None and self.pattern is not None and state.pattern != self.pattern:
            raise ShapeError(
                f"{layer}: the state is of {state.pattern}, and {self.pattern} came. "
                "Decode with the pattern that the state was made with, or start without a state."
            )

    def _has_fitting_padding(self) -> bool:
        if self.padding is None:
            return True
        expected = self.k.shape[0], self.length
        return (
            self.padding.shape == expected and self.padding.dtype == torch.bool and self.padding.device == self.k.device
        )


def check_beams(beam_idx: Tensor, batch: Tensor) -> None:
    """Refuses what is not a list of indices into the batch, the first dimension of a state's tensor."""
    check_indices("attention", "beam_idx", beam_idx, batch.shape[0], batch)
    if beam_idx.dim() != 1:
        raise ShapeError(f"attention: beam_idx are {tuple(beam_idx.shape)}, expected (N,): one index for each beam.")


def softmax_attention(
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
) -> Tensor:
    """softmax(scale q k^T) v over the keys that each query attends to, called as scaled_dot_product_attention is.

    >>> q, k, v = torch.randn(2, 8, 10, 64), torch.randn(2, 2, 10, 64), torch.randn(2, 2, 10, 32)
    >>> softmax_attention(q, k, v, is_causal=True).shape                # 8 query heads share 2 key heads
    torch.Size([2, 8, 10, 32])

    Full and causal patterns run in the fused kernel without any mask; others build a dense one, T S of memory, where
    `porism.layers.window_attention` needs T W. A query that attends to no key gives 0.

    - `attn_mask`: fit for (B, A, T, S), True for a pair that attends, or numbers to add to the logits
    - `dropout_p`: the probability of dropping a weight
    - `is_causal`: makes a full pattern causal, from the top left; refused with a pattern that attends ahead
    - `enable_gqa=False` refuses fewer key heads than query heads
    - `pattern`: which keys a query attends to by their positions; all of them by default
    - `key_padding_mask`: (B, S), True (or -inf) for a key that is only padding
    - `cu_seqlens`: where packed sequences start in a batch of 1, and the end
    - `offset`: the position of the first query

    As with torch's scaled_dot_product_attention, an answer that was changed in place is refused by backward().

    Shapes: query (B, A, T, D), key (B, G, S, D), value (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
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
    )
    return SOFTMAX.attend(request)


def softmax_decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: KVCache | None = None,
    *,
    pattern: Pattern = CAUSAL,
    scale: float | Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> tuple[Tensor, KVCache]:
    """New tokens that continue a text: what the whole text in one pass would answer for them, and the longer cache.

    >>> q, k, v = torch.randn(3, 2, 8, 10, 64)                      # three times B A T D
    >>> y, cache = softmax_decode(q[:, :, :9], k[:, :, :9], v[:, :, :9])
    >>> y, cache = softmax_decode(q[:, :, 9:], k[:, :, 9:], v[:, :, 9:], cache)
    >>> cache.k.shape
    torch.Size([2, 8, 10, 64])

    `key_padding_mask` is that of the new tokens, (B, T). The cache is a copy of the keys and values, and gradients flow
    through it. It belongs to the pattern, the batch and the dtype that it was made with.
    """
    request = AttentionRequest.make(
        query, key, value, scale=scale, pattern=pattern, key_padding_mask=key_padding_mask, decoding=True
    )
    return SOFTMAX.decode(request, state)


class Softmax(Method):
    """softmax(scale q k^T) v by torch's fused kernels, with a dense mask where they need one."""

    name = "softmax"
    exact = True

    def serves(self, sizes: RequestSizes) -> bool:
        return True

    def kind(self, sizes: RequestSizes) -> str:
        if sizes.is_masked:
            return "softmax with a dense mask"
        return "causal softmax" if sizes.is_limited else self.name

    def attend(self, request: AttentionRequest) -> Tensor:
        return attend(request)

    def decode(self, request: AttentionRequest, state: KVCache | None) -> tuple[Tensor, KVCache]:
        new = KVCache(request.k, request.v, request.key_padding_mask, request.pattern)
        tokens = new.after(state)
        before = tokens.length - new.length
        whole = replace(request, k=tokens.k, v=tokens.v, key_padding_mask=tokens.padding, offset=before)
        # With a state before them the tokens were copied already.
        return attend(whole), tokens.last(tokens.length) if state is None else tokens

    def work(self, sizes: RequestSizes) -> dict[str, float]:
        from porism.layers.attention.softmax.cost import work

        return work(sizes)

    def trials(self, kind: str, device: str) -> list[RequestSizes]:
        match kind:
            case "softmax with a dense mask":
                return [trial(*some, device, Pattern("sliding", window_size=some[1] // 3)) for some in SQUARE]
            case "causal softmax":
                return [trial(*some, device, CAUSAL) for some in SQUARE]
            case _:
                return [trial(*some, device) for some in SQUARE]


class DenseSoftmax(Method):
    """`softmax_attention` by plain products, in float32 or better. Time and memory grow with T S.

    Keys and values of two widths cost what they cost, where the fused kernels need both at the wider one.
    """

    name = "dense-softmax"
    exact = True
    is_dense = True

    def serves(self, sizes: RequestSizes) -> bool:
        return fits_densely(sizes)

    def kind(self, sizes: RequestSizes) -> str:
        return f"{self.name} with a mask" if sizes.is_limited else self.name

    def check(self, request: AttentionRequest) -> None:
        check_dense(self, request)

    def attend(self, request: AttentionRequest) -> Tensor:
        q = request.q
        with without_autocast(q):
            weights = all_weights(q, request.k, request.dense_mask(), request.scale)
            return (weights @ share(request.v, q.shape[1]).to(weights.dtype)).to(q.dtype)

    def work(self, sizes: RequestSizes) -> dict[str, float]:
        from porism.layers.attention.softmax.cost import dense_work

        return dense_work(sizes)

    def trials(self, kind: str, device: str) -> list[RequestSizes]:
        pattern = FULL if kind == self.name else CAUSAL
        return [trial(*some, device, pattern, is_dense=True) for some in DENSE]


def check_dense(method: Method, request: AttentionRequest) -> None:
    """Refuses what methods do not know that hold all weights."""
    if request.cu_seqlens is not None or request.dropout_p:
        method.refuse("cu_seqlens or dropout_p", "Pad the sequences with key_padding_mask, and drop from the answer.")


SOFTMAX, DENSE_SOFTMAX = Softmax(), DenseSoftmax()


def attend(request: AttentionRequest) -> Tensor:
    """Softmax attention by torch's fused kernels, or by its own products where they do not serve."""
    if request.cu_seqlens is not None:
        batch, pack = request.padded()
        if request.pattern.is_decodable:
            # Pads come last, so that who never attends ahead never attends to one.
            batch = replace(batch, key_padding_mask=None)
        return pack(attend(batch))
    # The fused kernels know this one limit by name, and only if it is alone.
    alone = request.offset == 0 and request.key_padding_mask is None and request.attn_mask is None
    causal = alone and request.pattern.kind == "causal"
    limits = None if causal or (alone and request.pattern.kind == "full") else request.dense_mask()
    return _fused(request, limits, causal)


def _fused(request: AttentionRequest, limits: Mask | None, causal: bool) -> Tensor:
    q, k, v, scale, dropout_p = request.q, request.k, request.v, request.scale, request.dropout_p
    D, H = q.shape[-1], v.shape[-1]
    if D != H:
        # Kernels for keys and values of two widths are slow or absent. Zeros change no product, and are cut off again.
        q, k, v = (pad(x, (0, max(D, H) - x.shape[-1])) for x in (q, k, v))
    grouped = False
    if q.shape[1] != k.shape[1]:
        if _fast_with_groups(q, limits):
            grouped = True
        else:
            k, v = share(k, q.shape[1]), share(v, q.shape[1])
    answer = scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=None if limits is None else limits.pairs,
        dropout_p=dropout_p,
        is_causal=causal,
        scale=scale,
        enable_gqa=grouped,
    )
    answer = answer[..., :H] if D > H else answer
    return answer if limits is None else limits.hide_blind(answer)


def _fast_with_groups(q: Tensor, limits: Mask | None) -> bool:
    """On a GPU only the flash kernel shares keys among heads, and it takes no mask and no single precision."""
    return not q.is_cuda or (limits is None and q.dtype in (torch.float16, torch.bfloat16))


def all_weights(q: Tensor, k: Tensor, limits: Mask | None, scale: float, dropout_p: float = 0.0) -> Tensor:
    """All weights at once, (B, A, T, S), in float32 or better, as kernels have them."""
    exact = torch.promote_types(q.dtype, torch.float32)
    with without_autocast(q):
        logits = (scale * q.to(exact)) @ share(k, q.shape[1]).to(exact).mT
        weights = (logits if limits is None else limits.added_to(logits)).softmax(-1)
        return dropout(weights if limits is None else limits.hide_blind(weights), dropout_p)
