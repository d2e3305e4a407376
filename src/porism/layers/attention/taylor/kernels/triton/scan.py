"""From the sums of single chunks to the sums over all chunks before each, or after each in the backward pass."""

import triton
import triton.language as tl

from porism.layers.attention.taylor.kernels.triton.decay import decay_from_start


@triton.jit
def scan(
    sums: tl.tensor,
    weights: tl.tensor,
    first_sums: tl.tensor,
    first_weights: tl.tensor,
    slot_sums: tl.tensor,
    slot_weights: tl.tensor,
    last_sums: tl.tensor,
    last_weights: tl.tensor,
    decays: tl.tensor,
    places: tl.tensor,
    parts: tl.tensor,
    slots: tl.tensor,
    shift: tl.tensor,
    DECAY: tl.constexpr,
    CHUNK: tl.constexpr,
    REVERSED: tl.constexpr,
    EVERY: tl.constexpr,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    SUMS: tl.constexpr,
    WEIGHTS: tl.constexpr,
    AHEAD: tl.constexpr,
    ELEMENTS: tl.constexpr,
) -> None:
    """A few elements of a state, SUMS and WEIGHTS of them, through all parts of a key head.

    What was summed up to and including part p goes to slot p + shift; the slot where nothing has been added yet has the
    first state, or zeros. Without EVERY there is one slot, for the sum of all. With DECAY, what was summed up decays
    over each part's chunk before its own sum is added; `decays` begin with the first part.
    """
    blocks: tl.constexpr = (SUMS + ELEMENTS - 1) // ELEMENTS
    programs: tl.constexpr = blocks + (WEIGHTS + ELEMENTS - 1) // ELEMENTS
    block = tl.program_id(0) % programs
    n = (tl.program_id(0) // programs).to(tl.int64)
    if block < blocks:
        _scan(
            sums, first_sums, slot_sums, last_sums, decays, places, n, block, parts, slots, shift,
            DECAY, CHUNK, REVERSED, EVERY, FIRST, LAST, SUMS, AHEAD, ELEMENTS,
        )  # fmt: skip
    else:
        _scan(
            weights, first_weights, slot_weights, last_weights, decays, places, n, block - blocks, parts, slots, shift,
            DECAY, CHUNK, REVERSED, EVERY, FIRST, LAST, WEIGHTS, AHEAD, ELEMENTS,
        )  # fmt: skip


@triton.jit
def _scan(
    sums: tl.tensor,
    first: tl.tensor,
    slot: tl.tensor,
    last: tl.tensor,
    decays: tl.tensor,
    places: tl.tensor,
    n: tl.tensor,
    block: tl.tensor,
    parts: tl.tensor,
    slots: tl.tensor,
    shift: tl.tensor,
    DECAY: tl.constexpr,
    CHUNK: tl.constexpr,
    REVERSED: tl.constexpr,
    EVERY: tl.constexpr,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    SIZE: tl.constexpr,
    AHEAD: tl.constexpr,
    ELEMENTS: tl.constexpr,
) -> None:
    element = block * ELEMENTS + tl.arange(0, ELEMENTS)
    inside = element < SIZE
    sums += n * parts * SIZE + element
    slot += n * slots * SIZE + element
    so_far = tl.zeros((ELEMENTS,), tl.float32)
    if FIRST:
        so_far += tl.load(first + n * SIZE + element, mask=inside, other=0.0)
    if EVERY:
        empty = slots - 1 if REVERSED else 0
        tl.store(slot + tl.cast(empty, tl.int64) * SIZE, so_far.to(slot.dtype.element_ty), mask=inside)
    for step in tl.range(0, parts, num_stages=AHEAD):
        part = tl.cast(parts - 1 - step if REVERSED else step, tl.int64)
        if DECAY:
            so_far *= decay_from_start(decays + n * 2 * places, places, part * CHUNK + CHUNK - 1)
        so_far += tl.load(sums + part * SIZE, mask=inside, other=0.0).to(tl.float32)
        if EVERY:
            place = part + shift
            # The last part's sum has no slot: it is the last state.
            room = tl.where((place >= 0) & (place < slots), SIZE, 0)
            tl.store(slot + place * SIZE, so_far.to(slot.dtype.element_ty), mask=element < room)
    if not EVERY:
        tl.store(slot, so_far.to(slot.dtype.element_ty), mask=inside)
    if LAST:
        tl.store(last + n * SIZE + element, so_far, mask=inside)
