"""The sizes at which gradients of attention are checked, and operands drawn at them."""

from typing import NamedTuple

import torch
from torch import Tensor


class CheckSizes(NamedTuple):
    """B texts of T queries and S keys, A heads for queries and G for keys; widths D and, of values, H."""

    T: int = 7
    S: int = 7
    A: int = 2
    G: int = 2
    B: int = 2
    D: int = 3
    H: int = 2

    def draw(self, generator: torch.Generator) -> tuple[dict[str, Tensor], Tensor]:
        """q (B, A, T, D), k (B, G, S, D) and v (B, G, S, H) by name, and a gradient of the answer (B, A, T, H)."""
        T, S, A, G, B, D, H = self
        shapes = [(B, A, T, D), (B, G, S, D), (B, G, S, H), (B, A, T, H)]
        q, k, v, dO = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
        return {"q": q, "k": k, "v": v}, dO
