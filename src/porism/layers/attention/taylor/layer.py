"""The attention layer that people import."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers.attention.heads import Heads
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.taylor.error import Watch, check_limit, series_error
from porism.layers.attention.taylor.feature_maps import check_order, choose_map
from porism.layers.attention.taylor.functional import TaylorState, taylor_attention, taylor_decode
from porism.layers.attention.taylor.kernels.spans import check_pattern
from porism.layers.attention.taylor.kernels.triton import kernel_in_use

STARTING_DEVIATION = 1 / 4


class TaylorAttention(Heads):
    """Multi-head attention by the series of the exponential: time and memory linear in the length.

    o = concat over heads of phi(q_a) (phi(k_a)^T v_a) / phi(q_a) (phi(k_a)^T 1), times W_O, phi of C(D+K, K) features

    >>> layer = TaylorAttention(512, 8, head_dim=16, normalize=True, batch_first=True)
    >>> y, _ = layer(torch.randn(2, 10_000, 512), is_causal=True)       # B T A*H -> B T A*H
    >>> token, state = layer.decode(torch.randn(2, 1, 512))              # a state that never grows

    The series is close to softmax while logits are small. The layer measures how close on the first call and on every
    hundredth, and warns once (`SeriesWarning`) where the answer is off by more than `warn_above`; None never measures.
    `normalize` bounds the logits; its temperature starts where the logits of random vectors deviate by 1/4.

    - `order`, `map`, `allow_odd`: see `taylor_attention`
    - `pattern`: full, causal or block-causal; `is_causal` makes a full one causal

    `Heads` tells the other options. There is no dropout of weights, since no single weight is ever there. The state of
    `decode` is a `TaylorState`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        *,
        order: int = 2,
        map: str | None = None,
        pattern: Pattern = FULL,
        allow_odd: bool = False,
        warn_above: float | None = 0.05,
        **options: Any,
    ) -> None:
        if dropout:
            raise ShapeError(
                f"taylor: dropout is {dropout}, and the series has no single weights to drop: they live in sums. "
                "Set it to 0, or drop from the answer."
            )
        check_order(order, allow_odd)
        check_pattern(pattern)
        check_limit("warn_above", warn_above)
        super().__init__(embed_dim, num_heads, **options)
        self.order = order
        self.map = choose_map(map, order)
        self.pattern = pattern
        self.allow_odd = allow_odd
        self.watch = None if warn_above is None else Watch(warn_above)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.temperature is not None:
            nn.init.constant_(self.temperature, STARTING_DEVIATION * self.head_dim**0.5)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        key_padding: Tensor | None,
        cumulative_lengths: Sequence[int] | Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        if is_causal and self.pattern.kind == "block-causal":
            raise ShapeError(
                "taylor: is_causal came for a layer whose pattern is block-causal. Leave out one of the two."
            )
        pattern = CAUSAL if is_causal else self.pattern
        if self.watch is not None and self.watch.is_due(q):
            error = series_error(
                q,
                k,
                v,
                order=self.order,
                map=self.map,
                pattern=pattern,
                scale=self.scale,
                key_padding=key_padding,
                cumulative_lengths=cumulative_lengths,
                allow_odd=self.allow_odd,
                limit=self.watch.limit,
            )
            self.watch.judge(error, self.order)
        return taylor_attention(
            q,
            k,
            v,
            order=self.order,
            map=self.map,
            pattern=pattern,
            scale=self.scale,
            key_padding=key_padding,
            cumulative_lengths=cumulative_lengths,
            allow_odd=self.allow_odd,
        )

    def decode_heads(self, q: Tensor, k: Tensor, v: Tensor, state: TaylorState | None) -> tuple[Tensor, TaylorState]:
        if self.pattern.kind == "block-causal":
            raise ShapeError(
                "taylor: a block-causal pattern looks at tokens that are not there yet, so it cannot be decoded. "
                "Choose causal."
            )
        return taylor_decode(q, k, v, state, order=self.order, map=self.map, scale=self.scale, allow_odd=self.allow_odd)

    def kernel_for(self, q: Tensor) -> str:
        return kernel_in_use(q, self.value_dim, self.order, self.map)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, order={self.order}, map={self.map!r}, {self.pattern}"
