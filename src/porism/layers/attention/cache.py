"""The keys and values of the tokens so far, for those that follow."""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.pattern import Pattern


class Cache(NamedTuple):
    """The keys (B, G, S, D) and values (B, G, S, H) of all tokens so far; (B, S), True for a pad, if there was one.

    >>> k, v = torch.randn(2, 1, 8, 9, 64)                              # twice B A T D
    >>> first, new = Cache(k[:, :, :8], v[:, :, :8]), Cache(k[:, :, 8:], v[:, :, 8:])
    >>> new.behind(first).length, new.behind(first).last(3).length
    (9, 3)

    `pattern` is the one that the tokens were decoded with, since it says which of them were kept; None if nobody said.
    """

    k: Tensor
    v: Tensor
    padding: Tensor | None = None
    pattern: Pattern | None = None

    @property
    def length(self) -> int:
        return self.k.shape[2]

    def behind(self, state: "Cache | None", layer: str = "attention") -> "Cache":
        """These tokens and those of a state before them, which has to be of the same batch, heads and pattern."""
        if state is None:
            return self
        self._check_continues(state, layer)
        padding = None
        if state.padding is not None or self.padding is not None:
            padding = torch.cat([state._all_padding(), self._all_padding()], 1)
        return Cache(torch.cat([state.k, self.k], 2), torch.cat([state.v, self.v], 2), padding, self.pattern)

    def last(self, count: int) -> "Cache":
        """The last so many tokens, copied.

        A view would hold on to the memory of all the others, and would change when the caller overwrites it.
        """
        first = self.length - min(self.length, count)
        padding = None if self.padding is None else self.padding[:, first:].clone()
        return Cache(self.k[:, :, first:].clone(), self.v[:, :, first:].clone(), padding, self.pattern)

    def _all_padding(self) -> Tensor:
        if self.padding is not None:
            return self.padding
        return self.k.new_zeros(self.k.shape[0], self.length, dtype=torch.bool)

    def _check_continues(self, state: "Cache", layer: str) -> None:
        """Refuses the state of another batch, layer or pattern."""
        if not isinstance(state, Cache):
            raise ShapeError(
                f"{layer}: the state is a {type(state).__name__}, wanted a Cache. Pass what the same function gave."
            )
        for name, kept, new in (("keys", state.k, self.k), ("values", state.v, self.v)):
            if kept.dim() != 4 or kept.shape[:2] != new.shape[:2] or kept.shape[3] != new.shape[3]:
                raise ShapeError(
                    f"{layer}: the state has {name} of {tuple(kept.shape)}, the new ones are {tuple(new.shape)}. "
                    "Pass the state that the same batch gave."
                )
            if kept.dtype != new.dtype or kept.device != new.device:
                raise ShapeError(
                    f"{layer}: the state has {name} of {kept.dtype} on {kept.device}, the new ones are {new.dtype} on "
                    f"{new.device}. Pass the state that the same layer gave, under the same autocast."
                )
        if state.v.shape[2] != state.length or not state._has_fitting_padding():
            raise ShapeError(
                f"{layer}: the state has {state.length} keys, {state.v.shape[2]} values and padding that may not fit. "
                "Pass a state as it was given."
            )
        if state.pattern is not None and self.pattern is not None and state.pattern != self.pattern:
            raise ShapeError(
                f"{layer}: the state is of {state.pattern}, and {self.pattern} came. "
                "Decode with the pattern that the state was made with, or start without a state."
            )

    def _has_fitting_padding(self) -> bool:
        if self.padding is None:
            return True
        wanted = self.k.shape[0], self.length
        return (
            self.padding.shape == wanted and self.padding.dtype == torch.bool and self.padding.device == self.k.device
        )
