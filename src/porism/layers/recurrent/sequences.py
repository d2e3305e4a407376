"""The forms a batch of sequences comes in: time or batch first, without a batch, packed. Inside, all are (T, B, D)."""

from collections.abc import Callable
from typing import NamedTuple, ParamSpec, Self, TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from porism.layers.compiling import uncompiled

P = ParamSpec("P")
R = TypeVar("R")


class Sequences(NamedTuple):
    """A batch as (T, B, D), and how to return answers in the form it came in."""

    padded: Tensor
    batch_first: bool = False
    unbatched: bool = False
    packed: PackedSequence | None = None
    inside: Tensor | None = None
    """For a packed batch, where `padded` holds a step of a sequence and not what follows its end, (T, B)."""

    @classmethod
    def of(cls, x: Tensor | PackedSequence, batch_first: bool) -> Self:
        """From what a layer's `forward` takes."""
        if isinstance(x, PackedSequence):
            # A packed batch is sorted, longest first; step t holds the first batch_sizes[t] of its sequences.
            sizes = x.batch_sizes.to(x.data.device)
            inside = torch.arange(int(x.batch_sizes[0]), device=x.data.device) < sizes[:, None]
            padded = x.data.new_zeros(*inside.shape, x.data.shape[-1])
            return cls(padded.masked_scatter(inside[..., None], x.data), packed=x, inside=inside)
        if x.dim() == 2:
            return cls(x.unsqueeze(1), unbatched=True)
        return cls(x.transpose(0, 1) if batch_first else x, batch_first)

    def reverse(self, x: Tensor) -> Tensor:
        """Every sequence from its end to its start; padding after an end stays there. Its own inverse."""
        if self.inside is None:
            return x.flip(0)
        step = torch.arange(len(x), device=x.device)[:, None]
        source = torch.where(self.inside, self.inside.sum(0) - 1 - step, step)
        return x.gather(0, source[..., None].expand_as(x))

    def last(self, y: Tensor) -> Tensor:
        """The last state of every sequence, (B, H)."""
        if self.inside is None:
            return y[-1]
        final = (self.inside.sum(0) - 1)[None, :, None].expand(1, -1, y.shape[-1])
        return y.gather(0, final).squeeze(0)

    def like_input(self, y: Tensor) -> Tensor | PackedSequence:
        """(T, B, H) in the form the input had."""
        if self.packed is not None and self.inside is not None:
            _, sizes, order, order_back = self.packed
            return PackedSequence(y[self.inside], sizes, order, order_back)
        if self.unbatched:
            return y.squeeze(1)
        return y.transpose(0, 1) if self.batch_first else y

    def states_like_input(self, h: Tensor) -> Tensor:
        """States (n, B, H) in the order and form of the input's sequences."""
        if self.packed is not None and self.packed.unsorted_indices is not None:
            return h.index_select(1, self.packed.unsorted_indices)
        return h.squeeze(1) if self.unbatched else h

    def states_from_input(self, h: Tensor) -> Tensor:
        """States given in the order and form of the input's sequences as (n, B, H)."""
        if self.packed is not None and self.packed.sorted_indices is not None:
            return h.index_select(1, self.packed.sorted_indices)
        return h.unsqueeze(1) if self.unbatched else h


def outside_the_compiler(layer: str, forward: Callable[P, R]) -> Callable[P, R]:
    """`forward` as compiled code calls it with packed sequences: as it is, between two compiled parts.

    Their lengths are numbers in a tensor, and which sizes follow from them no compiler knows. With fullgraph=True torch
    refuses it, for the reason given here.
    """
    reason = (
        f"{layer}: input is a PackedSequence, whose lengths are not known while it is compiled. "
        "Compile without fullgraph=True, or give a padded batch."
    )
    return uncompiled(forward, reason)
