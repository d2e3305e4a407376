"""Softmax attention over any pattern, through the fused kernels of torch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import dropout, pad, scaled_dot_product_attention

from porism.errors import ShapeError
from porism.layers.attention.masks import Mask, dense_mask
from porism.layers.attention.packed import pack, starts, unpack
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest, share
from porism.layers.autocast import without_autocast
from porism.layers.derivative import InPlaceWatch, first_derivative_only, own_memory


class Cache(NamedTuple):
    """The keys (B, G, S, D) and values (B, G, S, H) of all tokens so far; (B, S), True for a pad, if there was one.

    >>> k, v = torch.randn(2, 1, 8, 9, 64)                              # twice B A T D
    >>> first, new = Cache(k[:, :, :8], v[:, :, :8]), Cache(k[:, :, 8:], v[:, :, 8:])
    >>> new.behind(first).length, new.behind(first).last(3).length
    (9, 3)

    `pattern` is the one that the tokens were decoded with, since it says which of them were kept; None if nobody said.
    """

    k: Tensor
    v: Tensor
    padding: Tensor | None = None
    pattern: Pattern | None = None

    @property
    def length(self) -> int:
        return self.k.shape[2]

    def behind(self, state: "Cache | None", layer: str = "attention") -> "Cache":
        """These tokens and those of a state before them, which has to be of the same batch, heads and pattern."""
        if state is None:
            return self
        self._check_continues(state, layer)
        padding = None
        if state.padding is not None or self.padding is not None:
            padding = torch.cat([state._all_padding(), self._all_padding()], 1)
        return Cache(torch.cat([state.k, self.k], 2), torch.cat([state.v, self.v], 2), padding, self.pattern)

    def last(self, count: int) -> "Cache":
        """The last so many tokens, copied.

        A view would hold on to the memory of all the others, and would change when the caller overwrites it.
        """
        first = self.length - min(self.length, count)
        padding = None if self.padding is None else self.padding[:, first:].clone()
        return Cache(self.k[:, :, first:].clone(), self.v[:, :, first:].clone(), padding, self.pattern)

    def _all_padding(self) -> Tensor:
        if self.padding is not None:
            return self.padding
        return self.k.new_zeros(self.k.shape[0], self.length, dtype=torch.bool)

    def _check_continues(self, state: "Cache", layer: str) -> None:
        """Refuses the state of another batch, layer or pattern."""
        if not isinstance(state, Cache):
            raise ShapeError(
                f"{layer}: the state is a {type(state).__name__}, wanted a Cache. Pass what the same function gave."
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
        wanted = self.k.shape[0], self.length
        return (
            self.padding.shape == wanted and self.padding.dtype == torch.bool and self.padding.device == self.k.device
        )


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    pattern: Pattern = FULL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
) -> Tensor:
    """softmax(scale q k^T) v over the keys that each query looks at.

    >>> q, k, v = torch.randn(2, 8, 10, 64), torch.randn(2, 2, 10, 64), torch.randn(2, 2, 10, 32)
    >>> softmax_attention(q, k, v, pattern=Pattern("causal")).shape     # 8 query heads share 2 key heads
    torch.Size([2, 8, 10, 32])

    Full and causal patterns run in the fused kernel without any mask; others build a dense one, T S of memory, where
    `porism.layers.window_attention` needs T W. A query that looks at no key gives 0.

    - `key_padding`: (B, S), True for a key that is only padding
    - `cumulative_lengths`: where texts start that lie end to end in a batch of 1, and the end
    - `mask`: fit for (B, A, T, S), True for a pair to look at, or numbers to add to the logits
    - `dropout_p`: the probability of dropping a weight
    - `offset`: the place of the first query

    As behind torch's scaled_dot_product_attention, an answer that was changed in place is refused by backward().

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, dropout_p=dropout_p, offset=offset
    )
    return attend(q, k, v, pattern, number, key_padding, cumulative_lengths, dropout_p, offset, mask)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
    mask: Tensor | None = None,
    changeable: bool = False,
) -> Tensor:
    """`softmax_attention` of operands that an `AttentionRequest` has checked.

    An answer that is `changeable` may be changed in place.
    """
    if cumulative_lengths is not None:
        if key_padding is not None or mask is not None or offset:
            raise ShapeError(
                "attention: cumulative_lengths came with key_padding, a mask or an offset. Texts end to end need none."
            )
        return _ragged(q, k, v, pattern, scale, cumulative_lengths, dropout_p)
    # The fused kernels know this one limit by name, and only if it is alone.
    causal = pattern.kind == "causal" and offset == 0 and key_padding is None and mask is None
    limits = dense_mask(q, k, FULL if causal else pattern, offset, key_padding, mask)
    return _fused(q, k, v, limits, causal, scale, dropout_p, changeable)


def softmax_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Cache | None = None,
    *,
    pattern: Pattern = CAUSAL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
) -> tuple[Tensor, Cache]:
    """New tokens that continue a text: what the whole text in one pass would answer for them, and the longer cache.

    >>> q, k, v = torch.randn(3, 2, 8, 10, 64)                      # three times B A T D
    >>> y, cache = softmax_decode(q[:, :, :9], k[:, :, :9], v[:, :, :9])
    >>> y, cache = softmax_decode(q[:, :, 9:], k[:, :, 9:], v[:, :, 9:], cache)
    >>> cache.k.shape
    torch.Size([2, 8, 10, 64])

    `key_padding` is that of the new tokens, (B, T). The cache is a copy of the keys and values, and gradients flow
    through it. It belongs to the pattern, the batch and the dtype that it was made with.
    """
    q, k, v, number, key_padding = AttentionRequest.make(q, k, v, pattern=pattern, scale=scale, key_padding=key_padding)
    check_decoding(q, k, pattern)
    return decode(q, k, v, state, pattern, number, key_padding)


def decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Cache | None,
    pattern: Pattern,
    scale: float,
    key_padding: Tensor | None = None,
) -> tuple[Tensor, Cache]:
    """`softmax_decode` of operands that an `AttentionRequest` and `check_decoding` have checked."""
    tokens = Cache(k, v, key_padding, pattern).behind(state)
    before = tokens.length - k.shape[2]
    answer = attend(q, tokens.k, tokens.v, pattern, scale, tokens.padding, offset=before)
    # With a state before them the tokens were copied already.
    return answer, tokens.last(tokens.length) if state is None else tokens


def check_decoding(q: Tensor, k: Tensor, pattern: Pattern) -> None:
    """Refuses what does not continue a text token by token."""
    if pattern.looks_ahead:
        raise ShapeError(
            f"attention: this {pattern.kind} pattern looks at tokens that are not there yet, so it cannot be decoded. "
            "Choose causal, sliding without ahead, or block with causal_inside."
        )
    if k.shape[2] != q.shape[2]:
        raise ShapeError(
            f"attention: decoding takes a key for each new token, got {q.shape[2]} queries and {k.shape[2]} keys. "
            "Give those of the new tokens only: the state has the others."
        )


def _fused(
    q: Tensor, k: Tensor, v: Tensor, limits: Mask | None, causal: bool, scale: float, dropout_p: float, changeable: bool
) -> Tensor:
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
    # With a mask the answer is copied anyway, and with dropout it is not read again.
    read_again = limits is None and dropout_p == 0 and not torch.compiler.is_compiling()
    if changeable and read_again and answer.requires_grad:
        handed_on: Tensor = _Changeable.apply(answer, q, k, v, (causal, scale, grouped))  # type: ignore[no-untyped-call]
        return handed_on[..., :H] if D > H else handed_on
    answer = answer[..., :H] if D > H else answer
    answer = answer if limits is None else answer.masked_fill(limits.blind, 0)
    if not answer.requires_grad:
        return answer
    guarded: Tensor = _FirstDerivative.apply(answer)  # type: ignore[no-untyped-call]
    return guarded


def _fast_with_groups(q: Tensor, limits: Mask | None) -> bool:
    """On a GPU only the flash kernel shares keys among heads, and it takes no mask and no single precision."""
    return not q.is_cuda or (limits is None and q.dtype in (torch.float16, torch.bfloat16))


def all_weights(q: Tensor, k: Tensor, limits: Mask | None, scale: float, dropout_p: float = 0.0) -> Tensor:
    """All weights at once, (B, A, T, S), in float32 or better, as kernels have them."""
    exact = torch.promote_types(q.dtype, torch.float32)
    with without_autocast(q):
        logits = (scale * q.to(exact)) @ share(k, q.shape[1]).to(exact).mT
        weights = (logits if limits is None else limits.added_to(logits)).softmax(-1)
        return dropout(weights if limits is None else weights.masked_fill(limits.blind, 0), dropout_p)


def _ragged(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float,
    cumulative_lengths: Sequence[int] | Tensor,
    dropout_p: float,
) -> Tensor:
    """Texts end to end, as a padded batch."""
    if q.shape[2] != k.shape[2]:
        raise ShapeError(
            f"attention: with cumulative lengths each text attends to itself, and {q.shape[2]} queries came with "
            f"{k.shape[2]} keys. Pad the texts with key_padding."
        )
    borders = starts(cumulative_lengths, q.shape[2])
    (q, padding), (k, _), (v, _) = (unpack(x, borders) for x in (q, k, v))
    # Pads come last, so that who never looks ahead never sees one.
    seen = padding if pattern.looks_ahead else None
    return pack(attend(q, k, v, pattern, scale, seen, dropout_p=dropout_p), borders)


class _FirstDerivative(torch.autograd.Function):
    """Hands on what it gets. Torch's kernels have no second derivative, and this says so as our own layers do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return own_memory(x) if torch.compiler.is_compiling() else x.detach()

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class _Changeable(torch.autograd.Function):
    """Hands on what torch's kernel answered to q, k and v, so that it may be changed in place; no second derivatives.

    On the way back the kernel reads its own answer. Where that was changed, the way back is taken once more from q, k
    and v, and not from the answer.
    """

    @staticmethod
    def forward(ctx: Any, answer: Tensor, q: Tensor, k: Tensor, v: Tensor, options: tuple[bool, float, bool]) -> Tensor:
        ctx.save_for_backward(q, k, v)
        handed_on = answer.data
        ctx.watch = InPlaceWatch(handed_on)
        ctx.options = options
        return handed_on

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.watch.changed:
            return gradient, None, None, None, None
        q, k, v = (x.detach().requires_grad_() for x in ctx.saved_tensors)
        causal, scale, grouped = ctx.options
        with torch.enable_grad(), without_autocast(gradient):
            again = scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)
            return None, *torch.autograd.grad(again, (q, k, v), gradient), None
