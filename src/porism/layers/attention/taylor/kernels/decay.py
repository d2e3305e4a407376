"""How keys decay: the factors exp(L_i - L_j) between positions, L the running sum of log_decay.

Sums run in float64: differences of large ones are small, and what rounding leaves of them is a factor of the answer.
"""

import torch
from torch import Tensor

LEAST = -750.0
"""A step that loses more leaves nothing in float64 either. Beside it sums over all steps stay precise, unlike beside
the lowest number of a type, or -inf."""
GONE = -60.0
"""What has decayed further is taken for 0: beside the last key's whole weight it is below any rounding, and products
with numbers near the smallest that a type has take many times as long."""


class Decay:
    """Factors of N key heads, of the type that the pass computes in. A state has decayed up to its last key.

    A position before the first stands for the keys of a state that was given: L is 0 there.
    """

    def __init__(self, log_decay: Tensor, dtype: torch.dtype) -> None:
        self._sums = log_decay.flatten(0, 1).double().clamp(min=LEAST).cumsum(1)  # N T
        self._dtype = dtype

    def since(self, position: int, tokens: slice) -> Tensor:
        """What is left at each of the tokens of a state that has decayed up to a position: (N, n, 1)."""
        return self._factor(self._sums[:, tokens] - self._at(position)).unsqueeze(-1)

    def until(self, position: int, tokens: slice) -> Tensor:
        """What is left of each of the tokens at a position after them: (N, n, 1)."""
        return self._factor(self._at(position) - self._sums[:, tokens]).unsqueeze(-1)

    def over(self, tokens: slice) -> Tensor:
        """What is left, after all of the tokens, of a state that has decayed up to the one before them: (N, 1, 1)."""
        return self._factor(self._at(tokens.stop - 1) - self._at(tokens.start - 1)).unsqueeze(-1)

    def between(self, queries: slice, keys: slice, mask: Tensor) -> Tensor:
        """What is left of each key at each query, and 0 where the mask (queries, keys) is: (N, 1, queries, keys)."""
        difference = self._sums[:, queries, None] - self._sums[:, None, keys]
        # Keys after a query would have grown, beyond all numbers in the end, and 0 times that is none.
        return self._factor(difference.masked_fill(mask == 0, -torch.inf)).unsqueeze(1)

    def _at(self, position: int) -> Tensor:
        """L at a position: (N, 1)."""
        return self._sums[:, position : position + 1] if position >= 0 else torch.zeros_like(self._sums[:, :1])

    def _factor(self, difference: Tensor) -> Tensor:
        return difference.to(self._dtype).masked_fill_(difference < GONE, -torch.inf).exp_()
