"""Sums over the tokens of each chunk, S = sum of x_i x_j y, in blocks of sixteen i with sixteen j: see layout.py.

A program stays on its multiprocessor. One warp copies tiles of 64 tokens into shared memory, a ring of them, and two
groups of four warps have a block each: four products of 64 rows, the left factor x_i x_j made in registers while the
products before it go on. Each warp has an i of its own in a product, with sixteen j that all share.
"""

from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from porism.layers.attention.taylor.kernels.triton.hopper.layout import WIDTH
from porism.layers.attention.taylor.kernels.triton.hopper.tiles import barriers, described
from porism.layers.kernels.gluon import all_here, load_tile, programs

TOKENS = 64
STAGES = 4
SKEW = 2
"""Steps that the second group begins later, so that one writes its sums while the other multiplies."""
GROUP_REGISTERS, COPY_REGISTERS = gl.constexpr(240), gl.constexpr(24)
"""Of a thread of the second group, and of the warp that copies; the first group has what is left."""

# (i, j, token) as a product has its left factor: registers, lanes and warps.
FACTOR = gl.constexpr(
    gl.DistributedLinearLayout(
        [[0, 0, 1], [0, 8, 0], [0, 0, 8], [0, 0, 16], [0, 0, 32]],
        [[0, 0, 2], [0, 0, 4], [0, 1, 0], [0, 2, 0], [0, 4, 0]],
        [[1, 0, 0], [2, 0, 0]],
        [],
        [4, 16, 64],
    )
)
# (i, token) of a block: of 16 i a warp has every fourth.
LEFT = gl.constexpr(
    gl.DistributedLinearLayout(
        [[0, 1], [0, 8], [0, 16], [0, 32], [4, 0], [8, 0]],
        [[0, 2], [0, 4], [0, 0], [0, 0], [0, 0]],
        [[1, 0], [2, 0]],
        [],
        [16, 64],
    )
)
_load_tile = load_tile()
_all_here = all_here()


def sum_pairs(columns: Tensor, y: Tensor, sums: Tensor, chunk: int, skipped: int = 0) -> None:
    """The rows of pairs of `sums` (B G, parts, M, 64), from x with tokens side by side, `columns` (B, A, 64, width).

    The first chunks may be skipped, and `parts` follow. What `columns` has not is zero. y (B, A, T, 64) goes as far as
    the chunks. R = A / G heads of x and y belong to one of the sums.
    """
    (B, A), parts, M = y.shape[:2], *sums.shape[1:3]
    R = B * A // len(sums)
    layout = gl.NVMMASharedLayout.get_default_for([16, TOKENS], gl.bfloat16)
    factors = TensorDescriptor.from_tensor(columns.view(B * A * WIDTH, columns.shape[3]), [16, TOKENS], layout)
    values, places = described(y, TOKENS)
    tiles = 5 * parts * len(sums)
    _sum_pairs[(min(programs(y.device), tiles),)](
        factors, values, sums, tiles, parts, skipped, A // R, *places,
        R=R, CHUNK=chunk, STAGES=STAGES, SKEW=SKEW, M=M, num_warps=4,
    )  # fmt: skip


@gluon.jit(do_not_specialize=["tiles", "parts", "skipped", "G", "y_batch", "y_head", "y_column"])
def _sum_pairs(
    x_desc: tma.tensor_descriptor,
    y_desc: tma.tensor_descriptor,
    sums: gl.tensor,
    tiles: gl.tensor,
    parts: gl.tensor,
    skipped: gl.tensor,
    G: gl.tensor,
    y_batch: gl.tensor,
    y_head: gl.tensor,
    y_column: gl.tensor,
    R: gl.constexpr,
    CHUNK: gl.constexpr,
    STAGES: gl.constexpr,
    SKEW: gl.constexpr,
    M: gl.constexpr,
) -> None:
    x_ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES * 4, 16, 64], x_desc.layout)
    y_ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES, 64, 64], y_desc.layout)
    ready = barriers(STAGES, 1)
    empty = barriers(STAGES, 2)
    skew = barriers(1, 1).index(0)
    fence_async_shared()
    first_tile = gl.program_id(0)
    step = gl.num_programs(0)
    gl.warp_specialize(
        [
            (_multiply, (x_ring, y_ring, ready, empty, skew, sums, first_tile, tiles, step, 0, R, CHUNK, STAGES, SKEW,
                        M)),
            (_multiply, (x_ring, y_ring, ready, empty, skew, sums, first_tile, tiles, step, 1, R, CHUNK, STAGES, SKEW,
                        M)),
            (_copy, (x_desc, y_desc, x_ring, y_ring, ready, empty, first_tile, tiles, step,
                     parts, skipped, G, y_batch, y_head, y_column, R, CHUNK, STAGES)),
        ],
        [4, 1],
        [GROUP_REGISTERS, COPY_REGISTERS],
    )  # fmt: skip


@gluon.jit
def _copy(
    x_desc: tma.tensor_descriptor,
    y_desc: tma.tensor_descriptor,
    x_ring: gl.shared_memory_descriptor,
    y_ring: gl.shared_memory_descriptor,
    ready: gl.shared_memory_descriptor,
    empty: gl.shared_memory_descriptor,
    first_tile: gl.tensor,
    tiles: gl.tensor,
    step: gl.tensor,
    parts: gl.tensor,
    skipped: gl.tensor,
    G: gl.tensor,
    y_batch: gl.tensor,
    y_head: gl.tensor,
    y_column: gl.tensor,
    R: gl.constexpr,
    CHUNK: gl.constexpr,
    STAGES: gl.constexpr,
) -> None:
    """Tiles of 64 tokens, for all pairs of blocks that this program has: x as four sixteens, and y."""
    it = 0
    for tile in range(first_tile, tiles, step):
        of = tile // 5
        n = of // parts
        begin = (skipped + of % parts) * CHUNK
        for shared in range(R):
            head = n % G * R + shared
            y_row = n // G * y_batch + head * y_head + begin
            x_row = (n * R + shared) * 64
            for start in range(0, CHUNK, 64):
                stage = it % STAGES
                mbarrier.wait(empty.index(stage), ((it // STAGES) & 1) ^ 1)
                bar = ready.index(stage)
                mbarrier.expect(bar, 2 * 64 * 64 * 2)
                _load_tile(y_desc, [y_row + start, head * y_column], bar, y_ring.index(stage))
                for sixteen in gl.static_range(4):
                    to = x_ring.index(stage * 4 + sixteen)
                    _load_tile(x_desc, [x_row + 16 * sixteen, begin + start], bar, to)
                it += 1


@gluon.jit
def _multiply(
    x_ring: gl.shared_memory_descriptor,
    y_ring: gl.shared_memory_descriptor,
    ready: gl.shared_memory_descriptor,
    empty: gl.shared_memory_descriptor,
    skew: gl.shared_memory_descriptor,
    sums: gl.tensor,
    first_tile: gl.tensor,
    tiles: gl.tensor,
    step: gl.tensor,
    OWN: gl.constexpr,
    R: gl.constexpr,
    CHUNK: gl.constexpr,
    STAGES: gl.constexpr,
    SKEW: gl.constexpr,
    M: gl.constexpr,
) -> None:
    """The sums of one block of two, of every chunk that this program has."""
    STEPS: gl.constexpr = R * (CHUNK // 64)
    mma: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    dot: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    out: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    row = gl.arange(0, 64, gl.SliceLayout(1, out))
    col = gl.arange(0, 64, gl.SliceLayout(0, out))
    if OWN == 1 and SKEW > 0:
        mbarrier.wait(skew, 0)
    total = gl.cdiv(tiles - first_tile, step) * STEPS
    it = 0
    of_i, of_j = _block_of(first_tile, OWN)
    mbarrier.wait(ready.index(0), 0)
    right, i0, i1, i2, i3 = _elements(x_ring, 0, of_i, of_j)
    phi0 = _factor(right, i0, dot)
    for tile in range(first_tile, tiles, step):
        next_of_i, next_of_j = _block_of(tile + step, OWN)
        a0 = gl.zeros([64, 64], gl.float32, mma)
        a1 = gl.zeros([64, 64], gl.float32, mma)
        a2 = gl.zeros([64, 64], gl.float32, mma)
        a3 = gl.zeros([64, 64], gl.float32, mma)
        for s in range(STEPS):
            y = y_ring.index(it % STAGES)
            # S_ij += x_i x_j y
            a0 = warpgroup_mma(phi0, y, a0, is_async=True)
            # All warps that come here have read the stage before.
            _all_here()
            mbarrier.arrive(empty.index((it + STAGES - 1) % STAGES), count=1, pred=it > 0)
            if OWN == 0 and SKEW > 0:
                mbarrier.arrive(skew, count=1, pred=it == SKEW)
            phi1 = _factor(right, i1, dot)
            a1 = warpgroup_mma(phi1, y, a1, is_async=True)
            a0, _ = warpgroup_mma_wait(1, deps=[a0, phi0])
            phi2 = _factor(right, i2, dot)
            a2 = warpgroup_mma(phi2, y, a2, is_async=True)
            a1, _ = warpgroup_mma_wait(1, deps=[a1, phi1])
            phi3 = _factor(right, i3, dot)
            a3 = warpgroup_mma(phi3, y, a3, is_async=True)
            # The first factor of the next step is made while the last products of this one go on. That all of them end
            # within the step is for the assembler: it runs products one by one that go on into the next iteration.
            it += 1
            next = it % STAGES
            mbarrier.wait(ready.index(next), (it // STAGES) & 1, pred=it < total)
            if s == STEPS - 1:
                of_i = next_of_i
                of_j = next_of_j
            right, i0, i1, i2, i3 = _elements(x_ring, next * 4, of_i, of_j)
            phi0 = _factor(right, i0, dot)
            a2, a3, _, _, phi0 = warpgroup_mma_wait(0, deps=[a2, a3, phi2, phi3, phi0])
        place = (_wide(tile // 5) * M + (tile % 5 * 2 + OWN) * 256) * 64
        to = sums + place + gl.expand_dims(row, 1) * 64 + gl.expand_dims(col, 0)
        gl.store(to, gl.convert_layout(a0.to(gl.bfloat16), out))
        gl.store(to + 64 * 64, gl.convert_layout(a1.to(gl.bfloat16), out))
        gl.store(to + 128 * 64, gl.convert_layout(a2.to(gl.bfloat16), out))
        gl.store(to + 192 * 64, gl.convert_layout(a3.to(gl.bfloat16), out))


@gluon.jit
def _block_of(
    tile: gl.tensor,
    OWN: gl.constexpr,
) -> tuple[gl.tensor, gl.tensor]:
    """Of which sixteen the i and the j of a group's block are."""
    block = tile % 5 * 2 + OWN
    # So many blocks come before the first of each i: 0, 4, 7, 9.
    of_i = (block >= 4).to(gl.int32) + (block >= 7).to(gl.int32) + (block >= 9).to(gl.int32)
    return of_i, block - (4 * of_i - of_i * (of_i - 1) // 2) + of_i


@gluon.jit
def _elements(
    x_ring: gl.shared_memory_descriptor,
    at: gl.tensor,
    of_i: gl.tensor,
    of_j: gl.tensor,
) -> tuple[gl.tensor, ...]:
    """x_j (1, 16, 64), and x_i, four times (4, 1, 64)."""
    middle: gl.constexpr = gl.SliceLayout(1, FACTOR)
    right = gl.expand_dims(x_ring.index(at + of_j).load(gl.SliceLayout(0, FACTOR)), 0)
    low, high = _halves(x_ring.index(at + of_i).load(LEFT))
    i0, i1 = _halves(low)
    i2, i3 = _halves(high)
    i0 = gl.expand_dims(gl.convert_layout(i0, middle, assert_trivial=True), 1)
    i1 = gl.expand_dims(gl.convert_layout(i1, middle, assert_trivial=True), 1)
    i2 = gl.expand_dims(gl.convert_layout(i2, middle, assert_trivial=True), 1)
    i3 = gl.expand_dims(gl.convert_layout(i3, middle, assert_trivial=True), 1)
    return right, i0, i1, i2, i3


@gluon.jit
def _halves(
    x: gl.tensor,
) -> tuple[gl.tensor, gl.tensor]:
    """Of (2 n, tokens), the first n and the last n."""
    n: gl.constexpr = x.shape[0] // 2
    first, last = gl.split(gl.permute(gl.reshape(x, [2, n, 64]), (1, 2, 0)))
    return first, last


@gluon.jit
def _wide(x: gl.tensor) -> gl.tensor:
    return x.to(gl.int64)


@gluon.jit
def _factor(
    right: gl.tensor,
    left: gl.tensor,
    dot: gl.constexpr,
) -> gl.tensor:
    return gl.convert_layout(gl.reshape(right * left, [64, 64]), dot, assert_trivial=True)
