"""What queries read from a state by pairs: z = sum of share_ij x_i x_j S_ij over i <= j, with products by hand.

A state's rows are blocks of sixteen i with sixteen j, (0, 0) (0, 1) (0, 2) (0, 3) (1, 1) ... (3, 3), i before j. Those
on the diagonal have all pairs of their elements, in both orders, and half of each is counted.

A program stays on its multiprocessor and takes tiles of 256 queries. Two groups of four warps multiply, each 128
queries in two units, and one warp copies. Of a block a product takes four i with sixteen j: its left factor is made
in registers, where the four fragments of sixteen columns are the same x_j times one x_i each.
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

from porism.layers.attention.taylor.kernels.triton.hopper.tiles import barriers, described
from porism.layers.kernels.gluon import all_here, load_tile, programs

QUERIES = 256
"""Queries of a tile; chunks are of whole tiles."""
STAGES = 4
"""Blocks of a state that are held at a time, 32 KiB each."""
LAG = 1
"""Blocks that the second group is behind the first: one multiplies while the other begins or ends a tile."""

WIDTH = gl.constexpr(64)
BLOCKS = gl.constexpr(10)
ROWS = gl.constexpr(256)
UNIT = gl.constexpr(64)

_load_tile = load_tile()
_all_here = all_here()

# (query, i, j) as a product has its left factor: registers, lanes and warps.
FACTOR = gl.constexpr(
    gl.DistributedLinearLayout(
        [[0, 0, 1], [8, 0, 0], [0, 0, 8], [0, 1, 0], [0, 2, 0]],
        [[0, 0, 2], [0, 0, 4], [1, 0, 0], [2, 0, 0], [4, 0, 0]],
        [[16, 0, 0], [32, 0, 0]],
        [],
        [64, 4, 16],
    )
)


def read_pairs(q: Tensor, sums: Tensor, far: Tensor, chunk: int, begin: int, end: int, scale: float) -> None:
    """far (B, A, T, 64) in float32 for queries (B, A, T, 64) from `begin` up to `end`, where chunks or the text end.

    sums (B G, slots, M, 64): slot c is what queries of chunk c see. A chunk is a multiple of 256 tokens.
    """
    B, A, T, _ = q.shape
    parts = -(-(end - begin) // QUERIES)
    queries, places = described(q, QUERIES)
    layout = gl.NVMMASharedLayout.get_default_for([ROWS.value, WIDTH.value], gl.bfloat16)
    state = TensorDescriptor.from_tensor(sums.view(-1, WIDTH.value), [ROWS.value, WIDTH.value], layout)
    _read_pairs[(min(programs(q.device), parts * B * A),)](
        queries, state, far, parts * B * A, parts, begin, end, sums.shape[1], A, T, *places, scale,
        R=B * A // len(sums), M=sums.shape[2], CHUNK=chunk, QUERIES=QUERIES, STAGES=STAGES, LAG=LAG, num_warps=4,
    )  # fmt: skip


@gluon.jit
def _copy_tiles(
    q_rows: tma.tensor_descriptor,
    state_rows: tma.tensor_descriptor,
    q_tile: gl.shared_memory_descriptor,
    ring: gl.shared_memory_descriptor,
    q_ready: gl.shared_memory_descriptor,
    q_empty: gl.shared_memory_descriptor,
    ready: gl.shared_memory_descriptor,
    empty: gl.shared_memory_descriptor,
    first_tile: gl.tensor,
    tiles: gl.tensor,
    step: gl.tensor,
    parts: gl.tensor,
    first_query: gl.tensor,
    slots: gl.tensor,
    A: gl.tensor,
    row_batch: gl.tensor,
    row_head: gl.tensor,
    head_column: gl.tensor,
    R: gl.constexpr,
    M: gl.constexpr,
    CHUNK: gl.constexpr,
    QUERIES: gl.constexpr,
    STAGES: gl.constexpr,
) -> None:
    """Queries and blocks of states in the order in which both groups take them."""
    done = 0
    phase = 0
    for tile in range(first_tile, tiles, step):
        n, begin = _place_of(tile, parts, first_query, R, QUERIES)
        mbarrier.wait(q_empty, phase ^ 1)
        mbarrier.expect(q_ready, QUERIES * WIDTH * 2)
        row = n // A * row_batch + n % A * row_head + begin
        _load_tile(q_rows, [row, n % A * head_column], q_ready, q_tile)
        phase ^= 1
        state = (n // R * slots + begin // CHUNK) * M
        for block in range(BLOCKS):
            stage = done % STAGES
            mbarrier.wait(empty.index(stage), ((done // STAGES) & 1) ^ 1)
            bar = ready.index(stage)
            mbarrier.expect(bar, ROWS * WIDTH * 2)
            _load_tile(state_rows, [state + block * ROWS, 0], bar, ring.index(stage))
            done += 1


@gluon.jit
def _place_of(
    tile: gl.tensor, parts: gl.tensor, first_query: gl.tensor, R: gl.constexpr, QUERIES: gl.constexpr
) -> tuple[gl.tensor, gl.tensor]:
    """The head of a tile's queries, and the first of them: tiles that read one state follow each other."""
    of = tile // R
    return of // parts * R + tile % R, first_query + of % parts * QUERIES


@gluon.jit
def _scale_queries(
    q: gl.shared_memory_descriptor,
    x: gl.shared_memory_descriptor,
    scale: gl.tensor,
    OF: gl.constexpr,
    dot: gl.constexpr,
) -> None:
    """x: a unit's queries times the scale, sixteen columns after the other."""
    for sixteen in gl.static_range(4):
        columns = q.slice(OF * UNIT, UNIT).slice(16 * sixteen, 16, dim=1).load(dot)
        x.index(4 * OF + sixteen).store((columns.to(gl.float32) * scale).to(gl.bfloat16))


@gluon.jit
def _right_factor(x: gl.shared_memory_descriptor, of_i: gl.tensor, of_j: gl.tensor, OF: gl.constexpr) -> gl.tensor:
    """A unit's x_j of sixteen `of_j` times the share of its products, (64, 1, 16)."""
    share = 1.0 - 0.5 * (of_i == of_j).to(gl.float32)
    return gl.expand_dims(x.index(4 * OF + of_j).load(gl.SliceLayout(1, FACTOR)) * share.to(gl.bfloat16), 1)


@gluon.jit
def _left_factor(x: gl.shared_memory_descriptor, of_i: gl.tensor, OF: gl.constexpr, QUARTER: gl.constexpr) -> gl.tensor:
    """A unit's x_i of sixteen `of_i`, four of them, (64, 4, 1)."""
    four = x.index(4 * OF + of_i).slice(4 * QUARTER, 4, dim=1)
    return gl.expand_dims(four.load(gl.SliceLayout(2, FACTOR)), 2)


@gluon.jit
def _products(left: gl.tensor, right: gl.tensor, dot: gl.constexpr) -> gl.tensor:
    """A unit's x_i x_j, (64, 64)."""
    return gl.convert_layout(gl.reshape(left * right, [64, 64]), dot, assert_trivial=True)


@gluon.jit
def _multiply_tiles(
    q_tile: gl.shared_memory_descriptor,
    x: gl.shared_memory_descriptor,
    ring: gl.shared_memory_descriptor,
    q_ready: gl.shared_memory_descriptor,
    q_empty: gl.shared_memory_descriptor,
    ready: gl.shared_memory_descriptor,
    empty: gl.shared_memory_descriptor,
    behind: gl.shared_memory_descriptor,
    z: gl.tensor,
    first_tile: gl.tensor,
    tiles: gl.tensor,
    step: gl.tensor,
    parts: gl.tensor,
    first_query: gl.tensor,
    end: gl.tensor,
    T: gl.tensor,
    scale: gl.tensor,
    OWN: gl.constexpr,
    R: gl.constexpr,
    QUERIES: gl.constexpr,
    STAGES: gl.constexpr,
    LAG: gl.constexpr,
) -> None:
    """One group: half of the queries of each tile."""
    mma: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    dot: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    row = gl.arange(0, UNIT, gl.SliceLayout(1, mma))
    column = gl.arange(0, WIDTH, gl.SliceLayout(0, mma))
    # Its units.
    FIRST: gl.constexpr = 2 * OWN
    SECOND: gl.constexpr = 2 * OWN + 1
    if OWN == 1 and LAG > 0:
        mbarrier.wait(behind, 0)
    done = 0
    phase = 0
    for tile in range(first_tile, tiles, step):
        mbarrier.wait(q_ready, phase)
        phase ^= 1
        _scale_queries(q_tile, x, scale, FIRST, dot)
        _scale_queries(q_tile, x, scale, SECOND, dot)
        # All warps have read their queries, and have written what they read again.
        _all_here()
        mbarrier.arrive(q_empty, count=1)
        z0 = gl.zeros([UNIT, WIDTH], gl.float32, mma)
        z1 = gl.zeros([UNIT, WIDTH], gl.float32, mma)
        of_i = 0
        of_j = 0
        left0, left1 = _left_factor(x, of_i, FIRST, 0), _left_factor(x, of_i, SECOND, 0)
        right0, right1 = _right_factor(x, of_i, of_j, FIRST), _right_factor(x, of_i, of_j, SECOND)
        phi0 = _products(left0, right0, dot)
        for _block in range(BLOCKS):
            stage = done % STAGES
            mbarrier.wait(ready.index(stage), (done // STAGES) & 1)
            state = ring.index(stage)
            z0 = warpgroup_mma(phi0, state.slice(0, UNIT), z0, is_async=True)
            for quarter in gl.static_range(4):
                phi1 = _products(left1, right1, dot)
                z1 = warpgroup_mma(phi1, state.slice(quarter * UNIT, UNIT), z1, is_async=True)
                if quarter == 0:
                    # All warps that come here are through with the products of the block before.
                    _all_here()
                    mbarrier.arrive(empty.index((done + STAGES - 1) % STAGES), count=1, pred=done > 0)
                    if OWN == 0 and LAG > 0:
                        mbarrier.arrive(behind, count=1, pred=done == LAG)
                if quarter < 3:
                    left0, left1 = _left_factor(x, of_i, FIRST, quarter + 1), _left_factor(x, of_i, SECOND, quarter + 1)
                    z0, _ = warpgroup_mma_wait(1, deps=[z0, phi0])
                    phi0 = _products(left0, right0, dot)
                    z0 = warpgroup_mma(phi0, state.slice((quarter + 1) * UNIT, UNIT), z0, is_async=True)
                    z1, _ = warpgroup_mma_wait(1, deps=[z1, phi1])
            done += 1
            of_j += 1
            if of_j == 4:
                of_i += 1
                of_j = of_i
            # After the last block factors are read that are not used.
            of_i = gl.minimum(of_i, 3)
            of_j = gl.minimum(of_j, 3)
            left0, left1 = _left_factor(x, of_i, FIRST, 0), _left_factor(x, of_i, SECOND, 0)
            right0, right1 = _right_factor(x, of_i, of_j, FIRST), _right_factor(x, of_i, of_j, SECOND)
            z0, _ = warpgroup_mma_wait(1, deps=[z0, phi0])
            # The first factor of the next block is made while the last product of this one goes on. Nothing is under
            # way where an iteration ends: the assembler would otherwise wait for every product by itself.
            phi0 = _products(left0, right0, dot)
            z0, z1, _, phi0 = warpgroup_mma_wait(0, deps=[z0, z1, phi1, phi0])
        n, begin = _place_of(tile, parts, first_query, R, QUERIES)
        first = begin + 2 * OWN * UNIT
        to = z + (n.to(gl.int64) * T + first) * WIDTH + gl.expand_dims(row, 1) * WIDTH + gl.expand_dims(column, 0)
        gl.store(to, z0, mask=gl.expand_dims(first + row < end, 1))
        gl.store(to + UNIT * WIDTH, z1, mask=gl.expand_dims(first + UNIT + row < end, 1))


@gluon.jit(
    do_not_specialize=[
        "tiles",
        "parts",
        "first_query",
        "end",
        "slots",
        "A",
        "T",
        "row_batch",
        "row_head",
        "head_column",
    ]
)
def _read_pairs(
    q_rows: tma.tensor_descriptor,
    state_rows: tma.tensor_descriptor,
    z: gl.tensor,
    tiles: gl.tensor,
    parts: gl.tensor,
    first_query: gl.tensor,
    end: gl.tensor,
    slots: gl.tensor,
    A: gl.tensor,
    T: gl.tensor,
    row_batch: gl.tensor,
    row_head: gl.tensor,
    head_column: gl.tensor,
    scale: gl.tensor,
    R: gl.constexpr,
    M: gl.constexpr,
    CHUNK: gl.constexpr,
    QUERIES: gl.constexpr,
    STAGES: gl.constexpr,
    LAG: gl.constexpr,
) -> None:
    """z (B A, T, 64): every head has `parts` tiles from `first_query` on, and R heads share a state.

    Token t of a head is row t + batch row_batch + head row_head of `q_rows`, from column head head_column on. Rows of
    `state_rows` are those of (B G, slots, M), and slot c has what chunk c sees.
    """
    gl.static_assert(CHUNK % QUERIES == 0)
    # Eight numbers next to each other, so placed that eight rows are read without conflicts of banks.
    of_x: gl.constexpr = gl.SwizzledSharedLayout(8, 4, 2, [1, 0])
    q_tile = gl.allocate_shared_memory(gl.bfloat16, [QUERIES, WIDTH], q_rows.layout)
    x = gl.allocate_shared_memory(gl.bfloat16, [QUERIES // UNIT * 4, UNIT, 16], of_x)
    ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES, ROWS, WIDTH], state_rows.layout)
    q_ready = barriers(1, 1).index(0)
    q_empty = barriers(1, 2).index(0)
    ready = barriers(STAGES, 1)
    empty = barriers(STAGES, 2)
    behind = barriers(1, 1).index(0)
    fence_async_shared()
    first_tile = gl.program_id(0)
    step = gl.num_programs(0)
    gl.warp_specialize(
        [
            (_multiply_tiles, (q_tile, x, ring, q_ready, q_empty, ready, empty, behind, z, first_tile, tiles, step,
                              parts, first_query, end, T, scale, 0, R, QUERIES, STAGES, LAG)),
            (_multiply_tiles, (q_tile, x, ring, q_ready, q_empty, ready, empty, behind, z, first_tile, tiles, step,
                              parts, first_query, end, T, scale, 1, R, QUERIES, STAGES, LAG)),
            (_copy_tiles, (q_rows, state_rows, q_tile, ring, q_ready, q_empty, ready, empty, first_tile, tiles, step,
                          parts, first_query, slots, A, row_batch, row_head, head_column, R, M, CHUNK, QUERIES,
                          STAGES)),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
