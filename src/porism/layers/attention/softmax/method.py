"""Softmax attention over any pattern: the method, through the fused kernels of torch."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import dropout, pad, scaled_dot_product_attention

from porism.layers.attention.masks import Mask
from porism.layers.attention.method import DENSE, SQUARE, Method, fits_densely, trial
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes, share
from porism.layers.attention.softmax.cache import KVCache
from porism.layers.autocast import without_autocast
from porism.layers.operators import is_unobserved


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
        # A backward pass would read keys and values where later tokens are written.
        tokens = new.appended_to(state) if is_unobserved(request.q) else new.after(state)
        k, v = tokens.read()
        before = tokens.length - new.length
        whole = replace(request, k=k, v=v, key_padding_mask=tokens.padding, offset=before)
        answer = _by_products(whole) if _is_one_query_of_two_widths(whole) else attend(whole)
        # With a state before them the tokens were copied already.
        return answer, tokens.last(tokens.length) if state is None else tokens

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
    # As a branch, which is a constant of the compiler also where the offset is a variable.
    causal = True if alone and request.pattern.kind == "causal" else False  # noqa: SIM210
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


def _is_one_query_of_two_widths(request: AttentionRequest) -> bool:
    """Whether fused kernels would need a padded copy of all keys or values for a single query a head, for nothing.

    Products of half types would round the logits, and where somebody records or counts, attention is one operator.
    """
    q, k, v = request.q, request.k, request.v
    alone = q.shape[2] == 1 and q.shape[3] != v.shape[3] and q.dtype in (torch.float32, torch.float64)
    return alone and not request.dropout_p and is_unobserved(q, k, v)


def _by_products(request: AttentionRequest) -> Tensor:
    """The answer to one query a head, (B, A, 1, H), from keys and values as they are, each read once for its group."""
    (B, A, _, D), G, H = request.q.shape, request.k.shape[1], request.v.shape[3]
    limits = request.dense_mask()
    with without_autocast(request.q):
        logits = (request.scale * request.q).view(B, G, A // G, D) @ request.k.mT  # B G A/G S
        weights = (logits if limits is None else limits.added_to(logits)).softmax(-1)
        answer = (weights @ request.v).view(B, A, 1, H).data  # no view, so that users may change it
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
