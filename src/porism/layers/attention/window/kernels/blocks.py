"""How a text is cut: blocks of neighbouring queries, each with the stretch of keys that it attends to."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import pad

from porism.layers.attention.pattern import Pattern

ROWS = 32
"""Queries in a block of a sliding window: more meet more keys in vain, fewer are too few for fast products."""

_CACHE_BYTES, _GPU_BYTES = 2**23, 2**28


@dataclass(frozen=True)
class Blocks:
    """`count` blocks of `rows` queries, one after the other from `query` on.

    The first attends to `span` keys from `key` on, each further one at as many, `rows` later. Keys before the first and
    after the last of the text are not there: they are filled with zeros, and nobody sees them.
    """

    query: int
    rows: int
    count: int
    key: int
    span: int

    @property
    def queries(self) -> slice:
        return slice(self.query, self.query + self.count * self.rows)

    @property
    def length(self) -> int:
        """Keys from the first of the first block to the last of the last."""
        return (self.count - 1) * self.rows + self.span

    def keys(self, S: int) -> slice:
        """Those of them that are there."""
        first, end = (min(max(place, 0), S) for place in (self.key, self.key + self.length))
        return slice(first, end)

    def split(self, most: int) -> Iterator["Blocks"]:
        """The same blocks, at most so many at once."""
        for done in range(0, self.count, most):
            here, there = (start + done * self.rows for start in (self.query, self.key))
            yield replace(self, query=here, key=there, count=min(most, self.count - done))


def blocks_of(pattern: Pattern, T: int, S: int, offset: int = 0) -> list[Blocks]:
    """Blocks for all queries of a sliding (not dilated) or block pattern: whole ones, and what is left over.

    Every query attends to some key, as `reach` has it, so that no block lies beside the text.

    >>> blocks_of(Pattern("sliding", window=5), T=70, S=70)
    [Blocks(query=0, rows=32, count=2, key=-4, span=36), Blocks(query=64, rows=6, count=1, key=60, span=10)]
    >>> blocks_of(Pattern("block", window=30), T=70, S=70)
    [Blocks(query=0, rows=30, count=2, key=0, span=30), Blocks(query=60, rows=10, count=1, key=60, span=10)]
    """
    W = pattern.window_size
    assert W is not None
    sliding = pattern.kind == "sliding"
    rows = ROWS if sliding else W
    # A text that is continued may start inside of a block.
    lead = 0 if sliding else min(T, -offset % W)
    whole, rest = divmod(T - lead, rows)
    found = []
    for query, size, count in ((0, lead, 1), (lead, rows, whole), (T - rest, rest, 1)):
        if size == 0 or count == 0:
            continue
        place = offset + query
        if sliding:
            found.append(Blocks(query, size, count, place - (W - 1), W - 1 + size + pattern.lookahead))
        else:
            key = place // W * W
            # A single block need not reach beyond the text.
            found.append(Blocks(query, size, count, key, W if count > 1 else min(W, max(1, S - key))))
    return found


class Cut:
    """Queries, keys and values by blocks. G key heads are each shared by A / G query heads.

    Query heads that share a key head stand in one block, as more rows of it: so there are N = B G heads to go through,
    and a block of queries is (N, count, rows A / G, D), of keys (N, count, span, D). The keys' blocks overlap and are a
    view of what is taken once. `width` fills narrower queries, keys and values with zeros, where a kernel wants one
    width of them.
    """

    def __init__(
        self, q: Tensor, k: Tensor, pattern: Pattern, offset: int, key_padding: Tensor | None, width: int | None = None
    ) -> None:
        (self.B, A, self.T, D), (_, self.G, self.S, _) = q.shape, k.shape
        self.shared = A // self.G
        self.pattern, self.offset, self.key_padding, self.width = pattern, offset, key_padding, width
        self.device = q.device
        self._row_bytes = self.B * self.G * max(D, width or 0, self.shared * ROWS) * q.itemsize
        # A stand-in for a tensor takes no memory, so that all blocks go at once, which is simpler to count.
        stand_in = type(q) not in (Tensor, Parameter) or q.is_meta
        self._budget = None if stand_in else _GPU_BYTES if q.is_cuda else _CACHE_BYTES

    def __iter__(self) -> Iterator[tuple[Blocks, Tensor | None]]:
        """Blocks, as many at once as stay in the cache or fit well into a GPU, and True where a query attends to a key.

        That mask fits (N, count, rows A / G, span); it is None where each query attends to all keys of its block.
        """
        for blocks, seen, _ in self.dropping(None):
            yield blocks, seen

    def dropping(self, kept: Tensor | None) -> Iterator[tuple[Blocks, Tensor | None, Tensor | None]]:
        """The same, and for each the weights that dropout keeps, out of those that `draw` drew, if it did."""
        start = 0
        for whole in self._wholes():
            band = self._band(whole)
            for blocks in self._parts(whole):
                part = None
                if kept is not None:
                    sizes = self._weights(blocks)
                    part = kept[:, start : start + prod(sizes)].unflatten(1, sizes)
                    start += prod(sizes)
                yield blocks, self._present(blocks, band), part

    def draw(self, keep: float) -> Tensor:
        """Which weights dropout keeps, each with probability `keep`: (N, all weights of all blocks)."""
        N, parts = self.B * self.G, [part for whole in self._wholes() for part in self._parts(whole)]
        drawn = [torch.rand(N, *self._weights(part), device=self.device) < keep for part in parts]
        return torch.cat([part.flatten(1) for part in drawn], 1)

    def _weights(self, blocks: Blocks) -> tuple[int, int, int]:
        """How many a key head has in some blocks: (count, rows A / G, span)."""
        return blocks.count, self.shared * blocks.rows, blocks.span

    def _wholes(self) -> list[Blocks]:
        return blocks_of(self.pattern, self.T, self.S, self.offset)

    def _parts(self, whole: Blocks) -> Iterator[Blocks]:
        most = whole.count if self._budget is None else max(1, self._budget // (self._row_bytes * whole.span))
        return whole.split(most)

    def queries(self, x: Tensor, blocks: Blocks) -> Tensor:
        """What belongs to queries, (B, A, T, D), by blocks."""
        place = self._place(x, blocks)
        rows = place.reshape(self.B * self.G, blocks.count, self.shared * blocks.rows, place.shape[-1])
        return rows if self._narrow(x) == 0 else pad(rows, (0, self._narrow(x)))

    def write_queries(self, x: Tensor, blocks: Blocks, rows: Tensor) -> None:
        """Back from blocks to their place in x."""
        place = self._place(x, blocks)
        place.copy_((rows if self._narrow(x) == 0 else rows[..., : x.shape[-1]]).view(place.shape))

    def numbers(self, x: Tensor, blocks: Blocks) -> Tensor:
        """One number a query, (B, A, T), by blocks: (N, count, A / G, rows), a view."""
        part = x[:, :, blocks.queries]
        return part.view(self.B * self.G, self.shared, blocks.count, blocks.rows).transpose(1, 2)

    def keys(self, x: Tensor, blocks: Blocks) -> Tensor:
        """What belongs to keys, (B, G, S, D), by blocks."""
        there = blocks.keys(self.S)
        part = x[:, :, there].flatten(0, 1)
        before = max(0, -blocks.key)
        filled = (0, self._narrow(x), before, blocks.length - before - part.shape[1])
        part = pad(part, filled) if any(filled) else part
        return part.unfold(1, blocks.span, blocks.rows).mT

    def add_keys(self, x: Tensor, blocks: Blocks, parts: Tensor) -> None:
        """Adds what reaches keys to their place in x: a key gets the sum of what all blocks send that look at it."""
        N, count, span, _ = parts.shape
        # One piece of each block, as long as the blocks are apart, at a time: pieces do not overlap.
        pieces = -(-span // blocks.rows)
        total = parts.new_zeros(N, (count - 1 + pieces) * blocks.rows, x.shape[-1])
        for start in range(0, span, blocks.rows):
            piece = parts[:, :, start : start + blocks.rows, : x.shape[-1]]
            place = total[:, start : start + count * blocks.rows].view(N, count, blocks.rows, x.shape[-1])
            place[:, :, : piece.shape[2]].add_(piece)
        there, before = blocks.keys(self.S), max(0, -blocks.key)
        length = there.stop - there.start
        x[:, :, there].add_(total[:, before : before + length].view(self.B, self.G, length, x.shape[-1]))

    def _band(self, blocks: Blocks) -> Tensor | None:
        """What the pattern shows of a block, (rows A / G, span): the same for each of them."""
        if self.pattern.kind == "block" and not self.pattern.is_causal:
            return None
        place = self.offset + blocks.query
        query = torch.arange(place, place + blocks.rows, device=self.device)
        key = torch.arange(blocks.key, blocks.key + blocks.span, device=self.device)
        band = self.pattern.mask_mod(None, None, query[:, None], key)
        return band if self.shared == 1 else band.repeat(self.shared, 1)

    def _present(self, blocks: Blocks, band: Tensor | None) -> Tensor | None:
        """The band less the keys that are not there or are only padding."""
        there, before = blocks.keys(self.S), max(0, -blocks.key)
        length = there.stop - there.start
        if length == blocks.length and self.key_padding is None:
            return band
        if self.key_padding is None:
            present = torch.ones(1, length, dtype=torch.bool, device=self.device)
        else:
            present = ~self.key_padding[:, there].repeat_interleave(self.G, 0)
        present = pad(present, (before, blocks.length - before - length))
        present = present.unfold(1, blocks.span, blocks.rows)[:, :, None]  # N or 1, count, 1, span
        return present if band is None else band & present

    def _place(self, x: Tensor, blocks: Blocks) -> Tensor:
        """(B, A, T, D) as (B, G, count, A / G, rows, D), a view."""
        # Not by unflatten, which is written in Python and takes longer than all else that a short text needs here.
        part = x[:, :, blocks.queries]
        return part.view(self.B, self.G, self.shared, blocks.count, blocks.rows, x.shape[-1]).transpose(2, 3)

    def _narrow(self, x: Tensor) -> int:
        return 0 if self.width is None else self.width - x.shape[-1]


class Interleaved:
    """With a dilation d, token i attends to tokens that are a multiple of d away, so i mod d tells the text it is in.

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
        self.pattern = Pattern("sliding", window_size=pattern.window_size, lookahead=pattern.lookahead)
        self.offset = (offset + self._before) // d
        self._fills_seen = self._before > 0 or (S % d > 0 and (pattern.lookahead > 0 or offset + T > S))

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
