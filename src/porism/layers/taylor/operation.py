"""The functional form: attention by the series, in one pass over the length."""

from collections.abc import Sequence
from typing import Literal, overload

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import without_autocast
from porism.layers.pattern import CAUSAL, FULL, Pattern
from porism.layers.request import AttentionRequest
from porism.layers.taylor import kernels
from porism.layers.taylor.features import check_features, choose_map
from porism.layers.taylor.function import series
from porism.layers.taylor.series import check_order
from porism.layers.taylor.spans import check_pattern
from porism.layers.taylor.state import TaylorState
from porism.layers.taylor.sums import Task
from porism.layers.taylor.texts import Texts


@overload
def taylor_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    order: int = ...,
    map: str | None = ...,
    pattern: Pattern = ...,
    scale: float | Tensor | None = ...,
    key_padding: Tensor | None = ...,
    cumulative_lengths: Sequence[int] | Tensor | None = ...,
    dropout_p: float = ...,
    offset: int = ...,
    allow_odd: bool = ...,
    state: TaylorState | None = ...,
    return_state: Literal[False] = ...,
) -> Tensor: ...
@overload
def taylor_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    order: int = ...,
    map: str | None = ...,
    pattern: Pattern = ...,
    scale: float | Tensor | None = ...,
    key_padding: Tensor | None = ...,
    cumulative_lengths: Sequence[int] | Tensor | None = ...,
    dropout_p: float = ...,
    offset: int = ...,
    allow_odd: bool = ...,
    state: TaylorState | None = ...,
    return_state: Literal[True],
) -> tuple[Tensor, TaylorState]: ...
def taylor_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    order: int = 2,
    map: str | None = None,
    pattern: Pattern = FULL,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
    allow_odd: bool = False,
    state: TaylorState | None = None,
    return_state: bool = False,
) -> Tensor | tuple[Tensor, TaylorState]:
    """Attention whose weights are the series of exp(scale q k^T), in time and memory linear in the length.

    >>> q, k, v = torch.randn(2, 8, 1000, 16), torch.randn(2, 2, 1000, 16), torch.randn(2, 2, 1000, 64)
    >>> taylor_attention(q, k, v, pattern=Pattern("causal")).shape      # 8 query heads share 2 key heads
    torch.Size([2, 8, 1000, 64])

    It is close to softmax attention while logits are small (`series_error` measures how close). Its price grows with
    the number of features, C(D+K, K) for order K, so D wants to be small; values may be of any width. A query that
    looks at no key gives 0.

    - `order`: K, even; an odd one needs `allow_odd`, since its weights can turn negative
    - `map`: "rolled" (order 2, the fastest), "exact" (any order, the fewest features), "ordered" or "diagonal", which
      books give; see `porism.layers.taylor.features`. Unless told otherwise rolled at order 2 and exact above
    - `pattern`: full, causal or block-causal
    - `key_padding`: (B, S), True for a key that is only padding
    - `cumulative_lengths`: where texts start that lie end to end in a batch of 1, and the end
    - `offset`: the place of the first query
    - `state`, `return_state`: sums over keys before these, which every query looks at too, and those sums after these

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    if dropout_p:
        raise ShapeError(
            f"taylor: dropout_p is {dropout_p}, and the series has no single weights to drop: they live in sums. "
            "Set it to 0, or drop from the answer."
        )
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=pattern, scale=scale, key_padding=key_padding, offset=offset, layer="taylor"
    )
    task = _task(order, map, allow_odd, k, pattern, number, offset, return_state)
    if state is not None:
        _check_state(state, k, v, task)
    if cumulative_lengths is None:
        answer, last = _attend(q, k, v, key_padding, task, state)
        return (answer, last) if last is not None else answer
    if state is not None or return_state:
        raise ShapeError(
            "taylor: cumulative_lengths came with a state, and every text has its own. Pad the texts with key_padding."
        )
    texts = Texts(q, k, v, cumulative_lengths, key_padding, offset)
    return texts.end_to_end(_attend(*texts.padded, task)[0])


def taylor_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: TaylorState | None = None,
    *,
    order: int = 2,
    map: str | None = None,
    scale: float | Tensor | None = None,
    key_padding: Tensor | None = None,
    allow_odd: bool = False,
) -> tuple[Tensor, TaylorState]:
    """New tokens that continue a text: what the whole text in one causal pass would answer for them, and the state.

    >>> q, k, v = torch.randn(3, 2, 8, 10, 16)                          # three times B A T D
    >>> _, state = taylor_decode(q[:, :, :9], k[:, :, :9], v[:, :, :9])
    >>> y, state = taylor_decode(q[:, :, 9:], k[:, :, 9:], v[:, :, 9:], state)
    >>> state.sums.shape                                                # as large after ten tokens as after a million
    torch.Size([2, 8, 161, 16])

    Gradients flow through the state too. `key_padding` is that of the new tokens, (B, T).
    """
    q, k, v, number, key_padding = AttentionRequest.make(
        q, k, v, pattern=CAUSAL, scale=scale, key_padding=key_padding, layer="taylor"
    )
    if k.shape[2] != q.shape[2]:
        raise ShapeError(
            f"taylor: decoding takes a key for each new token, and {q.shape[2]} queries came with {k.shape[2]} keys. "
            "Give those of the new tokens only: the state has the others."
        )
    task = _task(order, map, allow_odd, k, CAUSAL, number, return_state=True)
    if state is not None:
        _check_state(state, k, v, task)
    if state is not None and kernels.decodes(task, q, k, v, state):
        return kernels.decode(task, q, k, v, key_padding, state)
    answer, last = _attend(q, k, v, key_padding, task, state)
    assert last is not None
    return answer, last


def _task(
    order: int,
    map: str | None,
    allow_odd: bool,
    k: Tensor,
    pattern: Pattern,
    scale: float,
    offset: int = 0,
    return_state: bool = False,
) -> Task:
    """What to compute for keys like these, checked."""
    check_order(order, allow_odd)
    check_pattern(pattern)
    chosen = choose_map(map, order)
    check_features(chosen, order, k.shape[3])
    return Task(chosen, order, pattern, scale, offset, return_state)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, task: Task, state: TaylorState | None = None
) -> tuple[Tensor, TaylorState | None]:
    """The answer, and the last state if it is to be returned."""
    first = None if state is None else state.joined().flatten(0, 1)
    with without_autocast(q):
        answer, last = series(q, k, v, key_padding, first, task)
    if not task.return_state:
        return answer, None
    return answer, TaylorState.split(last.unflatten(0, k.shape[:2]), task.order, task.map)


def _check_state(state: TaylorState, k: Tensor, v: Tensor, task: Task) -> None:
    if not isinstance(state, TaylorState):
        raise ShapeError(
            f"taylor: the state is a {type(state).__name__}, wanted the TaylorState that the same layer gave."
        )
    state.check(k, v, task.order, task.map)
