"""Notes of the buffers that caches are written to."""

import pytest
import torch
from torch import Tensor

from porism.layers.attention.softmax import cache


@pytest.fixture
def buffers(monkeypatch: pytest.MonkeyPatch) -> list[cache.KVBuffer]:
    """Every memory that tokens are copied to, its free rows full of NaN."""
    made: list[cache.KVBuffer] = []

    class NotedBuffer(cache.KVBuffer):
        def __init__(self, k: Tensor, v: Tensor, end: int) -> None:
            super().__init__(k, v, end)
            for rows in (self.k, self.v):
                rows[:, :, k.shape[2] :] = torch.nan
            made.append(self)

    monkeypatch.setattr(cache, "KVBuffer", NotedBuffer)
    return made
