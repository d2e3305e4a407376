"""The functional form: exact near, series far, in one pass over the length."""

from collections.abc import Sequence

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.cache import Cache
from porism.layers.autocast import without_autocast
from porism.layers.hybrid.function import hybrid
from porism.layers.hybrid.state import HybridState
from porism.layers.hybrid.walks import Task
from porism.layers.operands import check_whole
from porism.layers.pattern import CAUSAL, FULL, Pattern
from porism.layers.request import AttentionRequest
from porism.layers.taylor.features import check_features, choose_map
from porism.layers.taylor.series import check_order
from porism.layers.taylor.state import TaylorState
from porism.layers.taylor.texts import Texts


def hybrid_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int,
    order: int = 2,
    pattern: Pattern = FULL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
    allow_odd: bool = False,
) -> Tensor:
    """Attention to all keys: with softmax's weight exp(s) where |i - j| < window, and with its series beyond.

    >>> q, k, v = torch.randn(2, 8, 1000, 16), torch.randn(2, 2, 1000, 16), torch.randn(2, 2, 1000, 64)
    >>> hybrid_attention(q, k, v, window=64, pattern=Pattern("causal")).shape      # 8 query heads share 2 key heads
    torch.Size([2, 8, 1000, 64])

    Both kinds of weight share one denominator, so that this is softmax attention but for the series' error on far keys.
    Time and memory are linear in the length. A query that looks at no key gives 0.

    - `window`: W, from 1 on; the W keys up to and including a query's own place are near, in a full pattern also the
      W - 1 after it
    - `order`: K, even; an odd one needs `allow_odd`, since its weights can turn negative
    - `pattern`: full or causal
    - `key_padding`: (B, S), True for a key that is only padding
    - `cumulative_lengths`: where texts start that lie end to end in a batch of 1, and the end
    - `offset`: the place of the first query

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    check_settings(window, order, pattern, dropout_p, allow_odd)
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, offset=offset, layer="hybrid"
    )
    task = _task(window, order, pattern, number, q, offset)
    if cumulative_lengths is None:
        return _attend(q, k, v, key_padding, task)[0]
    texts = Texts(q, k, v, cumulative_lengths, key_padding, offset, layer="hybrid")
    return texts.end_to_end(_attend(*texts.padded, task)[0])


def hybrid_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: HybridState | None = None,
    *,
    window: int,
    order: int = 2,
    pattern: Pattern = CAUSAL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    allow_odd: bool = False,
) -> tuple[Tensor, HybridState]:
    """New tokens that continue a text: what the whole text in one causal pass would answer for them, and the state.

    >>> q, k, v = torch.randn(3, 2, 8, 10, 16)                          # three times B A T D
    >>> _, state = hybrid_decode(q[:, :, :9], k[:, :, :9], v[:, :, :9], window=4)
    >>> y, state = hybrid_decode(q[:, :, 9:], k[:, :, 9:], v[:, :, 9:], state, window=4)
    >>> state.near.k.shape, state.far.sums.shape                        # as large after ten tokens as after a million
    (torch.Size([2, 8, 3, 16]), torch.Size([2, 8, 161, 16]))

    Gradients flow through the state too. `key_padding` is that of the new tokens, (B, T).
    """
    check_settings(window, order, pattern, 0.0, allow_odd)
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, layer="hybrid"
    )
    if pattern.looks_ahead:
        raise ShapeError(
            f"hybrid: a {pattern.kind} pattern looks at tokens that are not there yet, so it cannot be decoded. "
            "Choose causal."
        )
    if k.shape[2] != q.shape[2]:
        raise ShapeError(
            f"hybrid: decoding takes a key for each new token, and {q.shape[2]} queries came with {k.shape[2]} keys. "
            "Give those of the new tokens only: the state has the others."
        )
    task = _task(window, order, pattern, number, q, return_state=True)
    tokens, first = Cache(k, v, key_padding), None
    if state is not None:
        _check_state(state, k, v, task)
        tokens, first = tokens.behind(state.near, layer="hybrid"), state.far.joined().flatten(0, 1)
    # Places count from the first key of the state.
    task = task._replace(offset=tokens.length - k.shape[2])
    answer, last = _attend(q, tokens.k, tokens.v, tokens.padding, task, first)
    far = TaylorState.split(last.unflatten(0, k.shape[:2]), order, choose_map(None, order))
    return answer, HybridState(tokens.last(window - 1), far, window)


def check_settings(window: int, order: int, pattern: Pattern, dropout_p: float, allow_odd: bool) -> None:
    """Refuses what the layer cannot be built for."""
    check_whole("hybrid", "window", window)
    check_order(order, allow_odd, layer="hybrid")
    if not isinstance(pattern, Pattern):
        raise ShapeError(f"hybrid: the pattern is {pattern!r}, wanted a Pattern, such as Pattern('causal').")
    if pattern.kind not in ("full", "causal"):
        raise ShapeError(
            f"hybrid: the pattern is {pattern.kind}, wanted full or causal: near keys are those in the window, and all "
            "others are far. Use WindowAttention for windows alone, or TaylorAttention for block-causal."
        )
    if dropout_p:
        raise ShapeError(
            f"hybrid: dropout_p is {dropout_p}, and far keys have no single weights to drop: they live in sums. "
            "Set it to 0, or drop from the answer."
        )


def _task(
    window: int, order: int, pattern: Pattern, scale: float, q: Tensor, offset: int = 0, return_state: bool = False
) -> Task:
    check_features(choose_map(None, order), order, q.shape[3], layer="hybrid")
    return Task(window, order, pattern.kind == "causal", scale, offset, return_state)


def _check_state(state: HybridState, k: Tensor, v: Tensor, task: Task) -> None:
    if not isinstance(state, HybridState):
        raise ShapeError(
            f"hybrid: the state is a {type(state).__name__}, wanted the HybridState that the same layer gave."
        )
    state.check(k, v, task.window, task.order)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task, first: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The answer and the last state (N, M, H+1)."""
    with without_autocast(q):
        return hybrid(q, k, v, key_padding, first, task)
