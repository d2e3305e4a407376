"""How large the pieces are that a kernel works on: the one table to tune.

Chunks. A causal pass over chunks of C tokens writes a state a chunk, reads and writes it in the scan and reads it once
more: 4 M (H + 1) / C numbers a token, M = D^2 / 2 + 2 D + 1, or half as many again where states are by pairs. Keys
within a chunk are weighed one by one, about C / 2 of them a token, 2 (D + H) operations each. Larger chunks move fewer
bytes and weigh more keys. M grows with D^2 and all else with D, so C = 16 D keeps the two in step. For values of width
64 in bfloat16 states then move 396 bytes a token and head at D = 16, 660 at 32 and 1,634 at 64, beside 320, 384 and 512
of the token's own. A pass that attends everywhere weighs no key by itself, and takes chunks of 64 D.

Short texts need no state at all. On an H200, values of width 64 in bfloat16, both passes over 65,536 tokens of 16 heads
take in one chunk and in chunks of 16 D: at D = 16 2.1 and 1.5 ms for T = 2,048; at D = 32 4.5 and 3.6 for 4,096; at
D = 64 9.9 and 8.5 for 8,192.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import torch

from porism.layers.attention.taylor.kernels.triton.turns.layout import features

MOST_OWNED = 128
"""The most tokens that a program may own: no chunk is shorter."""

WIDTHS = (8, 16, 32, 64)
"""Widths of queries and keys that divide a tile."""


class SeriesLaunch(NamedTuple):
    """Tokens whose rows a program owns, tokens it meets at a time, features at a time, and how it is compiled.

    Chunks are of whole tiles that a program owns, and those of whole tiles that it meets: `met` divides `own`.
    """

    own: int
    met: int
    features: int
    warps: int
    stages: int
    registers: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        return {"num_warps": self.warps, "num_stages": self.stages, "maxnreg": self.registers, "enable_fp_fusion": True}


class Sizes(NamedTuple):
    """A launch for each kernel; what `sum` meets at a time are not tokens but tiles of features, or units of pairs."""

    sum: SeriesLaunch
    answer: SeriesLaunch
    reach_queries: SeriesLaunch
    reach_keys: SeriesLaunch


SCAN = SeriesLaunch(own=512, met=1, features=1, warps=4, stages=8)
"""Here tokens are numbers of a state, which a program carries through all chunks."""

SIDE_BY_SIDE = SeriesLaunch(own=64, met=1, features=1, warps=4, stages=1)
"""Tokens that are copied at a time, and the length of a copy is a multiple of them."""

ENDS = SeriesLaunch(own=64, met=1, features=1024, warps=4, stages=2)
"""Here tokens are rows of a state, and features its weights, of which so many are multiplied at a time."""

FOUR_PROGRAMS, THREE_PROGRAMS = 128, 168
"""Registers of a thread with which so many programs of four warps share the 65,536 of a multiprocessor."""

STEP = SeriesLaunch(own=64, met=1, features=32, warps=1, stages=1)
"""One token: a program owns some columns of a head's values, and goes through the features, shared by query heads."""

READ = SeriesLaunch(own=64, met=16, features=32, warps=1, stages=1)
"""One token of a chunk, likewise; it meets the keys of the chunk."""

# By bytes of a number, then up to a width of keys and a width of values: the first row that is large enough.
_TABLE = {
    2: {
        (16, 64): Sizes(
            SeriesLaunch(32, 3, 64, 4, 3, THREE_PROGRAMS),
            SeriesLaunch(64, 64, 32, 4, 4),
            SeriesLaunch(64, 64, 32, 4, 4),
            SeriesLaunch(64, 32, 32, 4, 3, THREE_PROGRAMS),
        ),
        (32, 64): Sizes(
            SeriesLaunch(32, 5, 64, 4, 3),
            SeriesLaunch(64, 64, 64, 4, 3, THREE_PROGRAMS),
            SeriesLaunch(64, 64, 32, 4, 3, FOUR_PROGRAMS),
            SeriesLaunch(64, 32, 32, 4, 3, THREE_PROGRAMS),
        ),
        (64, 64): Sizes(
            SeriesLaunch(64, 4, 64, 4, 3),
            SeriesLaunch(128, 64, 64, 4, 3),
            SeriesLaunch(64, 32, 64, 4, 3, FOUR_PROGRAMS),
            SeriesLaunch(64, 32, 64, 4, 3, THREE_PROGRAMS),
        ),
        (32, 128): Sizes(
            SeriesLaunch(32, 1, 64, 4, 3),
            SeriesLaunch(64, 32, 32, 4, 2),
            SeriesLaunch(64, 32, 32, 4, 2),
            SeriesLaunch(64, 32, 32, 4, 2),
        ),
        (64, 128): Sizes(
            SeriesLaunch(32, 1, 64, 4, 3),
            SeriesLaunch(64, 32, 64, 4, 2),
            SeriesLaunch(64, 32, 64, 4, 2),
            SeriesLaunch(64, 32, 64, 4, 2),
        ),
        (64, 256): Sizes(
            SeriesLaunch(32, 1, 64, 8, 1),
            SeriesLaunch(64, 32, 64, 8, 1),
            SeriesLaunch(64, 32, 64, 8, 1),
            SeriesLaunch(64, 32, 64, 8, 1),
        ),
    },
    # Products of float32 are three of half the precision, each with operands in registers: small tiles.
    4: {
        (16, 64): Sizes(
            SeriesLaunch(32, 1, 64, 4, 1),
            SeriesLaunch(64, 32, 32, 4, 1),
            SeriesLaunch(64, 32, 32, 4, 1),
            SeriesLaunch(64, 32, 32, 4, 1),
        ),
        (32, 128): Sizes(
            SeriesLaunch(16, 1, 64, 4, 1),
            SeriesLaunch(16, 16, 32, 8, 1),
            SeriesLaunch(16, 16, 32, 8, 1),
            SeriesLaunch(16, 16, 32, 8, 1),
        ),
        (64, 128): Sizes(
            SeriesLaunch(16, 1, 64, 4, 1),
            SeriesLaunch(16, 16, 64, 8, 1),
            SeriesLaunch(16, 16, 64, 8, 1),
            SeriesLaunch(16, 16, 64, 8, 1),
        ),
    },
}

WIDEST = {bytes: max(H for _, H in rows) for bytes, rows in _TABLE.items()}
"""The widest values, by bytes of a number."""


@cache
def sizes(D: int, H: int, dtype: torch.dtype) -> Sizes:
    """The launches for queries and keys of width D and values of width H, multiplied as numbers of a type."""
    found = next(row for widths, row in _TABLE[dtype.itemsize].items() if widths[0] >= D and widths[1] >= H)
    if by_pairs(D, H, dtype):
        return found
    # No more tiles at a time than there are, and F is a multiple of D.
    tiles = math.gcd(found.sum.met, features(D) // found.sum.features)
    return found._replace(sum=found.sum._replace(met=tiles))


def with_decay(found: Sizes) -> Sizes:
    """The launches where keys decay: factors between tokens take registers, so that fewer tokens are met at a time.

    So chosen that no loop of these spills registers when it is compiled for an H100.
    """
    return found._replace(
        answer=found.answer._replace(own=min(found.answer.own, 64), registers=None),
        reach_queries=found.reach_queries._replace(registers=None),
        reach_keys=found.reach_keys._replace(met=min(found.reach_keys.met, 32), registers=None),
    )


def by_pairs(D: int, H: int, dtype: torch.dtype) -> bool:
    """Whether states are laid out by pairs: where that was measured to be faster than by turns.

    On an H200 both passes over 65,536 tokens of 16 heads take 12.7 ms by turns and 9.2 by pairs at D = 64. At D = 32
    sums by pairs take longer than is gained where they are read, and at D = 16 reading them takes longer, too.
    """
    return D == 64 and H <= 64 and dtype.itemsize == 2


def chunk(D: int, H: int, T: int, causal: bool, dtype: torch.dtype) -> int:
    """C: tokens in a chunk, for texts of T; a power of two."""
    if causal and (short := longest_in_one_chunk(D, H, dtype)) >= T:
        return short
    return min(16 * D if causal else 64 * D, max(MOST_OWNED, 1 << (T - 1).bit_length()))


def longest_in_one_chunk(D: int, H: int, dtype: torch.dtype) -> int:
    """Tokens up to which weighing all pairs takes less time than sums over features do; a power of two, or 0.

    Of operations, T (D + H) a token against 4 M H forward. Products with a state make their features first, so that
    the limit lies higher, where both passes were measured to take the same time: less so by pairs.
    """
    limit = (7 if by_pairs(D, H, dtype) else 9) * ((D // 2 + 2) * D + 1) * H // (D + H)
    return 1 << (limit.bit_length() - 1) if dtype.itemsize == 2 and limit >= MOST_OWNED else 0
