"""Attention by the cheapest method that computes what is requested, and why it is the cheapest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.heads import Heads, refuse_added_keys
from porism.layers.attention.method import ORDER, Method
from porism.layers.attention.methods import CHOOSING, METHODS, candidates
from porism.layers.attention.pattern import FULL, Pattern
from porism.layers.attention.reach import simplest
from porism.layers.attention.request import AttentionRequest, RequestSizes
from porism.layers.attention.softmax.cache import KVCache
from porism.layers.attention.taylor.feature_maps import check_order
from porism.layers.attention.window.method import WINDOW
from porism.layers.compiling import assume_constant_result
from porism.layers.operands import check_whole

DENSE = 1.05
"""How many times as fast a method has to be that holds all weights: what it holds, others may need."""


@dataclass(frozen=True)
class Choice:
    """A method, and what it and the others were expected to take.

    >>> print(choose_attention(q, k, v, pattern=Pattern("sliding", window_size=64)))
    window: 3.1 ms predicted against 41 ms for softmax with a dense mask (T=4,096, W=64; cpu, calibrated 2026-11-15)

    `seconds` is empty where nothing could be measured. Then FLOPs have decided.
    """

    name: str
    sizes: RequestSizes
    flops: dict[str, float]
    seconds: dict[str, float]
    calibrated: str = ""
    """The day of the latest measurement that was used, and whether it can be trusted."""

    def __str__(self) -> str:
        sizes = self.sizes
        letters = [f"T={sizes.T:,}"] + ([f"S={sizes.S:,}"] if sizes.S != sizes.T else [])
        letters += [f"W={W:,}" for W in (sizes.pattern.window_size, sizes.window_size) if W is not None]
        where = f"{', '.join(letters)}; {sizes.device}"
        if len(self.flops) == 1:
            return f"{self.name}: the only way to this answer ({where})"
        state = f"calibrated {self.calibrated}" if self.seconds else "not calibrated"
        ours, *others = sorted(
            (self.seconds or self.flops).items(), key=lambda found: (found[0] != self.name, found[1])
        )
        rest = " and ".join(f"{self._amount(amount)} for {self._words(name)}" for name, amount in others)
        verb = "predicted " if self.seconds else ""
        return f"{self._words(ours[0])}: {self._amount(ours[1])} {verb}against {rest} ({where}, {state})"

    def _words(self, name: str) -> str:
        return METHODS[name].kind(self.sizes)

    def _amount(self, amount: float) -> str:
        from porism.costing.predicting.time import readable

        return readable(amount) if self.seconds else f"{amount / 1e9:.3g} GFLOP"


def attention(
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
    mechanism: str = "auto",
    order: int | None = None,
    window_size: int | None = None,
) -> Tensor:
    """Attention by the mechanism that is requested; "auto" is the cheapest that computes what is requested.

    >>> q, k, v = torch.randn(3, 1, 8, 4096, 64)
    >>> near = Pattern("sliding", window_size=64)
    >>> y = attention(q, k, v, pattern=near)
    >>> print(choose_attention(q, k, v, pattern=near))
    window: 3.1 ms predicted against 41 ms for softmax with a dense mask (T=4,096, W=64; cpu, calibrated 2026-11-15)

    "auto" never leaves the class of what is requested: all that it chooses among gives the same numbers, up to
    rounding. What may be approximated has to be given, by `order` and `window_size`:

    - neither: softmax over the pattern, by "softmax" (torch's fused kernel, with a dense mask where it needs one),
      "window" (only the pairs in a window) or "dense-softmax" (plain products, where all weights fit)
    - `order`: the series of that order may stand in for the exponential: also "taylor" and "dense-taylor"
    - `order` and `window_size`: the same, but keys nearer than the window stay exact: also "hybrid"

    All these are mechanisms that can be named; "series" is the cheaper one of the two methods that take the series. The
    first choice between mechanisms measures them on the device, which takes a few seconds, and keeps what it found.

    The other arguments are those of `softmax_attention`. A text is continued by the decoding function of a mechanism,
    as `softmax_decode`.

    Shapes: query (B, A, T, D), key (B, G, S, D), value (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    check_settings(mechanism, order, window_size)
    order = ORDER if mechanism == "series" and order is None else order
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
        window_size=window_size,
    )
    if mechanism in CHOOSING:
        return _attend(request, mechanism)
    method = METHODS[mechanism]
    method.check(request)
    return method.attend(request)


def choose_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    enable_gqa: bool = True,
    pattern: Pattern | None = None,
    key_padding_mask: Tensor | None = None,
    cu_seqlens: Sequence[int] | Tensor | None = None,
    offset: int = 0,
    mechanism: str = "auto",
    order: int | None = None,
    window_size: int | None = None,
    refresh: bool = False,
) -> Choice:
    """What `attention` would choose for these arguments, what each method was expected to take, and why: `print` it.

    >>> q, k, v = torch.randn(3, 1, 8, 4096, 64)
    >>> choose_attention(q, k, v, pattern=Pattern("sliding", window_size=64)).name
    'window'

    `refresh` measures the methods on the device again. Dropout is not part of what was measured.
    """
    check_settings(mechanism, order, window_size)
    if mechanism not in CHOOSING:
        raise ShapeError(
            f"attention: mechanism {mechanism!r} leaves nothing to choose. Give {' or '.join(map(repr, CHOOSING))}."
        )
    order = ORDER if mechanism == "series" and order is None else order
    request = AttentionRequest.make(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        enable_gqa=enable_gqa,
        pattern=pattern,
        key_padding_mask=key_padding_mask,
        cu_seqlens=cu_seqlens,
        offset=offset,
        order=order,
        window_size=window_size,
    )
    sizes = request.sizes()
    if refresh:
        _decided.cache_clear()
        for method in candidates(_resolved(sizes), mechanism):
            _rates(method, _resolved(sizes), refresh=True)
    return _choice(sizes, mechanism)


def check_settings(mechanism: str, order: int | None, window_size: int | None) -> None:
    """Refuses unknown mechanisms, and an order or a window_size that the mechanism has no use for."""
    known = (*CHOOSING, *METHODS)
    if mechanism not in known:
        raise ShapeError(f"attention: there is no mechanism {mechanism!r}. Choose from {', '.join(map(repr, known))}.")
    if order is not None:
        check_order(order, allow_odd=False)
        if mechanism in METHODS and METHODS[mechanism].exact:
            raise ShapeError(
                f"attention: order is {order}, and mechanism {mechanism!r} has no series. Leave it out, or take 'auto'."
            )
    if window_size is None:
        return
    check_whole("attention", "window_size", window_size)
    if mechanism == "series" or (mechanism in METHODS and METHODS[mechanism].exact):
        raise ShapeError(
            f"attention: window_size is {window_size}, and mechanism {mechanism!r} has none beside its pattern's. "
            "Give it to the pattern, or take 'hybrid'."
        )
    if mechanism == "auto" and order is None:
        raise ShapeError(
            f"attention: window_size is {window_size} without an order, so there is no series beyond it. "
            "Give order=2 too, or give the window_size to the pattern."
        )


def decide(sizes: RequestSizes, mechanism: str = "auto") -> Choice:
    """The cheapest of the candidates; by FLOPs where one of them could not be measured."""
    methods = candidates(sizes, mechanism)
    amounts = {method.name: method.work(sizes) for method in methods}
    flops = {name: some["flops"] for name, some in amounts.items()}
    rates = {method.name: _rates(method, sizes) for method in methods} if len(methods) > 1 else {}
    known = {name: some for name, some in rates.items() if some is not None}
    if len(known) < len(methods):
        # What moving all weights takes, FLOPs do not tell.
        lean = [method.name for method in methods if not method.is_dense]
        return Choice(min(lean, key=flops.__getitem__), sizes, flops, {})
    seconds = {name: some.seconds(amounts[name], sizes.backward) for name, some in known.items()}
    chosen = min(seconds, key=lambda name: seconds[name] * (DENSE if METHODS[name].is_dense else 1))
    calm = all(some.is_calm for some in known.values())
    calibrated = max(some.date for some in known.values()) + ("" if calm else " while other work disturbed it")
    return Choice(chosen, sizes, flops, seconds, calibrated)


class MethodTrial(NamedTuple):
    """One call of a method to time, as a calibration takes it."""

    method: Method
    sizes: RequestSizes

    def amounts(self, backward: bool) -> dict[str, float]:
        return self.method.work(self.sizes._replace(backward=backward))

    def prepare(self, backward: bool) -> Callable[[], object]:
        sizes, device = self.sizes, torch.device(self.sizes.device)
        shapes = ((sizes.T, sizes.D), (sizes.S, sizes.D), (sizes.S, sizes.H))
        draws = torch.Generator(device).manual_seed(0)  # those of the one that asks are left alone
        q, k, v = leaves = [
            torch.randn(1, sizes.A, *shape, device=device, generator=draws).to(sizes.dtype).requires_grad_(backward)
            for shape in shapes
        ]

        def forward() -> Tensor:
            request = AttentionRequest.make(
                q, k, v, pattern=sizes.pattern, order=sizes.order, window_size=sizes.window_size
            )
            return self.method.attend(request)

        if not backward:
            return forward
        gradient = torch.ones(1, sizes.A, sizes.T, sizes.H, device=device, dtype=sizes.dtype)
        return lambda: torch.autograd.grad(forward(), leaves, gradient)


class MethodWorkload(NamedTuple):
    """Calls of one kind of a method, which the calibration of a device times to find what a unit of work takes."""

    method: Method
    key: str
    sizes: RequestSizes

    def trials(self) -> Sequence[MethodTrial]:
        dtype, threads = self.sizes.dtype, self.sizes.threads
        some = self.method.trials(self.key, self.sizes.device)
        return [MethodTrial(self.method, sizes._replace(dtype=dtype, threads=threads)) for sizes in some]


def _rates(method: Method, sizes: RequestSizes, refresh: bool = False) -> Any:
    """What a unit of work takes in such a call: known, kept, or measured now; None where that cannot be."""
    from porism.costing.predicting import calibration

    workload = MethodWorkload(method, method.kind(sizes), sizes)
    device = torch.device(sizes.device)
    return calibration.rates(workload, device, sizes.dtype, sizes.threads, refresh, may_measure=sizes.has_values)


def _attend(request: AttentionRequest, mechanism: str = "auto") -> Tensor:
    sizes = request.sizes()
    pattern = sizes.pattern
    # Field by field: of a pattern that is made while it traces, the compiler would hand on an empty one, or none.
    fields = pattern.kind, pattern.window_size, pattern.lookahead, pattern.dilation, pattern.is_causal
    chosen = str(_chosen(mechanism, fields, *sizes._replace(pattern=None)))  # type: ignore[arg-type]
    pattern, offset = simplest(pattern, sizes.T, sizes.S, request.offset)
    method = METHODS[chosen]
    if not method.serves(sizes):
        method.check(request)
    return method.attend(replace(request, pattern=pattern, offset=offset))


@assume_constant_result
def _chosen(mechanism: str, pattern: tuple[Any, ...], *sizes: Any) -> str:
    """The compiler calls this while it traces, and takes the answer for a constant of these sizes."""
    return _choice(RequestSizes(*sizes)._replace(pattern=Pattern(*pattern)), mechanism).name


def _choice(sizes: RequestSizes, mechanism: str) -> Choice:
    sizes = _resolved(sizes)
    # What cannot be measured now may be known the next time.
    return _decided(sizes, mechanism) if sizes.has_values else decide(sizes, mechanism)


@lru_cache(maxsize=10_000)
def _decided(sizes: RequestSizes, mechanism: str) -> Choice:
    return decide(sizes, mechanism)


def _resolved(sizes: RequestSizes) -> RequestSizes:
    """With the simplest pattern that has the same pairs, and the threads that are there."""
    pattern, offset = simplest(sizes.pattern, sizes.T, sizes.S, sizes.offset)
    return sizes._replace(pattern=pattern, offset=offset, threads=torch.get_num_threads())


class Auto(Method):
    """The cheapest method for each request, as one method."""

    name = "auto"
    exact = False

    def serves(self, sizes: RequestSizes) -> bool:
        return True

    def attend(self, request: AttentionRequest) -> Tensor:
        return _attend(request)

    def decode(self, request: AttentionRequest, state: KVCache | None) -> tuple[Tensor, KVCache]:
        if request.order is not None:
            raise ShapeError(
                "attention: AutoAttention with an order may go two ways, and a state fits only one of them. "
                "Decode with TaylorAttention or HybridAttention, or leave out the order."
            )
        return WINDOW.decode(request, state)

    def work(self, sizes: RequestSizes) -> dict[str, float]:
        return METHODS[_choice(sizes, "auto").name].work(sizes)

    def trials(self, kind: str, device: str) -> list[RequestSizes]:
        return []


class AutoAttention(Heads):
    """Multi-head attention over any pattern, by the cheapest method for the sizes that come.

    o = concat over heads of attention(q_a, k_a, v_a), times W_O

    >>> layer = AutoAttention(512, 8, pattern=Pattern("sliding", window_size=64), batch_first=True)
    >>> y, _ = layer(torch.randn(2, 1000, 512))                     # B T A*D -> B T A*D

    - `pattern`: any; `is_causal` makes a full one causal
    - `order`, `window_size`: what may be approximated, see `attention`; nothing by default

    `Heads` lists the other options. The state of `decode` is a `KVCache`. A layer that may approximate has none, since
    its whole pass and its state could go two ways.
    """

    method = Auto()
    takes_attn_mask = True

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        v_head_dim: int | None = None,
        out_proj: bool = True,
        scale: float | Tensor | None = None,
        qk_norm: bool = False,
        pattern: Pattern | None = None,
        order: int | None = None,
        window_size: int | None = None,
    ) -> None:
        refuse_added_keys("AutoAttention", add_bias_kv, add_zero_attn)
        check_settings("auto", order, window_size)
        super().__init__(
            embed_dim,
            num_heads,
            dropout,
            bias,
            kdim=kdim,
            vdim=vdim,
            batch_first=batch_first,
            device=device,
            dtype=dtype,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            v_head_dim=v_head_dim,
            out_proj=out_proj,
            scale=scale,
            qk_norm=qk_norm,
        )
        self.pattern = FULL if pattern is None else pattern
        self.order, self.window_size = order, window_size

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.pattern}, order={self.order}, window_size={self.window_size}"
