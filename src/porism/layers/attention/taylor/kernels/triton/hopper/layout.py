"""The state of these kernels: rows by pairs of elements, in blocks of sixteen i with sixteen j; the weights apart.

A block has x_i x_j for the i of one sixteen and the j of the same or a later one, i before j: blocks (0, 0), (0, 1) and
so on to (3, 3). On the diagonal both x_i x_j and x_j x_i are there, and half of each counts where a state is read. The
rows of x and of 1 come after the blocks. That is 2,560 rows of pairs at D = 64, where pairs/layout.py has 3,072. The
weights are those of pairs/layout.py; so is a state that is given or returned, from which these kernels do not start.
"""

from porism.layers.attention.taylor.kernels.triton.pairs.layout import weight_count

__all__ = ["WIDTH", "features", "weight_count"]

WIDTH = 64
"""D and H, the only ones that there are kernels for."""


def features(D: int) -> int:
    """M: the rows of sums.

    >>> features(64)
    2625
    """
    sixteens = D // 16
    return sixteens * (sixteens + 1) // 2 * 256 + D + 1
