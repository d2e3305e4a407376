"""A scan over time in one GPU kernel: the recurrent matrix stays on chip, and programs pass states on through memory.

A program owns ROWS sequences and UNITS of their states, and keeps the part of the recurrent matrix that leads to these
on chip for all steps. At every step it needs the whole previous state, of which other programs compute the rest. They
meet in the tensor that the scan writes: it is filled with EMPTY before, a NaN that no arithmetic gives, and a program
that reads EMPTY reads again. So a step costs neither a launch nor a barrier, and the bits are the same on every run.

All programs must run at the same time: there are at most as many as multiprocessors, and the launch is cooperative.
Triton's interpreter runs programs one after another, so there every step is a launch of its own.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from porism.layers.kernels.triton import INTERPRETED, precision

EMPTY = tl.constexpr(-1)
"""The bits of a number that is not written yet: all ones, a NaN in every floating type."""

WARPS = 4
"""Each multiplies its part of the previous state; then their sums are added, which takes longer the more they are."""

EXCHANGE = 700
"""Nanoseconds in which programs exchange sums, on an H200."""

BITS = {2: torch.int16, 4: torch.int32}


@triton.jit
def _read(
    state: tl.tensor, row: tl.tensor, B: tl.tensor, FIRST: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
    LENGTH: tl.constexpr, STRIDE: tl.constexpr, PAIRED: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """The bits of what each warp multiplies, written or not: (PARTS, ROWS, PART), or half as many in pairs."""
    if PAIRED:
        number = inputs_of(FIRST // 2, PARTS, PART // 2)[:, None, :]
        place = state.to(tl.pointer_type(tl.int32), bitcast=True) + row[None, :, None] * (STRIDE // 2) + number
        known = (row < B)[None, :, None] & (number < LENGTH // 2)
    else:
        number = inputs_of(FIRST, PARTS, PART)[:, None, :]
        place = state + row[None, :, None] * STRIDE + number
        known = (row < B)[None, :, None] & (number < LENGTH)
    return tl.load(place, mask=known, other=0, volatile=True)


@triton.jit
def _either(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a | b


@triton.jit
def _missing(bits: tl.tensor, PAIRED: tl.constexpr) -> tl.tensor:
    """Not 0 where a number is not written yet."""
    if PAIRED:
        # Of ~bits a half is 0 then, and y has one if (y - 0x00010001) & ~y & 0x80008000 is not 0.
        return (-0x10002 - bits) & bits & -0x7FFF8000
    return (bits == EMPTY).to(tl.int32)


@triton.jit
def _any_missing(bits: tl.tensor, later: tl.tensor, REST: tl.constexpr, PAIRED: tl.constexpr) -> tl.tensor:
    """Not 0 if a number is not written yet."""
    found = tl.reduce(_missing(bits, PAIRED), None, _either)
    if REST:
        found |= tl.reduce(_missing(later, PAIRED), None, _either)
    return found


@triton.jit
def _numbers(bits: tl.tensor, DTYPE: tl.constexpr, PAIRED: tl.constexpr) -> tl.tensor:
    """The numbers of which these are the bits."""
    if PAIRED:
        first, second = bits.to(tl.int16), (bits >> 16).to(tl.int16)
        bits = tl.reshape(tl.join(first, second), (bits.shape[0], bits.shape[1], 2 * bits.shape[2]))
    return bits.to(DTYPE, bitcast=True)


@triton.jit
def write_state(place: tl.tensor, value: tl.tensor, inside: tl.tensor, DTYPE: tl.constexpr) -> None:
    """Writes numbers that others wait for. A NaN of the user's that has the bits of EMPTY becomes another NaN."""
    bits = value.to(DTYPE).to(place.dtype.element_ty, bitcast=True)
    tl.store(place, tl.where(bits == EMPTY, EMPTY - 1, bits), mask=inside)


@triton.jit
def masked(h: tl.tensor, place: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """h times the numbers at these pointers."""
    return (h.to(tl.float32) * tl.load(place, mask=inside, other=0.0).to(tl.float32)).to(h.dtype)


@triton.jit
def total(parts: tl.tensor) -> tl.tensor:
    """The sums of all warps, of 4 or 8: (PARTS, ROWS, N) -> (ROWS, N)."""
    parts = tl.permute(parts, (1, 2, 0))
    # Split moves what belongs together into one thread by whole vectors; tl.sum would go number by number.
    if parts.shape[2] == 8:
        even, odd = tl.split(tl.reshape(parts, (parts.shape[0], parts.shape[1], 4, 2)))
        parts = even + odd
    even, odd = tl.split(tl.reshape(parts, (parts.shape[0], parts.shape[1], 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return (first + second) + (third + fourth)


@triton.jit
def inputs_of(FIRST: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr) -> tl.tensor:
    """The numbers of the previous state that each warp multiplies, (PARTS, PART)."""
    return tl.arange(0, PARTS)[:, None] * PART + tl.arange(0, PART)[None, :] + FIRST


@triton.jit
def fed_back(
    state: tl.tensor, mask: tl.tensor, row: tl.tensor, w: tl.tensor, w_later: tl.tensor, B: tl.tensor,
    is_computed: tl.tensor, LENGTH: tl.constexpr, STRIDE: tl.constexpr, REST: tl.constexpr, MASKED: tl.constexpr,
    WAIT: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """The product of the previous state with the matrix, as soon as all of that state is written.

    A state that is given, not computed by a program, is there from the start, and may hold a NaN of the bits of EMPTY.

    state and mask (B, LENGTH), w (PARTS, PART, N), w_later (PARTS, REST, N) -> (ROWS, N) in float32. Rows of the state
    are STRIDE apart.
    """
    PARTS: tl.constexpr = w.shape[0]
    PART: tl.constexpr = w.shape[1]
    # Numbers of two bytes are looked at in pairs.
    PAIRED: tl.constexpr = w.dtype.primitive_bitwidth == 16 and LENGTH % 2 == 0 and STRIDE % 2 == 0
    bits = _read(state, row, B, 0, PARTS, PART, LENGTH, STRIDE, PAIRED)
    later = bits
    if REST:
        later = _read(state, row, B, PARTS * PART, PARTS, REST, LENGTH, STRIDE, PAIRED)
    if WAIT:
        missing = _any_missing(bits, later, REST, PAIRED)
        while is_computed & (missing != 0):
            bits = _read(state, row, B, 0, PARTS, PART, LENGTH, STRIDE, PAIRED)
            if REST:
                later = _read(state, row, B, PARTS * PART, PARTS, REST, LENGTH, STRIDE, PAIRED)
            missing = _any_missing(bits, later, REST, PAIRED)
    sums = _product(bits, mask, row, w, B, 0, LENGTH, MASKED, PAIRED, PRECISION)
    if REST:
        sums += _product(later, mask, row, w_later, B, PARTS * PART, LENGTH, MASKED, PAIRED, PRECISION)
    return total(sums)


@triton.jit
def _product(
    bits: tl.tensor, mask: tl.tensor, row: tl.tensor, w: tl.tensor, B: tl.tensor, FIRST: tl.constexpr,
    LENGTH: tl.constexpr, MASKED: tl.constexpr, PAIRED: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """What each warp adds: (PARTS, ROWS, N)."""
    h = _numbers(bits, w.dtype, PAIRED)
    if MASKED:
        number = inputs_of(FIRST, w.shape[0], w.shape[1])[:, None, :]
        known = (row < B)[None, :, None] & (number < LENGTH)
        h = masked(h, mask + row[None, :, None] * LENGTH + number, known)
    if INTERPRETED:  # which would multiply the bit patterns of bfloat16
        h = h.to(tl.float32)
        w = w.to(tl.float32)
    return tl.dot(h, w, input_precision=PRECISION)


@triton.jit
def exchanged(
    part: tl.tensor, shared: tl.tensor, row: tl.tensor, column: tl.tensor, unit: tl.tensor, B: tl.tensor,
    own: tl.tensor, turn: tl.tensor, WIDTH: tl.constexpr, STAGE: tl.constexpr, WAIT: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """The sums over four programs, of which this one is number `own`, of what each has computed for its columns.

    The lowest bit of a number tells whether its turn is even or odd, so that one place serves all turns: a program
    writes its next numbers once it has read what the others made of its last ones.

    part (ROWS, 4 UNITS), shared (4, B, WIDTH) -> (ROWS, UNITS) in float32
    """
    plane = tl.cast(B * WIDTH, tl.int64)
    phase = turn % 2
    if STAGE != 2:
        bits = (part.to(tl.int32, bitcast=True) & -2) | phase
        tl.store(shared + own * plane + row[:, None] * WIDTH + column[None, :], bits, mask=(row < B)[:, None])
    place = shared + row[:, None] * WIDTH + unit[None, :]
    known = (row < B)[:, None]
    a = tl.load(place, mask=known, other=phase, volatile=True)
    b = tl.load(place + plane, mask=known, other=phase, volatile=True)
    c = tl.load(place + 2 * plane, mask=known, other=phase, volatile=True)
    d = tl.load(place + 3 * plane, mask=known, other=phase, volatile=True)
    if WAIT:
        while tl.reduce(((a ^ phase) | (b ^ phase) | (c ^ phase) | (d ^ phase)) & 1, None, _either) != 0:
            a = tl.load(place, mask=known, other=phase, volatile=True)
            b = tl.load(place + plane, mask=known, other=phase, volatile=True)
            c = tl.load(place + 2 * plane, mask=known, other=phase, volatile=True)
            d = tl.load(place + 3 * plane, mask=known, other=phase, volatile=True)
    return (_number(a) + _number(b)) + (_number(c) + _number(d))


@triton.jit
def _number(bits: tl.tensor) -> tl.tensor:
    return (bits & -2).to(tl.float32, bitcast=True)


@triton.jit
def tanh(z: tl.tensor) -> tl.tensor:
    """tanh(z) = 2 sigmoid(2 z) - 1"""
    return 2.0 * tl.sigmoid(2.0 * z) - 1.0


class ScanLaunch(NamedTuple):
    """How a scan is spread over the multiprocessors."""

    rows: int
    """Sequences of a program."""
    units: int
    """States of a program."""
    part: int
    rest: int
    """Numbers of the previous state that one warp multiplies, powers of 2, one after the other; a rest of 0 is none."""
    slabs: int
    """Programs that share sequences and pass states to each other."""
    programs: int
    warps: int
    together: int
    """Neighbouring slabs that exchange sums."""
    time: float
    """Nanoseconds of a step, by estimate: to choose between two ways of a scan."""

    def takes_all_at_once(self, B: int) -> bool:
        """Whether no group of the B sequences waits until another has gone through all steps."""
        return self.programs // self.slabs * self.rows >= B

    def options(self, dtype: torch.dtype) -> dict[str, Any]:
        """The arguments that all scans share."""
        waiting = not triton.knobs.runtime.interpret
        options = {
            "ROWS": self.rows,
            "UNITS": self.units,
            "PARTS": self.warps,
            "PART": self.part,
            "REST": self.rest,
            "SLABS": self.slabs,
            # A program alone waits too: for its own warps.
            "WAIT": waiting,
            "PRECISION": precision(dtype),
            "num_warps": self.warps,
        }
        return options | {"launch_cooperative_grid": True} if waiting and self.slabs > 1 else options


@cache
def plan(
    B: int,
    H: int,
    width: int,
    length: int,
    dtype: torch.dtype,
    device: torch.device,
    warps: int = WARPS,
    together: int = 1,
) -> ScanLaunch | None:
    """The launch for B sequences of H states, or None where the matrix does not fit on chip.

    A state is computed from `width` columns of the matrix (the gates of an LSTM are 4) and `length` numbers of the
    previous step. Slabs come in so many `together`.
    """
    processors, chip = _device(device)
    part, rest = shares(length, warps)
    best: tuple[float, ScanLaunch] | None = None
    for units in (16, 32, 64):
        for rows in (16, 32, 64):
            slabs, groups = together * triton.cdiv(H, together * units), triton.cdiv(B, rows)
            columns = units * width
            too_large = rows * columns > 2048 or _chip_bytes(rows, columns, warps, part + rest, dtype) > chip
            if slabs > processors or too_large:
                continue
            at_once = min(groups, processors // slabs)
            # As measured on an H200: a step has a fixed time, one for its sums and one for reading the previous states;
            # one more where sums are exchanged. Groups of sequences that do not fit at once take turns.
            step = 700 + rows * columns + min(rows, B) * warps * (part + rest) / 15 + (EXCHANGE if together > 1 else 0)
            time = triton.cdiv(groups, at_once) * step
            if best is None or time < best[0]:
                best = time, ScanLaunch(rows, units, part, rest, slabs, at_once * slabs, warps, together, time)
    return best[1] if best else None


def shares(length: int, warps: int) -> tuple[int, int]:
    """Two powers of 2, the second may be 0, whose sum for each warp covers the length with little beyond it.

    >>> shares(512, 4), shares(768, 4), shares(200, 4)
    ((128, 0), (128, 64), (64, 0))
    """
    share = max(16, triton.cdiv(length, warps))
    part = 1 << (share.bit_length() - 1)
    rest = max(16, triton.next_power_of_2(share - part)) if share > part else 0
    return (part + rest, 0) if rest == part else (part, rest)


def _chip_bytes(rows: int, columns: int, warps: int, share: int, dtype: torch.dtype) -> int:
    """Of shared memory: the matrix, the previous states, and the sums of the warps; in float32 each in two halves."""
    copies = 2 if dtype == torch.float32 else 1
    return warps * (copies * dtype.itemsize * share * (rows + columns) + 4 * rows * columns)


@cache
def _device(device: torch.device) -> tuple[int, int]:
    """Multiprocessors, and the bytes of shared memory of each. In the interpreter few, so that groups take turns."""
    if device.type != "cuda":
        return 4, 2**18
    properties: Any = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, properties.shared_memory_per_block_optin


def empty_states(T: int, *shape: int, like: Tensor) -> Tensor:
    """What a scan of T steps writes, (T, ...), with no number written yet."""
    states = like.new_empty(T, *shape)
    states.view(BITS[states.element_size()]).fill_(-1)
    return states


def bits(states: Tensor) -> Tensor:
    """The same memory as whole numbers, in which programs can see EMPTY."""
    return states.view(BITS[states.element_size()])


def launches(T: int) -> Iterator[tuple[int, int]]:
    """Which steps each launch takes: one launch for all, and in the interpreter one for each."""
    if triton.knobs.runtime.interpret:
        yield from ((t, t + 1) for t in range(T))
    else:
        yield 0, T


def stages(exchange: bool) -> tuple[int, ...]:
    """Which parts of a step each launch does: all, or in the interpreter first what is written for an exchange."""
    return (1, 2) if exchange and triton.knobs.runtime.interpret else (0,)
