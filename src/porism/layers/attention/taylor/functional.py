"""What the series remembers of all keys so far: sums whose size does not grow with their number."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self, cast, overload

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.packed import Texts
from porism.layers.attention.pattern import CAUSAL, FULL, Kind, Pattern
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.taylor.feature_maps import (
    MAPS,
    FeatureMap,
    check_features,
    check_order,
    choose_map,
    feature_map,
)
from porism.layers.attention.taylor.gradient import Gradient, gradient
from porism.layers.attention.taylor.kernels import triton as kernels
from porism.layers.attention.taylor.kernels.cpu import Division, Operands, Task, forward
from porism.layers.attention.taylor.kernels.spans import check_pattern
from porism.layers.autocast import without_autocast
from porism.layers.derivative import InPlaceWatch, first_derivative_only


class TaylorState(NamedTuple):
    """The sums over keys of phi(k) v^T, (B, G, M, H), and of phi(k), (B, G, M): float32 or better.

    `order` and `map` are those of phi. A state that names none is taken for one of the layer that it is given to.
    """

    sums: Tensor
    weights: Tensor
    order: int | None = None
    map: str | None = None

    @classmethod
    def split(cls, joined: Tensor, order: int, map: str) -> Self:
        """From (B, G, M, H+1), where the sums of phi(k) are the last column."""
        return cls(joined[..., :-1], joined[..., -1], order, map)

    def joined(self) -> Tensor:
        return torch.cat([self.sums, self.weights.unsqueeze(-1)], dim=-1)

    def check(self, k: Tensor, v: Tensor, order: int, map: str, layer: str = "taylor") -> None:
        """Refuses a state of another layer, batch, type or device than the new keys and values have."""
        wanted = (*k.shape[:2], MAPS[map].size(order, k.shape[3]), v.shape[3])
        if self.sums.shape != wanted or self.weights.shape != wanted[:-1]:
            raise ShapeError(
                f"{layer}: the state is {tuple(self.sums.shape)} and {tuple(self.weights.shape)}, wanted {wanted} and "
                f"{wanted[:-1]}: batch, key heads, features, value width. Pass the state that the same layer gave."
            )
        if (self.order or order, self.map or map) != (order, map):
            raise ShapeError(
                f"{layer}: the state is of order {self.order} and the {self.map} map, wanted order {order} and the "
                f"{map} map. Pass the state that the same layer gave."
            )
        dtype = torch.promote_types(k.dtype, torch.float32)
        for part in (self.sums, self.weights):
            if part.dtype != dtype or part.device != k.device:
                raise ShapeError(
                    f"{layer}: the state is {part.dtype} on {part.device}, wanted {dtype} on {k.device}. "
                    "Pass the state that the same layer gave, or convert it."
                )


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
      books give; see taylor/feature_maps.py. Unless told otherwise rolled at order 2 and exact above
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


Passed = tuple[Tensor, Tensor, Tensor]
"""The answer, the sums of weights, and the last state, which holds nothing unless it was asked for."""


def series(
    q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
) -> tuple[Tensor, Tensor]:
    """The answer and the last state, from the first one (N, M, H+1) if there is one."""
    if torch.compiler.is_compiling():
        pattern = task.pattern
        settings = (task.map, task.order, pattern.kind, pattern.window, task.scale, task.offset, task.return_state)
        answer, _, last = _forward(q, k, v, key_padding, first, *settings)
        # The backward pass reads the answer, and users may change theirs. Where nobody does, no copy is compiled.
        return answer.clone(), last
    rows, last = _Series.apply(q, k, v, key_padding, first, task)  # type: ignore[no-untyped-call]
    return rows.transpose(1, 2), last


def pass_forward(
    task: Task, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None = None, first: Tensor | None = None
) -> Passed:
    if kernels.serves(task, q, k, v):
        return kernels.forward(task, q, k, v, key_padding, first)
    operands, phi, division = _prepared(task, q, k, v, key_padding, first)
    state = operands.first_state(phi.count, first)
    answer, totals = forward(operands, phi, task, division, state)
    return answer, totals, state if task.return_state else state.new_empty(0)


def pass_backward(
    task: Task,
    dz: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
) -> Gradient:
    if kernels.serves(task, q, k, v):
        return kernels.backward(task, dz, dlast, q, k, v, key_padding, first, answer, totals)
    operands, phi, division = _prepared(task, q, k, v, key_padding, first)
    state = operands.first_state(phi.count, first)
    dstate = operands.first_state(phi.count, dlast if task.return_state else None)
    return gradient(dz, answer, totals, operands, phi, task, division, state, dstate)


def _prepared(
    task: Task, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None
) -> tuple[Operands, FeatureMap, Division]:
    operands = Operands(q, k, v, key_padding, task.scale)
    phi = feature_map(task.map, task.order, operands.no_columns)
    return operands, phi, Division(operands, task.pattern, task.offset, phi.is_positive, first)


class _Series(torch.autograd.Function):
    """The forward pass with the backward pass by hand. Kept are the operands, the answer and the sums of weights.

    The answer goes out as (B, T, A, H), as it lies in memory, and is no view: users may change it in place.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None, task: Task
    ) -> tuple[Tensor, Tensor]:
        answer, totals, last = pass_forward(task, q, k, v, key_padding, first)
        ctx.save_for_backward(q, k, v, key_padding, first, answer, totals)
        rows = answer.transpose(1, 2).data
        ctx.task, ctx.watch = task, InPlaceWatch(rows) if any(ctx.needs_input_grad) else None
        return rows, last

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dz: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, key_padding, first, answer, totals = ctx.saved_tensors
        with without_autocast(dz):
            if ctx.watch.changed:
                answer, _, _ = pass_forward(ctx.task, q, k, v, key_padding, first)
            d = pass_backward(ctx.task, dz.transpose(1, 2), dlast, q, k, v, key_padding, first, answer, totals)
        return d.q, d.k, d.v, None, None if first is None else d.state.to(first.dtype), None


@torch.library.custom_op("porism::taylor", mutates_args=())
def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    map: str,
    order: int,
    kind: str,
    window: int | None,
    scale: float,
    offset: int,
    return_state: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """One operator for the compiler, which would write out the loop over the length otherwise, span by span."""
    task = _settings(map, order, kind, window, scale, offset, return_state)
    return pass_forward(task, q, k, v, key_padding, first)


@torch.library.custom_op("porism::taylor_backward", mutates_args=())
def _backward(
    dz: Tensor,
    dlast: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
    map: str,
    order: int,
    kind: str,
    window: int | None,
    scale: float,
    offset: int,
    return_state: bool,
) -> list[Tensor]:
    task = _settings(map, order, kind, window, scale, offset, return_state)
    return list(pass_backward(task, dz, dlast, q, k, v, key_padding, first, answer, totals))


def _settings(map: str, order: int, kind: str, window: int | None, *rest: Any) -> Task:
    return Task(map, order, Pattern(cast(Kind, kind), window), *rest)


@_forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, key_padding: Any, first: Any, map: str, order: int, *rest: Any) -> Passed:
    B, A, T, H = *q.shape[:3], v.shape[3]
    exact = torch.promote_types(q.dtype, torch.float32)
    state = (B * k.shape[1], MAPS[map].size(order, q.shape[3]), H + 1) if rest[-1] else (0,)
    answer = q.new_empty(B, T, A, H).transpose(1, 2)
    return answer, q.new_empty(B, A, T, 1, dtype=exact), q.new_empty(state, dtype=exact)


@_backward.register_fake
def _(dz: Tensor, dlast: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> list[Tensor]:
    map, order = rest[4:6]
    exact = torch.promote_types(q.dtype, torch.float32)
    state = q.new_empty(k.shape[0] * k.shape[1], MAPS[map].size(order, q.shape[3]), v.shape[3] + 1, dtype=exact)
    return [torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), state]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Passed) -> None:
    answer, totals, _ = output
    ctx.save_for_backward(*inputs[:5], answer, totals)
    ctx.settings = inputs[5:]


def _go_back(ctx: Any, dz: Tensor, _dtotals: Tensor, dlast: Tensor) -> tuple[Tensor | None, ...]:
    dq, dk, dv, dstate = _backward(dz, dlast, *ctx.saved_tensors, *ctx.settings)
    first = ctx.saved_tensors[4]
    return dq, dk, dv, None, None if first is None else dstate.to(first.dtype), *(None,) * len(ctx.settings)


_forward.register_autograd(_go_back, setup_context=_keep)
