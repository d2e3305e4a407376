"""The kernels equal the oracle, forward and backward. Without a GPU Triton's interpreter runs them, on the CPU."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from tests import needs
from tests.layers.closeness import error, gradient_errors
from torch import Tensor

from porism.layers import kernels as shared
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.taylor import TaylorAttention, TaylorState, naive, taylor_attention, taylor_decode
from porism.layers.attention.taylor.gradient import gradient as gradient_by_hand
from porism.layers.attention.taylor.kernels import triton as kernels
from porism.layers.attention.taylor.kernels.cpu import SeriesSettings, forward
from porism.layers.attention.taylor.kernels.triton.sizes import (
    SIDE_BY_SIDE,
    WIDEST,
    WIDTHS,
    SeriesLaunch,
    Sizes,
    by_pairs,
    chunk,
    sizes,
)
from porism.layers.attention.taylor.kernels.triton.turns.layout import features
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.sample(5)  # an interpreter takes a second for a kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs.triton()
passes = import_module("porism.layers.attention.taylor.kernels.triton.launches")

FLOAT32, BFLOAT16 = 1e-5, 1e-2
CHUNK = 32
TILES = SeriesLaunch(32, 16, 64, 4, 1)
SMALL = Sizes(SeriesLaunch(16, 1, 64, 4, 1), TILES, TILES, TILES)
# NumPy, which interprets kernels, warns of what they do on purpose.
overflowing = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tiles and chunks, so that a short text has many of them."""
    monkeypatch.setattr(passes, "sizes", lambda *_: SMALL)
    monkeypatch.setattr(passes, "chunk", lambda *_: CHUNK)


@pytest.fixture
def pairs(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """States are laid out by pairs, as those of wide heads are."""
    monkeypatch.setattr(passes, "by_pairs", lambda *_: True)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets the layer have the kernels on this device, and notes which it asks for."""
    monkeypatch.setattr(shared, "DEVICES", {DEVICE})
    asked: list[str] = []
    for name in ("forward", "backward", "step", "step_in_chunk"):
        monkeypatch.setattr(passes, name, noting(asked, name, getattr(passes, name)))
    return asked


def noting(asked: list[str], name: str, function: Any) -> Any:
    def noted(*args: Any) -> Any:
        asked.append(name)
        return function(*args)

    return noted


def operands(
    T: int, S: int | None = None, B: int = 1, A: int = 2, G: int = 2, D: int = 8, H: int = 7
) -> tuple[Tensor, Tensor, Tensor]:
    sizes = ((B, A, T, D), (B, G, S or T, D), (B, G, S or T, H))
    q, k, v = (torch.randn(size, dtype=torch.float64, device=DEVICE) for size in sizes)
    return q, k, v


def padding_of(S: int) -> Tensor:
    """The first text is all padding, and of the second some."""
    return torch.stack([torch.ones(S).bool(), torch.rand(S) < 0.4]).to(DEVICE)


def errors(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    padding: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    scale: float = 0.4,
) -> dict[str, float]:
    """Of the answer and of the gradients, beside the oracle's in float64 from the same rounded operands."""
    dz = torch.randn(*q.shape[:3], v.shape[3], dtype=torch.float64, device=DEVICE)
    given = [x.to(dtype) for x in (q, k, v, dz)]
    q, k, v, dz = (x.double().requires_grad_() for x in given)
    wanted = naive.taylor_attention(q, k, v, pattern=pattern, scale=scale, key_padding_mask=padding)
    gradients = torch.autograd.grad((wanted * dz.detach()).sum(), (q, k, v))
    task = SeriesSettings("rolled", 2, pattern, scale)
    answer, totals, _ = passes.forward(task, *given[:3], padding, None, None)
    found = passes.backward(task, given[3], None, *given[:3], padding, None, None, answer, totals)
    assert answer.dtype == found.q.dtype == found.k.dtype == found.v.dtype == dtype
    off = gradient_errors(found[:3], gradients, (q, k, v), dz)
    return {"answer": error(answer, wanted), **dict(zip("qkv", off, strict=True))}


def too_large(found: dict[str, float], most: float) -> dict[str, float]:
    return {part: error for part, error in found.items() if not error <= most}


@pytest.mark.sweep(1, each="T")
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=["causal", "full"])
@pytest.mark.parametrize("T", [1, 2, 7, 63, 65, 130])
def test_equals_the_oracle_at_odd_lengths(T: int, pattern: Pattern) -> None:
    assert too_large(errors(*operands(T), pattern), FLOAT32) == {}


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=["causal", "full"])
def test_heads_may_share_keys_and_keys_may_be_padding(pattern: Pattern) -> None:
    assert too_large(errors(*operands(40, B=2, G=1), pattern, padding_of(40)), FLOAT32) == {}


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("T", "S"), [(7, 65), (65, 7), (1, 33)])
def test_a_pass_that_looks_everywhere_takes_any_number_of_keys(T: int, S: int) -> None:
    assert too_large(errors(*operands(T, S, B=2), FULL, padding_of(S)), FLOAT32) == {}


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("D", "H"), [(8, 1), (16, 64), (16, 80), (32, 7), (64, 16)])
def test_every_width(D: int, H: int) -> None:
    assert too_large(errors(*operands(65 if D < 64 else 33, A=1, G=1, D=D, H=H), CAUSAL, scale=D**-0.5), FLOAT32) == {}


@pytest.mark.sweep(1, each="T")
@pytest.mark.usefixtures("pairs")
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=["causal", "full"])
@pytest.mark.parametrize("T", [1, 63, 130])
def test_pairs_equal_the_oracle(T: int, pattern: Pattern) -> None:
    assert too_large(errors(*operands(T, B=2, G=1, D=16), pattern, padding_of(T)), FLOAT32) == {}


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("pairs")
@pytest.mark.parametrize(("D", "H"), [(16, 64), (32, 7), (64, 16)])
def test_every_width_by_pairs(D: int, H: int) -> None:
    assert too_large(errors(*operands(65 if D < 64 else 33, A=1, G=1, D=D, H=H), CAUSAL, scale=D**-0.5), FLOAT32) == {}


@pytest.mark.usefixtures("pairs")
def test_pairs_in_bfloat16_are_added_up_in_float32() -> None:
    assert too_large(errors(*operands(65, A=1, G=1, D=16, H=16), CAUSAL, dtype=torch.bfloat16), BFLOAT16) == {}


def test_the_sizes_that_a_gpu_gets() -> None:
    assert too_large(errors(*operands(257, A=1, G=1, D=16, H=64), CAUSAL), FLOAT32) == {}


@pytest.mark.parametrize("number", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("D", WIDTHS)
def test_tiles_fit_into_tiles(D: int, number: torch.dtype) -> None:
    for H in (1, 64, 65, WIDEST[number.itemsize]):
        sums, *readers = sizes(D, H, number)
        if by_pairs(D, H, number):
            assert D // 4 % sums.met == SIDE_BY_SIDE.own % sums.own == 0
        else:
            assert sums.features % D == features(D) % (sums.features * sums.met) == 0
        for launch in readers:
            assert launch.features % D == 0
            assert launch.own % launch.met == 0
            lengths = [(T, causal) for T in (1, 100, 10**6) for causal in (True, False)]
            assert all(chunk(D, H, T, causal, number) % launch.own == 0 for T, causal in lengths)


@pytest.mark.usefixtures("small")
def test_bfloat16_is_added_up_in_float32() -> None:
    assert too_large(errors(*operands(65, A=1, G=1, D=16, H=16), CAUSAL, dtype=torch.bfloat16), BFLOAT16) == {}
    assert too_large(errors(*operands(33, A=1, G=1), CAUSAL, dtype=torch.float16), BFLOAT16) == {}


def state_errors(T: int, pattern: Pattern, D: int, noise: float = 0.0) -> dict[str, float]:
    """Of a pass from a state to a state, and back. Some noise makes the first state one that no keys have left."""
    q, k, v = operands(T, B=2, G=1, D=D)
    task, padding = SeriesSettings("rolled", 2, pattern, 0.4, 0, True), torch.rand(2, T, device=DEVICE) < 0.3
    # A state that keys could have left: its weights are positive.
    first = forward(task, *operands(9, B=2, G=1, D=D))[2]
    first += noise * torch.randn_like(first)
    dz, dlast = torch.randn(2, 2, T, 7, device=DEVICE).double(), torch.randn_like(first)
    wanted = forward(task, q, k, v, padding, first=first)
    gradient = gradient_by_hand(task, dz, dlast, q, k, v, padding, None, first, *wanted[:2])
    single = [x.float() for x in (q, k, v)]
    found = passes.forward(task, *single, padding, None, first.float())
    back = passes.backward(task, dz.float(), dlast.float(), *single, padding, None, first.float(), *found[:2])
    named = dict(
        zip(("answer", "totals", "last", *(f"d{part}" for part in back._fields)), (*found, *back), strict=True)
    )
    pairs = zip(named.items(), (*wanted, *gradient), strict=True)
    return {part: relative_error(x, y) for (part, x), y in pairs if part != "dlog_decay"}


@pytest.mark.sweep(2)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=["causal", "full"])
@pytest.mark.parametrize("T", [1, 7, 40])
def test_a_state_goes_in_and_out_and_gradients_through_it(T: int, pattern: Pattern) -> None:
    assert too_large(state_errors(T, pattern, D=8), FLOAT32) == {}


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("pairs")
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=["causal", "full"])
@pytest.mark.parametrize("T", [7, 40])
def test_a_state_by_pairs_is_the_layers_even_one_that_no_keys_have_left(T: int, pattern: Pattern) -> None:
    assert too_large(state_errors(T, pattern, D=16, noise=0.01), FLOAT32) == {}


@overflowing
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=["causal", "full"])
def test_what_overflows_is_told_and_never_0(pattern: Pattern, served: list[str]) -> None:
    q, k, v = (torch.full((2, 1, 33, width), x, device=DEVICE) for width, x in ((8, 1e13), (8, -1e7), (7, 1e-30)))
    # The first text is all padding: it has no sum that could be lost.
    q[0], k[0] = 1, 1
    padding = torch.tensor([[True], [False]], device=DEVICE).expand(2, 33)
    found = taylor_attention(q, k, v, pattern=pattern, key_padding_mask=padding)
    assert torch.equal(found[0], torch.zeros_like(found[0]))
    assert found[1].isnan().all()
    _, state = taylor_decode(q[:, :, :1], k[:, :, :1], v[:, :, :1], key_padding_mask=padding[:, :1])
    found, _ = taylor_decode(q[:, :, :1], k[:, :, :1], v[:, :, :1], state, key_padding_mask=padding[:, :1])
    assert torch.equal(found[0], torch.zeros_like(found[0]))
    assert found[1].isnan().all()
    assert served == ["forward", "forward", "step"]


@pytest.mark.usefixtures("small")
def test_every_run_gives_the_same_bits() -> None:
    q, k, v = (x.float() for x in operands(40))
    task, dz = SeriesSettings("rolled", 2, CAUSAL, 0.4), torch.randn(1, 2, 40, 7, device=DEVICE)
    runs = []
    for _ in range(2):
        answer, totals, _ = passes.forward(task, q, k, v, None, None, None)
        back = passes.backward(task, dz, None, q, k, v, None, None, None, answer, totals)
        runs.append([answer, totals, *back[:3]])
    assert all(torch.equal(one, other) for one, other in zip(*runs, strict=True))


on_a_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="an interpreter assembles nothing")
of_numbers = pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.bfloat16, BFLOAT16), (torch.float16, BFLOAT16), (torch.float32, FLOAT32)], ids=str
)


@on_a_gpu
@of_numbers
@pytest.mark.parametrize("T", [200, 5_001])
@pytest.mark.parametrize("H", [16, 32, 64, 128])
@pytest.mark.parametrize("D", WIDTHS)
def test_every_width_on_a_gpu(D: int, H: int, T: int, dtype: torch.dtype, bound: float) -> None:
    """Each is other machine code, and an assembler may be wrong for some: see layers/kernels/assembler.py."""
    q, k, v = operands(T, A=2, G=1, D=D, H=H)
    assert too_large(errors(q, k, v, CAUSAL, dtype=dtype, scale=D**-0.5), bound) == {}


@on_a_gpu
@of_numbers
@pytest.mark.parametrize("T", [1_025, 10_001])
@pytest.mark.parametrize("D", WIDTHS)
def test_gradients_of_the_function_on_a_gpu(D: int, T: int, dtype: torch.dtype, bound: float) -> None:
    """As benchmarks/series_gpu.py calls it before it measures: behind the oracle's memory, in autograd's thread."""
    leaves = [x.to(dtype).requires_grad_() for x in operands(T, D=D, H=64)]
    exact = [x.detach().double().requires_grad_() for x in leaves]
    wanted = naive.taylor_attention(exact[0], exact[1], exact[2], order=2, pattern=CAUSAL)
    weights = torch.randn_like(wanted)
    for _ in range(2):
        answer = taylor_attention(leaves[0], leaves[1], leaves[2], pattern=CAUSAL)
        found = answer, *torch.autograd.grad(answer, leaves, weights.to(dtype))
        torch.cuda.synchronize()
    for one, other in zip(found, (wanted, *torch.autograd.grad(wanted, exact, weights)), strict=True):
        assert (one.double() - other).norm() / other.norm() < bound


@pytest.mark.skipif(DEVICE == "cpu", reason="an interpreter has no products that go on while others are prepared")
@pytest.mark.parametrize("D", WIDTHS)
def test_long_texts_give_the_same_bits_on_a_gpu(D: int) -> None:
    q, k, v, dz = (torch.randn(1, 2, 10_001, width, device=DEVICE).bfloat16() for width in (D, D, 64, 64))
    task = SeriesSettings("rolled", 2, CAUSAL, D**-0.5)
    runs = []
    for _ in range(5):
        answer, totals, _ = passes.forward(task, q, k, v, None, None, None)
        runs.append([answer, totals, *passes.backward(task, dz, None, q, k, v, None, None, None, answer, totals)[:3]])
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


@pytest.mark.usefixtures("small")
def test_views_are_read_where_they_lie(served: list[str]) -> None:
    wide = torch.randn(1, 34, 2, 23, device=DEVICE, requires_grad=True)
    found: list[Tensor] = []
    wanted: list[Tensor] = []
    for answers, function, x in ((found, taylor_attention, wide), (wanted, naive.taylor_attention, wide.double())):
        q, k, v = x.transpose(1, 2).split([8, 8, 7], dim=-1)
        # A gradient that is one number, spread: its rows do not lie side by side.
        y = function(q, k, v, pattern=CAUSAL)
        answers += [y, *torch.autograd.grad(y.sum(), wide)]
        # Columns that lie apart.
        y = function(q.mT.contiguous().mT, k, v.mT.contiguous().mT, pattern=CAUSAL)
        answers += [y, *torch.autograd.grad((y * y).sum(), wide)]
    assert served == ["forward", "backward"] * 2
    assert found[0].transpose(1, 2).is_contiguous()
    assert [relative_error(x, y) for x, y in zip(found, wanted, strict=True) if relative_error(x, y) > FLOAT32] == []


def test_a_token_moves_the_state_on_in_one_kernel(served: list[str]) -> None:
    for G, padded in ((1, False), (3, True)):
        q, k, v = operands(12, B=2, A=3, G=G, H=70)
        padding = torch.tensor([[False], [True]], device=DEVICE) if padded else None
        _, before = taylor_decode(q[:, :, :-1], k[:, :, :-1], v[:, :, :-1])
        q, k, v = (x[:, :, -1:] for x in (q, k, v))
        wanted, after = taylor_decode(q, k, v, before, key_padding_mask=padding)
        state = TaylorState(before.sums.float(), before.weights.float())
        kept = [x.clone() for x in state[:2]]
        found, moved = taylor_decode(q.float(), k.float(), v.float(), state, key_padding_mask=padding)
        assert relative_error(found, wanted) <= FLOAT32
        off = [relative_error(x, y) for x, y in zip(moved[:2], after[:2], strict=True)]
        assert all(error <= FLOAT32 for error in off), off
        assert moved[2:] == after[2:] == (2, "rolled")
        assert all(torch.equal(x, y) for x, y in zip(state[:2], kept, strict=True))
    assert served == ["step"] * 2


@pytest.mark.parametrize(
    ("A", "G", "D", "H", "dtype"),
    [
        (2, 2, 8, 7, torch.float32),
        (6, 2, 16, 70, torch.float32),
        (3, 1, 32, 20, torch.float16),
        (4, 4, 16, 16, torch.bfloat16),
    ],
)
def test_a_chunk_is_read_beside_the_state_and_taken_up_at_its_end(
    A: int, G: int, D: int, H: int, dtype: torch.dtype, served: list[str]
) -> None:
    decode: Callable[..., Any] = taylor_decode
    q, k, v = (x.to(dtype) for x in operands(6, B=2, A=A, G=G, D=D, H=H))
    wide = [x.double() for x in (q, k, v)]
    wanted, last = decode(*wide)
    _, before = decode(*(x[:, :, :1] for x in wide))
    state: Any = TaylorState(before.sums.float(), before.weights.float()).in_chunks(4)
    kept = [x.clone() for x in state.before[:2]]
    first, tolerance = state, FLOAT32 if dtype == torch.float32 else BFLOAT16
    for t in range(1, 6):
        answer, state = decode(*(x[:, :, t : t + 1] for x in (q, k, v)), state)
        assert relative_error(answer.double(), wanted[:, :, t : t + 1]) <= tolerance
        if t == 3:
            assert torch.equal(state.keys, k[:, :, 1:4])
            assert torch.equal(state.values, v[:, :, 1:4])
    assert served == ["step_in_chunk"] * 3 + ["step", "step_in_chunk"]
    assert state.length == 1
    folded = state.folded()
    # Keys are exact in every type, and sums are of float32.
    assert [relative_error(x.double(), y) <= FLOAT32 for x, y in zip(folded[:2], last[:2], strict=True)] == [True] * 2
    assert all(torch.equal(x, y) for x, y in zip(first.before[:2], kept, strict=True))


@pytest.mark.usefixtures("small")
def test_decoding_equals_the_whole_text_and_can_learn(served: list[str]) -> None:
    q, k, v = (x.float().requires_grad_() for x in operands(6))
    _, state = taylor_decode(q[:, :, :5], k[:, :, :5], v[:, :, :5])
    last, _ = taylor_decode(q[:, :, 5:], k[:, :, 5:], v[:, :, 5:], state)
    whole = taylor_attention(q, k, v, pattern=CAUSAL)
    assert relative_error(last, whole[:, :, 5:]) <= FLOAT32
    found, wanted = (torch.autograd.grad(y.sum(), (q, k, v)) for y in (last, whole[:, :, 5:]))
    assert [relative_error(x, y) for x, y in zip(found, wanted, strict=True) if relative_error(x, y) > FLOAT32] == []
    assert "step" in served


@pytest.mark.usefixtures("small")
def test_the_layer_learns_through_the_kernels(served: list[str]) -> None:
    layer = TaylorAttention(32, 4, num_kv_heads=2, batch_first=True, warn_above=None, device=DEVICE)
    x = torch.randn(2, 9, 32, device=DEVICE)
    wanted = torch.autograd.grad(layer.double()(x.double(), is_causal=True)[0].sum(), list(layer.parameters()))
    assert served == []
    found = torch.autograd.grad(layer.float()(x, is_causal=True)[0].sum(), list(layer.parameters()))
    assert served == ["forward", "backward"]
    assert relative_error(torch.cat([x.flatten() for x in found]), torch.cat([x.flatten() for x in wanted])) <= FLOAT32


@pytest.mark.usefixtures("small")
def test_the_compiler_has_the_kernels_too(served: list[str]) -> None:
    q, k, v = (x.float().requires_grad_() for x in operands(9))
    compiled = torch.compile(taylor_attention, fullgraph=True, backend="aot_eager")
    found, wanted = (function(q, k, v, pattern=CAUSAL) for function in (compiled, naive.taylor_attention))
    assert relative_error(found, wanted) <= FLOAT32
    gradients = [torch.autograd.grad(y.sum(), (q, k, v)) for y in (found, wanted)]
    assert all(relative_error(x, y) <= FLOAT32 for x, y in zip(*gradients, strict=True))
    assert served == ["forward", "backward"]


def test_what_kernels_do_not_have_is_left_to_torch(served: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (x.float() for x in operands(5))
    for options in (
        {"pattern": Pattern("block-causal", window_size=2)},
        {"pattern": CAUSAL, "offset": 1},
        {"feature_map": "exact"},
        {"order": 4},
    ):
        taylor_attention(q, k, v, **options)
    taylor_attention(q[..., :6], k[..., :6], v)
    taylor_attention(q, k[:, :, :3], v[:, :, :3], pattern=CAUSAL)
    taylor_attention(q, k[:, :, :0], v[:, :, :0])
    taylor_attention(q.double(), k.double(), v.double())
    assert kernels.kernel_in_use(q, H=7) == "triton"
    assert kernels.kernel_in_use(q, H=300) == kernels.kernel_in_use(q, order=4) == "torch"
    monkeypatch.setattr(shared, "_is_supported", lambda _: False)
    assert kernels.kernel_in_use(q) == "torch"
    taylor_attention(q, k, v)
    assert served == []
