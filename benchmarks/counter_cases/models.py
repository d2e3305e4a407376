"""The small models of the counters benchmark, written as people write them."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def frozen(module: nn.Module) -> nn.Module:
    return module.requires_grad_(False)


class LoopedCell(nn.Module):
    """A cell of torch over a sequence, step by step; an LSTM's carries two states."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, *state: Tensor) -> Any:
        for now in x:  # T B D
            now_state = self.cell(now, state if len(state) > 1 else state[0])
            state = now_state if isinstance(now_state, tuple) else (now_state,)
        return state


class WrittenCell(nn.Module):
    """A recurrent net of two linear layers in a loop."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.input = nn.Linear(width, hidden)
        self.recurrent = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        for now in x:  # T B D
            state = torch.tanh(self.input(now) + self.recurrent(state))
        return state


class Repeated(nn.Module):
    """One layer applied again and again to its own result."""

    def __init__(self, width: int, times: int) -> None:
        super().__init__()
        self.layer, self.times = nn.Linear(width, width), times

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times):
            x = torch.tanh(self.layer(x))
        return x


class Gated(nn.Module):
    """The feed-forward part of today's transformers: a gate, a value, and back to the width."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.value = nn.Linear(width, hidden, bias=False)
        self.back = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.back(functional.silu(self.gate(x)) * self.value(x))
        return out


class Adapted(nn.Module):
    """A frozen layer beside a narrow learned path."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.frozen = frozen(nn.Linear(width, width))
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.frozen(x) + self.up(self.down(x))
        return out


class Tied(nn.Module):
    """An embedding and a projection with one matrix for both."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.readout = nn.Linear(width, vocabulary, bias=False)
        self.readout.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.readout(self.embedding(tokens))
        return scores


class Checkpointed(nn.Module):
    """A segment that keeps its input only, and runs once more in the backward pass."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, width), nn.Tanh())

    def forward(self, x: Tensor) -> Any:
        return checkpoint(self.body, x, use_reentrant=False)


class SkipGram(nn.Module):
    """Scores of a context word and of some words drawn at random, each a dot product with the centre's vector."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.centres = nn.Embedding(vocabulary, width)
        self.contexts = nn.Embedding(vocabulary, width)

    def forward(self, centre: Tensor, context: Tensor, drawn: Tensor) -> Tensor:
        v, u, negatives = self.centres(centre), self.contexts(context), self.contexts(drawn)  # B D, B D, B K D
        positive = torch.einsum("bd,bd->b", v, u)
        negative = torch.einsum("bd,bkd->bk", v, negatives)
        return -functional.logsigmoid(positive).sum() - functional.logsigmoid(-negative).sum()


class GraphConvolution(nn.Module):
    """Project, then sum over the neighbours."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, hidden, bias=False)

    def forward(self, adjacency: Tensor, x: Tensor) -> Tensor:
        summed: Tensor = torch.sparse.mm(adjacency, self.linear(x))
        return summed.relu()


class Attending(nn.Module):
    """Attention of a sequence to another, or to itself. Without need_weights torch may fuse it."""

    def __init__(self, width: int, heads: int, weights: bool = False) -> None:
        super().__init__()
        self.attention, self.weights = nn.MultiheadAttention(width, heads), weights

    def forward(self, query: Tensor, memory: Tensor | None = None) -> Tensor:
        memory = query if memory is None else memory
        out: Tensor = self.attention(query, memory, memory, need_weights=self.weights)[0]
        return out


def attention_by_products(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1) @ value


def align(scores: Tensor, labels: Tensor) -> Tensor:
    """The loss of recordings T long with targets of W labels, all of one length."""
    T, B, _ = scores.shape
    steps, targets = (torch.full((B,), length, device=scores.device) for length in (T, labels.shape[1]))
    return functional.ctc_loss(scores.log_softmax(-1), labels, steps, targets)
