"""The keys and values of the tokens so far, for those that follow."""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError


class Cache(NamedTuple):
    """The keys (B, G, S, D) and values (B, G, S, H) of all tokens so far; (B, S), True for a pad, if there was one.

    >>> k, v = torch.randn(2, 1, 8, 9, 64)                              # twice B A T D
    >>> first, new = Cache(k[:, :, :8], v[:, :, :8]), Cache(k[:, :, 8:], v[:, :, 8:])
    >>> new.behind(first).length, new.behind(first).last(3).length
    (9, 3)
    """

    k: Tensor
    v: Tensor
    padding: Tensor | None = None

    @property
    def length(self) -> int:
        return self.k.shape[2]

    def behind(self, state: "Cache | None", layer: str = "attention") -> "Cache":
        """These tokens and those of a state before them, which has to be of the same heads and batch."""
        if state is None:
            return self
        for name, kept, new in (("keys", state.k, self.k), ("values", state.v, self.v)):
            if kept.shape[:2] != new.shape[:2] or kept.shape[3] != new.shape[3]:
                raise ShapeError(
                    f"{layer}: the state has {name} of {tuple(kept.shape)}, the new ones are {tuple(new.shape)}. "
                    "Pass the state that the same batch gave."
                )
        padding = None
        if state.padding is not None or self.padding is not None:
            padding = torch.cat([state._all_padding(), self._all_padding()], 1)
        return Cache(torch.cat([state.k, self.k], 2), torch.cat([state.v, self.v], 2), padding)

    def last(self, count: int) -> "Cache":
        """The last so many tokens, copied: a view would hold on to the memory of all the others."""
        gone = self.length - min(self.length, count)
        if not gone:
            return self
        padding = None if self.padding is None else self.padding[:, gone:].clone()
        return Cache(self.k[:, :, gone:].clone(), self.v[:, :, gone:].clone(), padding)

    def _all_padding(self) -> Tensor:
        if self.padding is not None:
            return self.padding
        return self.k.new_zeros(self.k.shape[0], self.length, dtype=torch.bool)
