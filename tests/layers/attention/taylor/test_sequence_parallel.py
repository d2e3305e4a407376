"""Who sends to whom, and what is refused. tests/training/test_distributed.py starts four processes that share one."""

import pytest
import torch

from porism.errors import ShapeError
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.taylor.sequence_parallel import exchanges, sequence_parallel_taylor_attention


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 13])
def test_exchanges_make_an_exclusive_scan(size: int) -> None:
    own = [2**place for place in range(size)]
    held, total = list(own), [0] * size
    for number in range(len(exchanges(0, size))):
        pairs = [exchanges(place, size)[number] for place in range(size)]
        for place, (target, source) in enumerate(pairs):
            assert target is None or pairs[target][1] == place
            assert source is None or pairs[source][0] == place
        total = [sum_ + (0 if pair[1] is None else held[pair[1]]) for sum_, pair in zip(total, pairs, strict=True)]
        held = list(total)
    assert total == [sum(own[:place]) for place in range(size)]


def test_sequences_are_shared_by_causal_attention_only() -> None:
    q = torch.randn(1, 1, 4, 3)
    with pytest.raises(ShapeError, match="only causal"):
        sequence_parallel_taylor_attention(q, q, q, is_causal=False)
    with pytest.raises(ShapeError, match="only causal"):
        sequence_parallel_taylor_attention(q, q, q, pattern=Pattern("full"))
    with pytest.raises(ShapeError, match="as many of both"):
        sequence_parallel_taylor_attention(q[:, :, :2], q, q)
