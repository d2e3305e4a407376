"""Which way to attend is the cheapest, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import index
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from porism.errors import ShapeError
from porism.layers.attention.heads import Heads
from porism.layers.attention.methods import ORDER, WAYS, Options, candidates
from porism.layers.attention.packed import starts
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest, Question, simplest
from porism.layers.attention.softmax.functional import Cache
from porism.layers.attention.taylor.feature_maps import check_order
from porism.layers.attention.window.functional import window_decode
from porism.layers.operands import check_whole

DENSE = 1.05
"""How many times as fast a way has to be that holds all weights: what it holds, others may need."""


@dataclass(frozen=True)
class Choice:
    """A way to attend, and what it and the others were expected to take.

    >>> print(choose(q, k, v, pattern=Pattern("sliding", window=64)))
    window: 3.1 ms predicted against 41 ms for softmax with a dense mask (T=4,096, W=64; cpu, calibrated 2026-11-15)

    `seconds` is empty where nothing could be measured. Then FLOPs have decided.
    """

    name: str
    asked: Question
    flops: dict[str, float]
    seconds: dict[str, float]
    calibrated: str = ""
    """The day of the latest measurement that was used, and whether it can be trusted."""

    def __str__(self) -> str:
        asked = self.asked
        sizes = [f"T={asked.T:,}"] + ([f"S={asked.S:,}"] if asked.S != asked.T else [])
        sizes += [f"W={window:,}" for window in (asked.pattern.window, asked.window) if window is not None]
        where = f"{', '.join(sizes)}; {asked.device}"
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
        return WAYS[name].kind(self.asked)

    def _amount(self, amount: float) -> str:
        from porism.costing.predicting.time import readable

        return readable(amount) if self.seconds else f"{amount / 1e9:.3g} GFLOP"


def decide(asked: Question, mechanism: str = "auto") -> Choice:
    """The cheapest of the candidates; by FLOPs where one of them could not be measured."""
    # Formulas bring sympy with them, which a layer that is only called has no use for.
    from porism.layers.attention.calibration import rates
    from porism.layers.attention.work import work

    ways = candidates(asked, mechanism)
    amounts = {way.name: work(way.name, asked) for way in ways}
    flops = {name: some["flops"] for name, some in amounts.items()}
    found = {way.name: rates(way, asked) for way in ways} if len(ways) > 1 else {}
    known = {name: some for name, some in found.items() if some is not None}
    if len(known) < len(ways):
        # What moving all weights takes, FLOPs do not tell.
        lean = [way.name for way in ways if not way.is_dense]
        return Choice(min(lean, key=flops.__getitem__), asked, flops, {})
    seconds = {name: some.seconds(amounts[name], asked.backward) for name, some in known.items()}
    chosen = min(seconds, key=lambda name: seconds[name] * (DENSE if WAYS[name].is_dense else 1))
    calm = all(some.is_calm for some in known.values())
    calibrated = max(some.date for some in known.values()) + ("" if calm else " while other work disturbed it")
    return Choice(chosen, asked, flops, seconds, calibrated)


def measure(asked: Question, mechanism: str = "auto") -> None:
    """Measures the candidates again."""
    from porism.layers.attention.calibration import rates

    for way in candidates(asked, mechanism):
        rates(way, asked, refresh=True)


CHOOSING = ("auto", "series")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mechanism: str = "auto",
    pattern: Pattern = FULL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
    order: int | None = None,
    window: int | None = None,
    state: None = None,
) -> Tensor:
    """Attention by the mechanism that is asked for; "auto" is the cheapest that computes what is asked for.

    >>> q, k, v = torch.randn(3, 1, 8, 4096, 64)
    >>> near = Pattern("sliding", window=64)
    >>> y = attention(q, k, v, pattern=near)
    >>> print(choose(q, k, v, pattern=near))
    window: 3.1 ms predicted against 41 ms for softmax with a dense mask (T=4,096, W=64; cpu, calibrated 2026-11-15)

    "auto" never leaves the class of what is asked for: all that it chooses among gives the same numbers, up to
    rounding. What may be approximated has to be said, by `order` and `window`:

    - neither: softmax over the pattern, by "softmax" (torch's fused kernel, with a dense mask where it needs one),
      "window" (only the pairs in a window) or "dense softmax" (plain products, where all weights fit)
    - `order`: the series of that order may stand in for the exponential: also "taylor" and "dense taylor"
    - `order` and `window`: the same, but keys nearer than the window stay exact: also "hybrid"

    All these are mechanisms that can be named; "series" is the cheaper one of the two ways to take the series. The
    first choice between mechanisms measures them on the device, which takes a few seconds, and keeps what it found.

    - `pattern`, `scale`, `key_padding`, `cumulative_lengths`, `dropout_p`, `offset`: see `softmax_attention`
    - `state`: none; a text is continued by the decoding function of a mechanism, as `softmax_decode`

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    check_settings(mechanism, order, window, state)
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, dropout_p=dropout_p, offset=offset
    )
    options = Options(pattern, number, key_padding, cumulative_lengths, dropout_p, offset, order, window)
    if mechanism in CHOOSING:
        facts = _facts(q, k, v, options)
        mechanism = str(_chosen(mechanism, *facts))
        pattern, offset = simplest(pattern, facts.T, facts.S, offset)
        options = options._replace(pattern=pattern, offset=offset)
    return WAYS[mechanism].attend(q, k, v, options)


def choose(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mechanism: str = "auto",
    pattern: Pattern = FULL,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
    order: int | None = None,
    window: int | None = None,
    refresh: bool = False,
) -> Choice:
    """What `attention` would choose for these arguments, what each way was expected to take, and why: `print` it.

    `refresh` measures the ways on the device again. Dropout is not part of what was measured.
    """
    check_settings(mechanism, order, window)
    if mechanism not in CHOOSING:
        raise ShapeError(
            f"attention: mechanism {mechanism!r} leaves nothing to choose. Give {' or '.join(map(repr, CHOOSING))}."
        )
    q, k, v, _, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, key_padding=key_padding, dropout_p=dropout_p, offset=offset
    )
    options = Options(pattern, None, key_padding, cumulative_lengths, dropout_p, offset, order, window)
    facts = _facts(q, k, v, options)
    if refresh:
        _decided.cache_clear()
        measure(_question(mechanism, torch.get_num_threads(), *facts), mechanism)
    return _decide(mechanism, *facts)


class _Facts(NamedTuple):
    """What there is to know of the tensors without a look into them, as plain as the compiler's constants are."""

    B: int
    A: int
    T: int
    S: int
    D: int
    H: int
    pattern: tuple[Any, ...]
    offset: int
    padded: bool
    ragged: bool
    keeps_all: bool
    backward: bool
    order: int | None
    window: int | None
    device: torch.device
    dtype: torch.dtype
    hollow: bool


def _facts(q: Tensor, k: Tensor, v: Tensor, options: Options) -> _Facts:
    """Of operands that an `AttentionRequest` has checked."""
    # A size that the compiler holds for a variable becomes a constant by this.
    B, A, T, D = (index(size) for size in q.shape)
    S, H = index(k.shape[2]), index(v.shape[3])
    ragged = options.cumulative_lengths is not None
    if options.cumulative_lengths is not None:
        lengths = [end - start for start, end in pairwise(starts(options.cumulative_lengths, T))]
        B, T, S = len(lengths), max(lengths), max(lengths)
    pattern = options.pattern
    return _Facts(
        *(B, A, T, S, D, H),
        # Field by field: of a pattern that is made while it traces, the compiler would hand on an empty one.
        pattern=(pattern.kind, pattern.window, pattern.ahead, pattern.dilation, pattern.causal_inside),
        offset=options.offset,
        padded=options.key_padding is not None or (ragged and pattern.looks_ahead),
        ragged=ragged,
        keeps_all=not options.dropout_p,
        backward=torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad),
        order=options.order,
        window=options.window,
        device=q.device,
        dtype=q.dtype,
        hollow=isinstance(q, FakeTensor) or q.is_meta,
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _chosen(mechanism: str, *facts: Any) -> str:
    """The compiler calls this while it traces, and takes the answer for a constant of these sizes."""
    return _decide(mechanism, *facts).name


def _decide(mechanism: str, *facts: Any) -> Choice:
    threads, hollow = torch.get_num_threads(), facts[-1]
    if hollow:
        # What cannot be measured now may be known the next time.
        return decide(_question(mechanism, threads, *facts), mechanism)
    return _decided(mechanism, threads, *facts)


@lru_cache(maxsize=10_000)
def _decided(mechanism: str, threads: int, *facts: Any) -> Choice:
    return decide(_question(mechanism, threads, *facts), mechanism)


def _question(mechanism: str, threads: int, *facts: Any) -> Question:
    found = _Facts(*facts)._asdict()
    pattern, offset = simplest(Pattern(*found["pattern"]), found["T"], found["S"], found["offset"])
    order = ORDER if mechanism == "series" and found["order"] is None else found["order"]
    found |= {"pattern": pattern, "offset": offset, "order": order, "device": str(found["device"]), "threads": threads}
    return Question(**found)


def check_settings(mechanism: str, order: int | None, window: int | None, state: object = None) -> None:
    known = (*CHOOSING, *WAYS)
    if mechanism not in known:
        raise ShapeError(f"attention: there is no mechanism {mechanism!r}. Choose from {', '.join(map(repr, known))}.")
    if state is not None:
        raise ShapeError(
            "attention: a state came, and every mechanism has one of its own. Continue a text with softmax_decode, "
            "window_decode, taylor_decode or hybrid_decode."
        )
    if order is not None:
        check_order(order, allow_odd=False)
        if mechanism not in ("auto", "series", "taylor", "dense taylor", "hybrid"):
            raise ShapeError(
                f"attention: order is {order}, and mechanism {mechanism!r} has no series. Leave it out, or take 'auto'."
            )
    if window is not None:
        check_whole("attention", "window", window)
    if window is not None and mechanism not in ("auto", "hybrid"):
        raise ShapeError(
            f"attention: window is {window}, and mechanism {mechanism!r} has none beside its pattern's. "
            "Give it to the pattern, or take 'hybrid'."
        )
    if window is not None and mechanism == "auto" and order is None:
        raise ShapeError(
            f"attention: window is {window} without an order, so there is no series beyond it. Give order=2 too, or "
            "give the window to the pattern."
        )


class AutoAttention(Heads):
    """Multi-head attention over any pattern, by the cheapest way for the sizes that come.

    o = concat over heads of attention(q_a, k_a, v_a), times W_O

    >>> layer = AutoAttention(512, 8, pattern=Pattern("sliding", window=64), batch_first=True)
    >>> y, _ = layer(torch.randn(2, 1000, 512))                     # B T A*D -> B T A*D

    - `pattern`: any; `is_causal` makes a full one causal
    - `order`, `window`: what may be approximated, see `attention`; nothing unless told otherwise

    `Heads` tells the other options. The state of `decode` is a `Cache`. A layer that may approximate has none, since
    its whole pass and its state could go two ways.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        *,
        pattern: Pattern = FULL,
        order: int | None = None,
        window: int | None = None,
        **options: Any,
    ) -> None:
        check_settings("auto", order, window)
        super().__init__(embed_dim, num_heads, dropout, **options)
        self.pattern, self.order, self.window = pattern, order, window

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
        return attention(
            q,
            k,
            v,
            pattern=self._behind() if is_causal else self.pattern,
            scale=self.scale,
            key_padding=key_padding,
            cumulative_lengths=cumulative_lengths,
            dropout_p=self.dropout if self.training else 0.0,
            order=self.order,
            window=self.window,
        )

    def decode_heads(self, q: Tensor, k: Tensor, v: Tensor, state: Cache | None) -> tuple[Tensor, Cache]:
        if self.order is not None:
            raise ShapeError(
                "attention: AutoAttention with an order may go two ways, and a state fits only one of them. "
                "Decode with TaylorAttention or HybridAttention, or leave out the order."
            )
        return window_decode(q, k, v, state, pattern=self._behind(), scale=self.scale)

    def _behind(self) -> Pattern:
        if self.pattern.kind == "full":
            return CAUSAL
        if self.pattern.looks_ahead:
            raise ShapeError(
                f"attention: is_causal or decoding came for a layer whose {self.pattern.kind} pattern looks ahead. "
                "Give a pattern that does not."
            )
        return self.pattern

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.pattern}, order={self.order}, window={self.window}"
