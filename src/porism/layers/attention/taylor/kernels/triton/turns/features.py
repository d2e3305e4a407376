"""Second-order features in tiles of F, made and taken apart by matrix products: no gathers, nothing is turned.

Feature f = s D + i is x_i x_(i+s), index modulo D, for the turns s = 0 ... D/2; after them come x itself, then 1,
then zeros up to a whole tile. F is a multiple of D, so the left factor x_i is the same in every tile, x @ repeats, and
the right factor is x @ turns, a small product of zeros and ones that moves elements without rounding them.
A turn that is its own opposite counts half. Queries carry that half and keys nothing: 1/2 is exact in bfloat16 where
the 1 / sqrt 2 on either side of the layer's own map is not.
"""

import triton
import triton.language as tl


@triton.jit
def repeats(D: tl.constexpr, D_TILE: tl.constexpr, F: tl.constexpr, NUMBER: tl.constexpr) -> tl.tensor:
    """(D_TILE, F): x @ repeats has x_(f mod D) in column f."""
    row = tl.arange(0, D_TILE)
    column = tl.arange(0, F)
    return (row[:, None] == column[None, :] % D).to(tl.float32).to(NUMBER)


@triton.jit
def turns(
    tile: tl.tensor,
    OWN: tl.constexpr,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    F: tl.constexpr,
    NUMBER: tl.constexpr,
) -> tl.tensor:
    """(D_TILE, F): x @ turns has x_(i+s) in the column of x_i x_(i+s), times OWN where the turn is its own opposite."""
    feature = tile * F + tl.arange(0, F)
    turn = feature // D
    # No row has the number D_TILE, so after the last turn there are zeros.
    source = tl.where(turn <= D // 2, (feature + turn) % D, D_TILE)
    factor = tl.where((turn == 0) | (turn == D // 2), OWN, 1.0)
    row = tl.arange(0, D_TILE)
    return tl.where(row[:, None] == source[None, :], factor[None, :], 0.0).to(NUMBER)


@triton.jit
def linear(tile: tl.tensor, D: tl.constexpr, F: tl.constexpr) -> tl.tensor:
    """(F): what is to be subtracted from x @ turns, -1 for x_i alone, whose right factor is 1.

    What is added to a product would become the value it starts with, and to put that in place holds up other products.
    """
    feature = tile * F + tl.arange(0, F)
    return -(feature // D == D // 2 + 1).to(tl.float32)


@triton.jit
def constant(tile: tl.tensor, D: tl.constexpr, F: tl.constexpr) -> tl.tensor:
    """(F): what features have beside the product of two factors; 1 is none."""
    feature = tile * F + tl.arange(0, F)
    return (feature == (D // 2 + 2) * D).to(tl.float32)
