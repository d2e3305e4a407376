"""The registered operators: what torch expects of them, and FLOP formulas that are what is counted."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from porism.costing.counting.count import count
from porism.costing.counting.outputs import tensors_of
from porism.layers import hybrid_attention, taylor_attention, window_attention
from porism.layers.attention.hybrid import hybrid_decode
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.taylor import taylor_decode

pytestmark = pytest.mark.sample(14)

B, A, G, D, H = 2, 4, 2, 4, 7
CALLS: dict[str, Callable[..., Any]] = {
    **{
        f"taylor {pattern.kind} {map} {order}": lambda *x, pattern=pattern, map=map, order=order: taylor_attention(
            *x, pattern=pattern, feature_map=map, order=order
        )
        for pattern in (FULL, CAUSAL, Pattern("block-causal", 7))
        for map, order in (("exact", 2), ("exact", 4), ("rolled", 2), ("ordered", 4), ("diagonal", 2))
    },
    **{
        f"hybrid {pattern.kind} {window} {order}": lambda *x, pattern=pattern, window=window, order=order: (
            hybrid_attention(*x, window_size=window, pattern=pattern, order=order)
        )
        for pattern in (FULL, CAUSAL)
        for window in (1, 50, 400)
        for order in (2, 4)
    },
    **{
        f"window {pattern.kind} {dropout_p}": lambda q, k, v, pattern=pattern, dropout_p=dropout_p: window_attention(
            q, k, v, pattern=pattern, dropout_p=dropout_p
        )
        for pattern in (Pattern("sliding", 5), Pattern("sliding", 5, 3), Pattern("block", 64))
        for dropout_p in (0.0, 0.5)
    },
    "taylor offset": lambda *x: taylor_attention(*x, pattern=CAUSAL, offset=-30),
    "taylor with decay": lambda q, k, v: taylor_attention(q, k, v, pattern=CAUSAL, log_decay=-k[..., 0].square()),
    "hybrid offset": lambda *x: hybrid_attention(*x, window_size=5, offset=150),
    "window offset": lambda *x: window_attention(*x, pattern=Pattern("sliding", 5), offset=4),
    "taylor decoded": lambda *x: decoded(taylor_decode, *x),
    "hybrid decoded": lambda *x: decoded(hybrid_decode, *x, window_size=20),
}


def decoded(decode: Callable[..., Any], *operands: Tensor, **settings: Any) -> Any:
    first, state = decode(*(x[:, :, :280] for x in operands), **settings)
    return first, decode(*(x[:, :, 280:] for x in operands), state, **settings)


def drawn(T: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    sizes = (B, A, T, D), (B, G, T, D), (B, G, T, H)
    return [torch.randn(size, dtype=dtype, requires_grad=True) for size in sizes]


@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", CALLS)
def test_torchs_own_counter_counts_the_same(name: str) -> None:
    counted = count(CALLS[name], *drawn(300))
    with FlopCounterMode(display=False) as forward:
        ends = [end for end in tensors_of(CALLS[name](*drawn(300))) if end.requires_grad]
    with FlopCounterMode(display=False) as backward:
        torch.autograd.backward(ends, [torch.ones_like(end) for end in ends])
    assert forward.get_total_flops() == counted.flops > 0
    assert backward.get_total_flops() == counted.backward_flops > 0


TAYLOR, HYBRID, WINDOW = (
    torch.ops.porism.taylor.default,
    torch.ops.porism.hybrid.default,
    torch.ops.porism.window.default,
)
SETTINGS: list[tuple[Any, tuple[Any, ...]]] = [
    (TAYLOR, ("rolled", 2, "causal", None, 0.5, 0, False)),
    (TAYLOR, ("exact", 4, "block-causal", 3, 0.5, 1, True)),
    (HYBRID, (3, 2, True, 0.5, 0, False)),
    (HYBRID, (3, 2, True, 0.5, 2, True)),
    (WINDOW, ("sliding", 3, 1, False, 0.5, 0, 1.0)),
    (WINDOW, ("block", 4, 0, True, 0.5, 0, 1.0)),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("operator", "settings"), SETTINGS, ids=str)
def test_an_operator_is_what_it_tells_torch(operator: Any, settings: tuple[Any, ...]) -> None:
    # Operands that lie in memory as projections leave them.
    operands = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in drawn(9)]
    padding = torch.rand(B, 9) < 0.3 if settings[-1] else None
    rest = (None, None) if operator is TAYLOR else (None,)
    torch.library.opcheck(operator, (*operands, padding, *rest, *settings), rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("returned", [False, True])
def test_the_operator_tells_torch_of_keys_that_decay(returned: bool) -> None:
    operands = [x.detach().requires_grad_() for x in drawn(9)]
    # As a projection of tokens leaves it.
    log_decay = (-torch.rand(B, 9, G)).mT.requires_grad_()
    settings = ("rolled", 2, "causal", None, 0.5, 0, returned)
    torch.library.opcheck(TAYLOR, (*operands, None, log_decay, None, *settings), rtol=1e-6, atol=1e-6)


def test_the_operator_itself_is_differentiable_once() -> None:
    q, k, v = drawn(9, torch.float64)

    def answer() -> Tensor:
        found: Tensor = TAYLOR(q, k, v, None, None, None, "rolled", 2, "causal", None, 0.5, 0, False)[0]
        return found

    wanted = taylor_attention(q, k, v, pattern=CAUSAL, scale=0.5)
    slopes = [torch.autograd.grad(y.sin().sum(), (q, k, v)) for y in (answer(), wanted)]
    assert all(torch.equal(*pair) for pair in zip(*slopes, strict=True))
    (slope,) = torch.autograd.grad(answer().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        slope.sum().backward()


# torch.compile itself calls what torch deprecates.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.sweep(0)  # a C++ compiler takes ten seconds
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.parametrize("name", ["taylor causal rolled 2", "hybrid causal 1 2", "window sliding 0.0"])
def test_an_answer_of_inductor_which_leaves_copies_out_may_be_changed_in_place(name: str) -> None:
    torch.compiler.reset()
    operands = drawn(9)
    slopes = [
        torch.autograd.grad(call(*operands).mul_(2).square().sum(), operands)
        for call in (CALLS[name], torch.compile(CALLS[name], fullgraph=True))
    ]
    assert all(torch.equal(*pair) for pair in zip(*slopes, strict=True))
