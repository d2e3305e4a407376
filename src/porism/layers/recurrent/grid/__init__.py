"""The grid net: h[i,j] = act(x[i,j] W_in + h[i-1,j] W_left + h[i,j-1] W_top + b), scanned by anti-diagonals."""

from porism.layers.recurrent.grid.functional import grid
from porism.layers.recurrent.grid.layer import Grid

__all__ = ["Grid", "grid"]
