"""What reaches tokens through the pairs of a state: dx_i = sum over j of x_j (g . S_ij), with products by hand.

A state's rows are blocks of sixteen i with sixteen j, (0, 0) (0, 1) (0, 2) (0, 3) (1, 1) ... (3, 3), i before j. Of
half a block a product makes p_ij = g . S_ij for 64 tokens, which then count for both elements of a pair: p_ij x_i for
x_j, whose i lie in one thread, and p_ij x_j for x_i, whose j lie in four. Blocks on the diagonal have all pairs of
their elements, in both orders, and count for x_j alone; they come first.

A program stays on its multiprocessor and takes tiles of 128 tokens. Two groups of four warps have 64 tokens each, and
one warp copies: the next tile, too, while this one is at work.
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

TOKENS = 128
"""Tokens of a tile; chunks are of whole tiles."""
STAGES = 4
"""Blocks of a state that are held at a time, 32 KiB each."""

WIDTH = gl.constexpr(64)
ROWS = gl.constexpr(256)
UNIT = gl.constexpr(64)

_load_tile = load_tile()
_all_here = all_here()

# (token, eight i, four of sixteen j) as a product leaves them: registers, lanes and warps.
PRODUCTS = gl.constexpr(
    gl.DistributedLinearLayout(
        [[8, 0, 0], [0, 1, 0], [0, 2, 0], [0, 4, 0]],
        [[0, 0, 1], [0, 0, 2], [1, 0, 0], [2, 0, 0], [4, 0, 0]],
        [[16, 0, 0], [32, 0, 0]],
        [],
        [64, 8, 4],
    )
)
BY_FOUR = gl.constexpr(gl.SliceLayout(1, PRODUCTS))
BY_EIGHT = gl.constexpr(gl.SliceLayout(2, PRODUCTS))
# (token, j), and the same by the four j that a thread has.
COLUMNS = gl.constexpr(
    gl.DistributedLinearLayout(
        [[0, 1], [8, 0], [0, 8]],
        [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
        [[16, 0], [32, 0]],
        [],
        [64, 16],
    )
)
RIGHT = gl.constexpr(
    gl.DistributedLinearLayout(
        [[0, 0, 0, 1], [8, 0, 0, 0], [0, 0, 1, 0]],
        [[0, 1, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [2, 0, 0, 0], [4, 0, 0, 0]],
        [[16, 0, 0, 0], [32, 0, 0, 0]],
        [],
        [64, 4, 2, 2],
    )
)


def reach_pairs(x: Tensor, g: Tensor, sums: Tensor, far: Tensor, chunk: int, begin: int, end: int) -> None:
    """far (B, A, T, 64) in float32 for tokens from `begin` up to `end`, whose chunks begin and end there or with T.

    x, g (B, A, T, 64), sums (B G, slots, M, 64): slot c is what tokens of chunk c see. A chunk is a multiple of 128.
    """
    B, A, T, _ = x.shape
    parts = -(-(end - begin) // TOKENS)
    elements, places = described(x, TOKENS, columns=16)
    reaching, g_places = described(g, TOKENS)
    layout = gl.NVMMASharedLayout.get_default_for([ROWS.value, WIDTH.value], gl.bfloat16)
    state = TensorDescriptor.from_tensor(sums.view(-1, WIDTH.value), [ROWS.value, WIDTH.value], layout)
    _reach_pairs[(min(programs(x.device), parts * B * A),)](
        elements, reaching, state, far, parts * B * A, parts, begin, end, sums.shape[1], A, T, *places, *g_places,
        R=B * A // len(sums), M=sums.shape[2], CHUNK=chunk, TOKENS=TOKENS, STAGES=STAGES, num_warps=4,
    )  # fmt: skip


@gluon.jit
def _copy_tiles(
    x_rows: tma.tensor_descriptor,
    g_rows: tma.tensor_descriptor,
    state_rows: tma.tensor_descriptor,
    x: gl.shared_memory_descriptor,
    g: gl.shared_memory_descriptor,
    ring: gl.shared_memory_descriptor,
    tile_ready: gl.shared_memory_descriptor,
    tile_empty: gl.shared_memory_descriptor,
    ready: gl.shared_memory_descriptor,
    empty: gl.shared_memory_descriptor,
    first_tile: gl.tensor,
    tiles: gl.tensor,
    step: gl.tensor,
    parts: gl.tensor,
    first_token: gl.tensor,
    slots: gl.tensor,
    A: gl.tensor,
    x_batch: gl.tensor,
    x_head: gl.tensor,
    x_column: gl.tensor,
    g_batch: gl.tensor,
    g_head: gl.tensor,
    g_column: gl.tensor,
    R: gl.constexpr,
    M: gl.constexpr,
    CHUNK: gl.constexpr,
    TOKENS: gl.constexpr,
    STAGES: gl.constexpr,
) -> None:
    """Tokens, and blocks of states in the order in which both groups take them."""
    done = 0
    for tile in range(first_tile, tiles, step):
        n, begin = _place_of(tile, parts, first_token, R, TOKENS)
        batch = n // A
        head = n % A
        taken = (tile - first_tile) // step
        buffer = taken % 2
        mbarrier.wait(tile_empty.index(buffer), ((taken // 2) & 1) ^ 1)
        bar = tile_ready.index(buffer)
        mbarrier.expect(bar, 2 * TOKENS * WIDTH * 2)
        _load_tile(g_rows, [batch * g_batch + head * g_head + begin, head * g_column], bar, g.index(buffer))
        row = batch * x_batch + head * x_head + begin
        for sixteen in gl.static_range(4):
            _load_tile(x_rows, [row, head * x_column + 16 * sixteen], bar, x.index(4 * buffer + sixteen))
        state = (n // R * slots + begin // CHUNK) * M
        for i in range(4):
            done = _copy_block(state_rows, ring, ready, empty, state, i, i, done, STAGES)
        for i in range(3):
            for j in range(i + 1, 4):
                done = _copy_block(state_rows, ring, ready, empty, state, i, j, done, STAGES)


@gluon.jit
def _copy_block(
    state_rows: tma.tensor_descriptor,
    ring: gl.shared_memory_descriptor,
    ready: gl.shared_memory_descriptor,
    empty: gl.shared_memory_descriptor,
    state: gl.tensor,
    i: gl.tensor,
    j: gl.tensor,
    done: gl.tensor,
    STAGES: gl.constexpr,
) -> gl.tensor:
    # So many blocks come before the first of each i: 0, 4, 7, 9.
    block = 4 * i - i * (i - 1) // 2 + j - i
    stage = done % STAGES
    mbarrier.wait(empty.index(stage), ((done // STAGES) & 1) ^ 1)
    bar = ready.index(stage)
    mbarrier.expect(bar, ROWS * WIDTH * 2)
    _load_tile(state_rows, [state + block * ROWS, 0], bar, ring.index(stage))
    return done + 1


@gluon.jit
def _place_of(
    tile: gl.tensor, parts: gl.tensor, first_token: gl.tensor, R: gl.constexpr, TOKENS: gl.constexpr
) -> tuple[gl.tensor, gl.tensor]:
    """The head of a tile's tokens, and the first of them: tiles that read one state follow each other."""
    of = tile // R
    return of // parts * R + tile % R, first_token + of % parts * TOKENS


@gluon.jit
def _quarters(x: gl.tensor) -> tuple[gl.tensor, ...]:
    """Of (..., 2, 2), the four."""
    even, odd = gl.split(x)
    first, third = gl.split(even)
    second, fourth = gl.split(odd)
    return first, second, third, fourth


@gluon.jit
def _reach_tiles(
    x: gl.shared_memory_descriptor,
    g: gl.shared_memory_descriptor,
    ring: gl.shared_memory_descriptor,
    found: gl.shared_memory_descriptor,
    tile_ready: gl.shared_memory_descriptor,
    tile_empty: gl.shared_memory_descriptor,
    ready: gl.shared_memory_descriptor,
    empty: gl.shared_memory_descriptor,
    far: gl.tensor,
    first_tile: gl.tensor,
    tiles: gl.tensor,
    step: gl.tensor,
    parts: gl.tensor,
    first_token: gl.tensor,
    end: gl.tensor,
    T: gl.tensor,
    OWN: gl.constexpr,
    R: gl.constexpr,
    TOKENS: gl.constexpr,
    STAGES: gl.constexpr,
) -> None:
    """One group: half of the tokens of each tile."""
    mma: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 128, 16])
    out: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    row = gl.arange(0, UNIT, gl.SliceLayout(1, out))
    column = gl.arange(0, 16, gl.SliceLayout(0, out))
    done = 0
    for tile in range(first_tile, tiles, step):
        taken = (tile - first_tile) // step
        buffer = taken % 2
        mbarrier.wait(tile_ready.index(buffer), (taken // 2) & 1)
        reaching = g.index(buffer).slice(OWN * UNIT, UNIT)
        right0 = gl.zeros([UNIT, 4, 2, 2], gl.float32, RIGHT)
        right1 = gl.zeros([UNIT, 4, 2, 2], gl.float32, RIGHT)
        right2 = gl.zeros([UNIT, 4, 2, 2], gl.float32, RIGHT)
        right3 = gl.zeros([UNIT, 4, 2, 2], gl.float32, RIGHT)
        for i in range(4):
            stage = done % STAGES
            mbarrier.wait(ready.index(stage), (done // STAGES) & 1)
            low, high = _products(reaching, ring.index(stage), mma)
            first, second = _of_i(x.index(4 * buffer + i), OWN)
            low = warpgroup_mma_wait(1, deps=[low])
            y = _count_right(low, first, gl.zeros([UNIT, 4, 2, 2], gl.float32, RIGHT))
            high = warpgroup_mma_wait(0, deps=[high])
            # All warps are through with the products.
            _all_here()
            mbarrier.arrive(empty.index(stage), count=1)
            y = _count_right(high, second, y)
            right0, right1, right2, right3 = _add_to(i, y, right0, right1, right2, right3)
            done += 1
        for i in range(3):
            left0 = gl.zeros([UNIT, 8, 4], gl.float32, PRODUCTS)
            left1 = gl.zeros([UNIT, 8, 4], gl.float32, PRODUCTS)
            for j in range(i + 1, 4):
                stage = done % STAGES
                mbarrier.wait(ready.index(stage), (done // STAGES) & 1)
                low, high = _products(reaching, ring.index(stage), mma)
                first, second = _of_i(x.index(4 * buffer + i), OWN)
                other = _of_j(x.index(4 * buffer + j), OWN)
                low = warpgroup_mma_wait(1, deps=[low])
                y = _count_right(low, first, gl.zeros([UNIT, 4, 2, 2], gl.float32, RIGHT))
                left0 = _count_left(low, other, left0)
                high = warpgroup_mma_wait(0, deps=[high])
                _all_here()
                mbarrier.arrive(empty.index(stage), count=1)
                y = _count_right(high, second, y)
                left1 = _count_left(high, other, left1)
                right0, right1, right2, right3 = _add_to(j, y, right0, right1, right2, right3)
                done += 1
            _add_up_left(found.index(4 * OWN + i), left0, left1)
        mbarrier.arrive(tile_empty.index(buffer), count=1)
        _add_right(found.index(4 * OWN), right0, False)
        _add_right(found.index(4 * OWN + 1), right1, False)
        _add_right(found.index(4 * OWN + 2), right2, False)
        # The last i has pairs with no other sixteen.
        _add_right(found.index(4 * OWN + 3), right3, True)
        n, begin = _place_of(tile, parts, first_token, R, TOKENS)
        begin += OWN * UNIT
        to = far + (n.to(gl.int64) * T + begin) * WIDTH + gl.expand_dims(row, 1) * WIDTH
        inside = gl.expand_dims(begin + row < end, 1)
        for sixteen in gl.static_range(4):
            values = found.index(4 * OWN + sixteen).load(out)
            gl.store(to + 16 * sixteen + gl.expand_dims(column, 0), values, mask=inside)


@gluon.jit
def _products(
    g: gl.shared_memory_descriptor, state: gl.shared_memory_descriptor, mma: gl.constexpr
) -> tuple[gl.tensor, gl.tensor]:
    """p_ij for eight i with sixteen j and for the other eight, which go on."""
    none = gl.zeros([UNIT, 128], gl.float32, mma)
    low = warpgroup_mma(g, state.slice(0, 128).permute((1, 0)), none, use_acc=False, is_async=True)
    high = warpgroup_mma(g, state.slice(128, 128).permute((1, 0)), none, use_acc=False, is_async=True)
    return low, high


@gluon.jit
def _of_i(x: gl.shared_memory_descriptor, OWN: gl.constexpr) -> tuple[gl.tensor, gl.tensor]:
    """x_i, twice (64, 8)."""
    of_i = x.slice(OWN * UNIT, UNIT)
    return of_i.slice(0, 8, dim=1).load(BY_EIGHT), of_i.slice(8, 8, dim=1).load(BY_EIGHT)


@gluon.jit
def _of_j(x: gl.shared_memory_descriptor, OWN: gl.constexpr) -> gl.tensor:
    """x_j (64, 4, 2, 2): a thread has column 2 c and the next, and those eight after them."""
    of_j = x.slice(OWN * UNIT, UNIT).load(COLUMNS).to(gl.float32)
    return gl.permute(gl.reshape(of_j, [UNIT, 2, 4, 2]), (0, 2, 1, 3))


@gluon.jit
def _by_column(p: gl.tensor) -> tuple[gl.tensor, ...]:
    """p_ij (64, 8, 4) for each of the four j that a thread has."""
    p0, p1, p2, p3 = _quarters(gl.permute(gl.reshape(p, [UNIT, 8, 2, 4, 2]), (0, 1, 3, 2, 4)))
    return _laid_out(p0, PRODUCTS), _laid_out(p1, PRODUCTS), _laid_out(p2, PRODUCTS), _laid_out(p3, PRODUCTS)


@gluon.jit
def _laid_out(x: gl.tensor, layout: gl.constexpr) -> gl.tensor:
    """The same numbers in the same threads."""
    return gl.convert_layout(x, layout)


@gluon.jit
def _count_right(p: gl.tensor, of_i: gl.tensor, y: gl.tensor) -> gl.tensor:
    """y (64, 4, 2, 2) with p_ij x_i, of eight i."""
    p0, p1, p2, p3 = _by_column(p)
    y0, y1, y2, y3 = _quarters(y)
    of_i = gl.expand_dims(of_i.to(gl.float32), 2)
    y0 = _laid_out(y0, BY_FOUR) + gl.sum(p0 * of_i, 1)
    y1 = _laid_out(y1, BY_FOUR) + gl.sum(p1 * of_i, 1)
    y2 = _laid_out(y2, BY_FOUR) + gl.sum(p2 * of_i, 1)
    y3 = _laid_out(y3, BY_FOUR) + gl.sum(p3 * of_i, 1)
    return _laid_out(gl.join(gl.join(y0, y2), gl.join(y1, y3)), RIGHT)


@gluon.jit
def _count_left(p: gl.tensor, of_j: gl.tensor, left: gl.tensor) -> gl.tensor:
    """left (64, 8, 4) with p_ij x_j, of the four j that a thread has."""
    p0, p1, p2, p3 = _by_column(p)
    x0, x1, x2, x3 = _quarters(of_j)
    left += p0 * gl.expand_dims(_laid_out(x0, BY_FOUR), 1)
    left += p1 * gl.expand_dims(_laid_out(x1, BY_FOUR), 1)
    left += p2 * gl.expand_dims(_laid_out(x2, BY_FOUR), 1)
    left += p3 * gl.expand_dims(_laid_out(x3, BY_FOUR), 1)
    return left


@gluon.jit
def _add_to(
    j: gl.tensor, y: gl.tensor, right0: gl.tensor, right1: gl.tensor, right2: gl.tensor, right3: gl.tensor
) -> tuple[gl.tensor, ...]:
    """y is added to one of four: registers have no address, so the others get zeros."""
    right0 += y * (j == 0).to(gl.float32)
    right1 += y * (j == 1).to(gl.float32)
    right2 += y * (j == 2).to(gl.float32)
    right3 += y * (j == 3).to(gl.float32)
    return right0, right1, right2, right3


@gluon.jit
def _add_up_left(to: gl.shared_memory_descriptor, left0: gl.tensor, left1: gl.tensor) -> None:
    """What counts for x_i, of all j."""
    to.slice(0, 8, dim=1).store(gl.sum(left0, 2))
    to.slice(8, 8, dim=1).store(gl.sum(left1, 2))


@gluon.jit
def _add_right(to: gl.shared_memory_descriptor, right: gl.tensor, ALONE: gl.constexpr) -> None:
    """And what counts for it as x_j."""
    right = _laid_out(gl.reshape(gl.permute(right, (0, 2, 1, 3)), [UNIT, 16]), COLUMNS)
    to.store(right if ALONE else to.load(COLUMNS) + right)


@gluon.jit(
    do_not_specialize=["tiles", "parts", "first_token", "end", "slots", "A", "T", "x_batch", "x_head", "x_column",
                       "g_batch", "g_head", "g_column"]
)  # fmt: skip
def _reach_pairs(
    x_rows: tma.tensor_descriptor,
    g_rows: tma.tensor_descriptor,
    state_rows: tma.tensor_descriptor,
    far: gl.tensor,
    tiles: gl.tensor,
    parts: gl.tensor,
    first_token: gl.tensor,
    end: gl.tensor,
    slots: gl.tensor,
    A: gl.tensor,
    T: gl.tensor,
    x_batch: gl.tensor,
    x_head: gl.tensor,
    x_column: gl.tensor,
    g_batch: gl.tensor,
    g_head: gl.tensor,
    g_column: gl.tensor,
    R: gl.constexpr,
    M: gl.constexpr,
    CHUNK: gl.constexpr,
    TOKENS: gl.constexpr,
    STAGES: gl.constexpr,
) -> None:
    """far (B A, T, 64): every head has `parts` tiles from `first_token` on, and R heads share a state.

    Token t of a head is row t + batch x_batch + head x_head of `x_rows`, from column head x_column on; so is g. Rows of
    `state_rows` are those of (B G, slots, M).
    """
    gl.static_assert(CHUNK % TOKENS == 0)
    # Sixteen numbers of a row, so placed that what a warp adds up is found without conflicts of banks.
    of_sums: gl.constexpr = gl.SwizzledSharedLayout(8, 2, 2, [1, 0])
    g = gl.allocate_shared_memory(gl.bfloat16, [2, TOKENS, WIDTH], g_rows.layout)
    x = gl.allocate_shared_memory(gl.bfloat16, [2 * 4, TOKENS, 16], x_rows.layout)
    ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES, ROWS, WIDTH], state_rows.layout)
    found = gl.allocate_shared_memory(gl.float32, [TOKENS // UNIT * 4, UNIT, 16], of_sums)
    tile_ready = barriers(2, 1)
    tile_empty = barriers(2, 2)
    ready = barriers(STAGES, 1)
    empty = barriers(STAGES, 2)
    fence_async_shared()
    first_tile = gl.program_id(0)
    step = gl.num_programs(0)
    gl.warp_specialize(
        [
            (_reach_tiles, (x, g, ring, found, tile_ready, tile_empty, ready, empty, far, first_tile, tiles,
                            step, parts, first_token, end, T, 0, R, TOKENS, STAGES)),
            (_reach_tiles, (x, g, ring, found, tile_ready, tile_empty, ready, empty, far, first_tile, tiles,
                            step, parts, first_token, end, T, 1, R, TOKENS, STAGES)),
            (_copy_tiles, (x_rows, g_rows, state_rows, x, g, ring, tile_ready, tile_empty, ready, empty, first_tile,
                           tiles, step, parts, first_token, slots, A, x_batch, x_head, x_column, g_batch, g_head,
                           g_column, R, M, CHUNK, TOKENS, STAGES)),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
