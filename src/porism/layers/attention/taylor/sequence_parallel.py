"""Taylor attention of one long sequence that several processes share: sequence (or context) parallelism.

What a query attends to before its process's own chunk are sums over features of keys, which do not grow with the
length. So processes exchange states and no keys: an exclusive scan over ranks, and its mirror for gradients.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.pattern import CAUSAL, Pattern
from porism.layers.attention.taylor.feature_maps import MAPS, choose_map
from porism.layers.attention.taylor.functional import taylor_attention
from porism.layers.attention.taylor.state import TaylorState


def sequence_parallel_taylor_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool = True,
    *,
    group: dist.ProcessGroup | None = None,
    scale: float | Tensor | None = None,
    pattern: Pattern | None = None,
    key_padding_mask: Tensor | None = None,
    order: int = 2,
    feature_map: str | None = None,
    allow_odd: bool = False,
) -> Tensor:
    """Causal `taylor_attention` of a sequence whose chunks the processes of a group hold, in the order of their ranks.

    >>> torch.distributed.init_process_group("gloo")                                    # doctest: +SKIP
    >>> q, k, v = (x.chunk(size, dim=2)[rank] for x in whole)           # B A T/P D      # doctest: +SKIP
    >>> y = sequence_parallel_taylor_attention(q, k, v)                 # B A T/P H      # doctest: +SKIP

    Equal to the chunk of `taylor_attention(..., is_causal=True)` on the whole, up to rounding, and so are the
    gradients. Chunks may have any lengths; batch, heads and widths are the same everywhere. Every process of the group
    calls it, and calls backward, even where its own loss is 0.

    A process sends its state of B G M (H+1) numbers (float32 or better) at most 1 + ceil(log2(P - 1)) times forward,
    and as often backward, whatever the length: see `bytes_sent`. The sums over a chunk's keys are taken twice, once for
    the state and once for the answer.

    - `group`: the processes; None for all
    - `key_padding_mask`: (B, S) of the chunk's keys
    - `is_causal`, `pattern`: causal only; others are refused
    - `scale`, `order`, `feature_map`, `allow_odd`: see `taylor_attention`

    Shapes: query (B, A, T, D), key (B, G, T, D), value (B, G, T, H) of the chunk -> (B, A, T, H).
    """
    if not is_causal or (pattern is not None and pattern != CAUSAL):
        shown = "is_causal=False" if pattern is None else str(pattern)
        raise ShapeError(f"taylor: {shown} came, and over several processes only causal attention is there.")
    if query.dim() == key.dim() == 4 and query.shape[2] != key.shape[2]:
        raise ShapeError(
            f"taylor: {query.shape[2]} queries and {key.shape[2]} keys of a chunk, expected as many of both."
        )
    options: dict[str, Any] = {
        "scale": scale,
        "key_padding_mask": key_padding_mask,
        "order": order,
        "feature_map": feature_map,
        "allow_odd": allow_odd,
    }
    # Without queries the state of the chunk alone: phi(k)^T [v 1].
    _, own = taylor_attention(query[:, :, :0], key, value, **options, output_final_state=True)
    before: Tensor = ExclusiveScan.apply(own.joined(), group)  # type: ignore[no-untyped-call]
    first = TaylorState.split(before, order, choose_map(feature_map, order))
    answer: Tensor = taylor_attention(query, key, value, is_causal=True, **options, initial_state=first)
    return answer


class ExclusiveScan(torch.autograd.Function):
    """The sum of a tensor over all processes of lower rank; 0 on the first. Backward: over all of higher rank."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group = group
        return _scan(x, group, reverse=False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # y[r] = sum over s < r of x[s], so dE/dx[s] = sum over r > s of dE/dy[r]
        return _scan(grads[0], ctx.group, reverse=True), None


def _scan(x: Tensor, group: dist.ProcessGroup | None, reverse: bool) -> Tensor:
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    place = size - 1 - rank if reverse else rank
    total = torch.zeros_like(x, memory_format=torch.contiguous_format)
    held = x.contiguous()
    for step, (target, source) in enumerate(exchanges(place, size)):
        received = torch.empty_like(held)
        ranks = [None if one is None else size - 1 - one if reverse else one for one in (target, source)]
        _exchange(held, received, ranks[0], ranks[1], group)
        if source is not None:
            total = received if step == 0 else total + received
        held = total
    return total


def exchanges(place: int, size: int) -> list[tuple[int | None, int | None]]:
    """Whom a process sends to and receives from, in each round of an exclusive scan of so many processes.

    >>> exchanges(1, size=4)                # its own to 2; then what it holds to 2 and to 3
    [(2, 0), (2, None), (3, None)]

    First each hands its own to the next. From then on the sums of 1, 2, 4, ... processes are handed on as far. The
    first process has nothing before it, and is left alone.
    """
    rounds, distance = [(place + 1, place - 1)], 1
    while distance < size - 1:
        rounds.append((place + distance if place else size, place - distance))
        distance *= 2
    return [
        (target if target < size else None, source if source >= min(1, number) else None)
        for number, (target, source) in enumerate(rounds)
    ]


def _exchange(
    held: Tensor, received: Tensor, target: int | None, source: int | None, group: dist.ProcessGroup | None
) -> None:
    works = []
    if target is not None:
        works.append(dist.P2POp(dist.isend, held, group=group, group_peer=target))
    if source is not None:
        works.append(dist.P2POp(dist.irecv, received, group=group, group_peer=source))
    for work in dist.batch_isend_irecv(works) if works else []:
        work.wait()


def bytes_sent(
    rank: int,
    size: int,
    *,
    batch: int,
    key_heads: int,
    head_dim: int,
    value_dim: int,
    order: int = 2,
    feature_map: str | None = None,
    itemsize: int = 4,
) -> int:
    """Bytes that a process sends in one call of `sequence_parallel_taylor_attention`, forward and backward together.

    >>> bytes_sent(1, 4, batch=1, key_heads=8, head_dim=16, value_dim=64) // 1024
    1635

    So many times B G M (H+1) numbers as `exchanges` has targets for its rank, and for the mirrored rank backward.
    itemsize: of a number of the state, 4 or 8 for float64.
    """
    features = MAPS[choose_map(feature_map, order)].size(order, head_dim)
    state = batch * key_heads * features * (value_dim + 1) * itemsize
    both_passes = rank, size - 1 - rank
    return state * sum(target is not None for sender in both_passes for target, _ in exchanges(sender, size))
