"""The kernels equal the oracle, forward and backward. Without a GPU Triton's interpreter runs them, on the CPU."""

from importlib import import_module
from typing import Any

import pytest
import torch
from tests import needs
from tests.layers.closeness import error, gradient_errors
from torch import Tensor

from porism.layers import kernels as shared
from porism.layers.attention.hybrid import HybridAttention, hybrid_attention, hybrid_decode, naive
from porism.layers.attention.hybrid.kernels import triton as kernels
from porism.layers.attention.hybrid.kernels.cpu import forward
from porism.layers.attention.hybrid.kernels.spans import HybridSettings
from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.taylor.kernels.triton.sizes import WIDEST, WIDTHS, SeriesLaunch, Sizes, chunk
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.sample(5)  # an interpreter takes a second for a kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs.triton()
passes, of_series, sizes = (
    import_module(f"porism.layers.attention.{name}")
    for name in ("hybrid.kernels.triton.launches", "taylor.kernels.triton.launches", "hybrid.kernels.triton.sizes")
)

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
    for module in (passes, of_series):
        monkeypatch.setattr(module, "sizes", lambda *_: SMALL)
    monkeypatch.setattr(of_series, "chunk", lambda *_: CHUNK)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets the layer have the kernels on this device, and notes which it asks for."""
    monkeypatch.setattr(shared, "DEVICES", {DEVICE})
    asked: list[str] = []
    for name in ("forward", "backward"):
        monkeypatch.setattr(passes, name, noting(asked, name, getattr(passes, name)))
    return asked


def noting(asked: list[str], name: str, function: Any) -> Any:
    def noted(*args: Any) -> Any:
        asked.append(name)
        return function(*args)

    return noted


def operands(T: int, B: int = 1, A: int = 1, G: int = 1, D: int = 8, H: int = 7) -> list[Tensor]:
    sizes = ((B, A, T, D), (B, G, T, D), (B, G, T, H))
    return [torch.randn(size, dtype=torch.float64, device=DEVICE) for size in sizes]


def errors(
    given: list[Tensor],
    window: int,
    padding: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    scale: float = 0.4,
) -> dict[str, float]:
    """Of the answer and of the gradients, beside the oracle's in float64 from the same rounded operands."""
    q, k, v = given
    dO = torch.randn(*q.shape[:3], v.shape[3], dtype=torch.float64, device=DEVICE)
    rounded = [x.to(dtype) for x in (q, k, v, dO)]
    q, k, v, dO = (x.double().requires_grad_() for x in rounded)
    wanted = naive.hybrid_attention(q, k, v, window_size=window, pattern=CAUSAL, scale=scale, key_padding_mask=padding)
    gradients = torch.autograd.grad((wanted * dO.detach()).sum(), (q, k, v))
    task = HybridSettings(window, 2, True, scale)
    passed = passes.forward(task, *rounded[:3], padding)
    found = passes.backward(task, rounded[3], *rounded[:3], padding, passed)
    assert passed.answer.dtype == found.q.dtype == found.k.dtype == found.v.dtype == dtype
    off = gradient_errors(found[:3], gradients, (q, k, v), dO)
    return {"answer": error(passed.answer, wanted), **dict(zip("qkv", off, strict=True))}


def too_large(found: dict[str, float], most: float) -> dict[str, float]:
    return {part: error for part, error in found.items() if not error <= most}


@pytest.mark.sweep(1, each="T")
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("window", [1, 5, 64, 1000])
@pytest.mark.parametrize("T", [1, 2, 7, 63, 65, 200])
def test_equals_the_oracle_at_odd_lengths(T: int, window: int) -> None:
    assert too_large(errors(operands(T), window), FLOAT32) == {}


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("window", [16, 17, 33, 34])
def test_windows_that_end_with_a_tile_or_beside_its_end(window: int) -> None:
    q, k, v = operands(100)
    # All logits are 2, where exp is far from its series: one pair of the wrong kind shows.
    assert too_large(errors([torch.ones_like(q), torch.ones_like(k), v], window, scale=0.25), FLOAT32) == {}


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("window", [1, 20])
def test_heads_may_share_keys_and_keys_may_be_padding(window: int) -> None:
    # The first text is all padding, and of the second some: with large logits, which no peak may count.
    padding = torch.stack([torch.ones(40).bool(), torch.rand(40) < 0.4]).to(DEVICE)
    q, k, v = operands(40, B=2, A=2)
    k[padding[:, None]] *= 100
    assert too_large(errors([q, k, v], window, padding), FLOAT32) == {}


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("D", "H"), [(16, 64), (32, 1), (64, 16)])
def test_every_width(D: int, H: int) -> None:
    assert too_large(errors(operands(40, D=D, H=H), 5, scale=D**-0.5), FLOAT32) == {}


def test_the_sizes_that_a_gpu_gets() -> None:
    assert too_large(errors(operands(193, H=64), 40), FLOAT32) == {}


@pytest.mark.parametrize("number", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("D", WIDTHS)
def test_tiles_fit_into_tiles(D: int, number: torch.dtype) -> None:
    for H in (1, 64, 65, WIDEST[number.itemsize]):
        for launch in sizes.sizes(D, H, number)[1:]:
            assert launch.features % D == 0
            assert launch.own % launch.met == 0
            assert all(chunk(D, H, T, True, number) % launch.own == 0 for T in (1, 100, 10**6))


@pytest.mark.usefixtures("small")
def test_bfloat16_is_added_up_in_float32() -> None:
    assert too_large(errors(operands(40, D=16, H=16), 9, dtype=torch.bfloat16), BFLOAT16) == {}
    assert too_large(errors(operands(33), 9, dtype=torch.float16), BFLOAT16) == {}


@pytest.mark.usefixtures("small")
def test_far_keys_by_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_series, "by_pairs", lambda *_: True)
    assert too_large(errors(operands(130, D=16), 9), FLOAT32) == {}


@pytest.mark.usefixtures("small")
def test_large_logits_do_not_overflow_and_are_not_rounded() -> None:
    q, k, v = operands(66)
    largest = (0.4 * q @ k.mT).tril().amax()
    assert too_large(errors([q * 60 / largest, k, v], 40), FLOAT32) == {}
    # exp of 200 is beyond float32, and a query times 0.4 would be rounded in bfloat16 once more. Gradients are
    # differences of what was rounded: at such logits bfloat16 has few of their digits, but numbers they are.
    found = errors([q * 200 / largest, k, v], 40, dtype=torch.bfloat16)
    assert found["answer"] <= BFLOAT16
    assert max(found.values()) < 0.1


@pytest.mark.sweep(1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("window", [3, 40])
def test_near_logits_far_below_0_do_not_vanish(window: int, padded: bool) -> None:
    q, k, v = operands(66)
    q, k = q.abs(), -k.abs()
    # All logits are between -100 and -1000. After pads a query sees near keys alone for a window more.
    q, k = q + 12, k - 4
    padding = (torch.arange(66, device=DEVICE) < 35)[None] if padded else None
    most = 1000 * torch.finfo(torch.float32).eps  # which is how far off logits are, and weights with them
    assert too_large(errors([q, k, v], window, padding), most) == {}


@overflowing
@pytest.mark.usefixtures("small")
def test_what_overflows_is_told_and_never_0(served: list[str]) -> None:
    q, k, v = torch.full((1, 1, 40, 8), 1e13), torch.full((1, 1, 40, 8), 1e7), torch.full((1, 1, 40, 7), 1e-30)
    found = hybrid_attention(q.to(DEVICE), -k.to(DEVICE), v.to(DEVICE), window_size=3, pattern=CAUSAL)
    assert found.isnan().all()
    assert served == ["forward"]


@pytest.mark.usefixtures("small")
def test_far_logits_may_be_larger_than_near_ones() -> None:
    q, k, v = operands(66)
    k[:, :, :33] *= 60
    assert too_large(errors([q, k, v], 8), FLOAT32) == {}


@pytest.mark.usefixtures("small")
def test_every_run_gives_the_same_bits() -> None:
    q, k, v, dO = (x.float() for x in (*operands(40), torch.randn(1, 1, 40, 7, device=DEVICE)))
    task = HybridSettings(5, 2, True, 0.4)
    runs = []
    for _ in range(2):
        passed = passes.forward(task, q, k, v, None)
        runs.append([*passed, *passes.backward(task, dO, q, k, v, None, passed)[:3]])
    assert all(torch.equal(one, other) for one, other in zip(*runs, strict=True))


@pytest.mark.usefixtures("small")
def test_totals_and_peaks_are_those_of_torch() -> None:
    q, k, v = operands(66)
    task = HybridSettings(9, 2, True, 0.4)
    wanted, _ = forward(task, q, k, v)
    found = passes.forward(task, q.float(), k.float(), v.float(), None)
    assert (
        too_large({str(i): relative_error(*pair) for i, pair in enumerate(zip(found, wanted, strict=True))}, FLOAT32)
        == {}
    )


@pytest.mark.usefixtures("small")
def test_views_are_read_where_they_lie(served: list[str]) -> None:
    wide = torch.randn(1, 34, 2, 23, device=DEVICE, requires_grad=True)
    found: list[Tensor] = []
    wanted: list[Tensor] = []
    for answers, function, x in ((found, hybrid_attention, wide), (wanted, naive.hybrid_attention, wide.double())):
        q, k, v = x.transpose(1, 2).split([8, 8, 7], dim=-1)
        # A gradient that is one number, spread: its rows do not lie side by side.
        y = function(q, k, v, window_size=3, pattern=CAUSAL)
        answers += [y, *torch.autograd.grad(y.sum(), wide)]
        # Columns that lie apart.
        y = function(q.mT.contiguous().mT, k, v.mT.contiguous().mT, window_size=3, pattern=CAUSAL)
        answers += [y, *torch.autograd.grad((y * y).sum(), wide)]
    assert served == ["forward", "backward"] * 2
    assert found[0].transpose(1, 2).is_contiguous()
    assert [relative_error(x, y) for x, y in zip(found, wanted, strict=True) if relative_error(x, y) > FLOAT32] == []


@pytest.mark.usefixtures("small")
def test_the_layer_learns_through_the_kernels(served: list[str]) -> None:
    layer = HybridAttention(16, 2, window_size=3, num_kv_heads=1, batch_first=True, device=DEVICE)
    x = torch.randn(2, 9, 16, device=DEVICE)
    wanted = torch.autograd.grad(layer.double()(x.double(), is_causal=True)[0].sum(), list(layer.parameters()))
    assert served == []
    found = torch.autograd.grad(layer.float()(x, is_causal=True)[0].sum(), list(layer.parameters()))
    assert served == ["forward", "backward"]
    assert relative_error(torch.cat([x.flatten() for x in found]), torch.cat([x.flatten() for x in wanted])) <= FLOAT32


@pytest.mark.usefixtures("small")
def test_the_compiler_has_the_kernels_too(served: list[str]) -> None:
    q, k, v = (x.float().requires_grad_() for x in operands(9))
    compiled = torch.compile(hybrid_attention, fullgraph=True, backend="aot_eager")
    found, wanted = (
        function(q, k, v, window_size=3, pattern=CAUSAL) for function in (compiled, naive.hybrid_attention)
    )
    assert relative_error(found, wanted) <= FLOAT32
    gradients = [torch.autograd.grad(y.sum(), (q, k, v)) for y in (found, wanted)]
    assert all(relative_error(x, y) <= FLOAT32 for x, y in zip(*gradients, strict=True))
    assert served == ["forward", "backward"]


def test_what_kernels_do_not_have_is_left_to_torch(served: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (x.float() for x in operands(5))
    options: list[dict[str, Any]] = [{"pattern": FULL}, {"offset": 1}, {"order": 4}]
    for other in options:
        hybrid_attention(q, k, v, **{"window_size": 2, "pattern": CAUSAL, **other})
    hybrid_attention(q[..., :6], k[..., :6], v, window_size=2, pattern=CAUSAL)
    hybrid_attention(q, k[:, :, :3], v[:, :, :3], window_size=2, pattern=CAUSAL)
    hybrid_attention(q[:, :, :0], k[:, :, :0], v[:, :, :0], window_size=2, pattern=CAUSAL)
    hybrid_attention(q.double(), k.double(), v.double(), window_size=2, pattern=CAUSAL)
    _, state = hybrid_decode(q, k, v, window_size=2)
    hybrid_decode(q, k, v, state, window_size=2)
    assert not any(kernels.serves(HybridSettings(2, 2, True, scale), q, k, v, None) for scale in (0.0, -1.0))
    assert kernels.kernel_in_use(q, H=7) == "triton"
    assert kernels.kernel_in_use(q, H=300) == kernels.kernel_in_use(q, order=4) == "torch"
    monkeypatch.setattr(shared, "_is_supported", lambda _: False)
    assert kernels.kernel_in_use(q) == "torch"
    hybrid_attention(q, k, v, window_size=2, pattern=CAUSAL)
    assert served == []
