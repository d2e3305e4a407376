"""Both passes as launches: the series' sums over chunks and their scan, then every tile of tokens by itself."""

import torch
import triton
from torch import Tensor

from porism.layers.attention.hybrid.gradient import HybridGradient
from porism.layers.attention.hybrid.kernels.cpu import Passed
from porism.layers.attention.hybrid.kernels.spans import HybridSettings
from porism.layers.attention.hybrid.kernels.triton.gradient import reach_keys, reach_queries
from porism.layers.attention.hybrid.kernels.triton.outputs import answer_queries
from porism.layers.attention.hybrid.kernels.triton.sizes import sizes
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.taylor.kernels.cpu import SeriesSettings
from porism.layers.attention.taylor.kernels.triton.launches import SeriesPass, Slots


class HybridPass(SeriesPass):
    """The series' pass over chunks, with a window at its end."""

    def __init__(self, settings: HybridSettings, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None) -> None:
        super().__init__(SeriesSettings("rolled", 2, CAUSAL, settings.scale), q, k, v, key_padding)
        self.given = q, k, v
        # A wider window than the text has nothing more in it.
        self.window = min(settings.window, self.T)
        self.sizes = sizes(self.D, self.H, self.number)

    def forward(self) -> Passed:
        launch, slots = self.sizes.answer, self._before_queries(self.sizes.answer.own)
        # Tokens before heads in memory, as a projection after it reads them.
        answer = self.q.new_empty(self.B, self.T, self.A, self.H).transpose(1, 2)
        totals, peaks = (self.q.new_empty(self.B, self.A, self.T, 1, dtype=torch.float32) for _ in range(2))
        sums, weights = (self.q, self.q) if slots is None else slots[:2]
        answer_queries[(triton.cdiv(self.T, launch.own) * self.B * self.A,)](
            self.q, self.k, self.v, self.padding, self.seeing(None), sums, weights, answer, totals, peaks,
            *self.q.stride()[:3], *self.k.stride()[:3], *self.v.stride()[:3], *answer.stride()[:3],
            self.T, self.A, sums.shape[1], self._units(launch), self.window, self.scale,
            STATE=slots is not None, QUERIES=launch.own, KEYS=launch.met, **self._launched(launch),
        )  # fmt: skip
        return Passed(answer, totals, peaks)

    def backward(self, dO: Tensor, passed: Passed) -> HybridGradient:
        dz = dO if dO.stride(-1) == 1 else dO.contiguous()
        dq, dk, dv = (torch.empty_like(x) for x in (self.q, self.k, self.v))
        logs, inverses, slopes = (torch.empty_like(passed.totals) for _ in range(3))
        self._reach_queries(passed, dz, dq, logs, inverses, slopes)
        self._reach_keys(dz, dk, dv, logs, inverses, slopes)
        # Where rows had to be copied, what reaches them lies as they did.
        rows = zip(self.given, (self.q, self.k, self.v), (dq, dk, dv), strict=True)
        dq, dk, dv = (d if x is copy else torch.empty_like(x).copy_(d) for x, copy, d in rows)
        # No state came in.
        return HybridGradient(dq, dk, dv, slopes.new_empty(0))

    def _reach_queries(
        self, passed: Passed, dz: Tensor, dq: Tensor, logs: Tensor, inverses: Tensor, slopes: Tensor
    ) -> None:
        """The sums before each chunk are made once more: to keep them would cost more than to make them."""
        launch, slots = self.sizes.reach_queries, self._before_queries(self.sizes.reach_queries.own)
        sums, weights = (self.q, self.q) if slots is None else slots[:2]
        reach_queries[(triton.cdiv(self.T, launch.own) * self.B * self.A,)](
            self.q, self.k, self.v, self.padding, sums, weights, *passed, dz, dq, logs, inverses, slopes,
            *self.q.stride()[:3], *self.k.stride()[:3], *self.v.stride()[:3],
            *passed.answer.stride()[:3], *dz.stride()[:3], *dq.stride()[:3],
            self.T, self.A, sums.shape[1], self._units(launch), self.window, self.scale,
            STATE=slots is not None, QUERIES=launch.own, KEYS=launch.met, **self._launched(launch),
        )  # fmt: skip

    def _reach_keys(self, dz: Tensor, dk: Tensor, dv: Tensor, logs: Tensor, inverses: Tensor, slopes: Tensor) -> None:
        launch = self.sizes.reach_keys
        slots = None
        # Some queries stand in a chunk that is far from all the first keys.
        if triton.cdiv(launch.own - 1 + self.window, self.chunk) < triton.cdiv(self.T, self.chunk):
            slots = self.sums_after(dz, dz, inverses, slopes, None, want_first=False)
        sums, weights = (self.q, self.q) if slots is None else slots[:2]
        reach_keys[(triton.cdiv(self.T, launch.own) * self.N,)](
            self.q, self.k, self.v, self.padding, sums, weights, logs, inverses, slopes, dz, dk, dv,
            *self.q.stride()[:3], *self.k.stride()[:3], *self.v.stride()[:3],
            *dz.stride()[:3], *dk.stride()[:3], *dv.stride()[:3],
            self.T, self.G, sums.shape[1], self._units(launch), self.window, self.scale,
            STATE=slots is not None, KEYS=launch.own, QUERIES=launch.met, **self._launched(launch),
        )  # fmt: skip

    def _before_queries(self, own: int) -> Slots | None:
        """The sums over the keys before each chunk; None where not even the last tile of queries is far from one."""
        last = (self.T - 1) // own * own
        return None if last - self.window + 1 < self.chunk else self.before(None, want_last=False)


def forward(settings: HybridSettings, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None) -> Passed:
    """The answer (B, A, T, H), the sums of weights and their peaks (B, A, T, 1)."""
    return HybridPass(settings, q, k, v, key_padding).forward()


def backward(
    settings: HybridSettings, dO: Tensor, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, passed: Passed
) -> HybridGradient:
    return HybridPass(settings, q, k, v, key_padding).backward(dO, passed)
