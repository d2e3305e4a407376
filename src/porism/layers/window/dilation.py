"""A dilated window as windows without dilation: every d-th token stands in a text of its own."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from porism.layers.pattern import Pattern


class Interleaved:
    """With a dilation d, token i looks at tokens that are a multiple of d away, so i mod d tells the text it is in.

    >>> apart = Interleaved(Pattern("sliding", window=2, dilation=3), T=7, S=7)
    >>> apart.queries(torch.arange(7).view(1, 1, 7, 1)).squeeze()       # B A T D -> B*3 A T/3 D, the rest zeros
    tensor([[0, 3, 6],
            [1, 4, 0],
            [2, 5, 0]])

    The texts of one batch are neighbours in a larger batch. Where there are fewer queries than texts, the others are
    left out, so that decoding pays for one.
    """

    def __init__(self, pattern: Pattern, T: int, S: int, offset: int = 0) -> None:
        d = pattern.dilation
        self.T, self.S, self.dilation, self.texts = T, S, d, min(T, d)
        # As many keys in front that the first query is in the first text.
        self._before = -offset % d
        self.pattern = Pattern("sliding", window=pattern.window, ahead=pattern.ahead)
        self.offset = (offset + self._before) // d
        self._fills_seen = self._before > 0 or (S % d > 0 and (pattern.ahead > 0 or offset + T > S))

    def queries(self, x: Tensor) -> Tensor:
        """(B, A, T, D) as (B texts, A, T / texts, D), filled up with zeros."""
        return _apart(pad(x, (0, 0, 0, -self.T % self.texts)), self.texts, self.texts)

    def keys(self, x: Tensor) -> Tensor:
        """(B, G, S, D) as (B texts, G, S / d, D), filled up with zeros."""
        return _apart(pad(x, (0, 0, self._before, self._behind)), self.dilation, self.texts)

    def padding(self, key_padding: Tensor | None, k: Tensor) -> Tensor | None:
        """True for a key that is only padding or was filled in: (B texts, S / d); None where no query sees one."""
        if key_padding is None and not self._fills_seen:
            return None
        if key_padding is None:
            key_padding = torch.zeros(k.shape[0], self.S, dtype=torch.bool, device=k.device)
        filled = pad(key_padding, (self._before, self._behind), value=True)
        return _apart(filled[:, None, :, None], self.dilation, self.texts)[:, 0, :, 0]

    def join_queries(self, x: Tensor) -> Tensor:
        """Back to (B, A, T, D)."""
        return _together(x, self.texts)[:, :, : self.T]

    def join_keys(self, x: Tensor) -> Tensor:
        """Back to (B, G, S, D), zeros for the texts that were left out."""
        texts = pad(x.unflatten(0, (-1, self.texts)), (0, 0, 0, 0, 0, 0, 0, self.dilation - self.texts))
        return _together(texts.flatten(0, 1), self.dilation)[:, :, self._before : self._before + self.S]

    @property
    def _behind(self) -> int:
        return -(self.S + self._before) % self.dilation


def _apart(x: Tensor, step: int, texts: int) -> Tensor:
    """(B, A, T, D) as (B texts, A, T / step, D): the first so many of the texts that every step-th token makes."""
    apart: Tensor = x.unflatten(2, (-1, step))[:, :, :, :texts].permute(0, 3, 1, 2, 4).flatten(0, 1)
    return apart


def _together(x: Tensor, texts: int) -> Tensor:
    """(B texts, A, T / texts, D) as (B, A, T, D)."""
    together: Tensor = x.unflatten(0, (-1, texts)).permute(0, 2, 3, 1, 4).flatten(2, 3)
    return together
