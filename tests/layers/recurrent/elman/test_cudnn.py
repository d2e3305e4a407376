"""The fused kernels compute the same layer; on a CPU torch has them too, so this holds without a GPU."""

from typing import Any

import pytest
import torch
from torch import Tensor

from porism.layers import Elman
from porism.layers.recurrent.elman import naive
from porism.layers.recurrent.elman.kernels.cudnn import fused, tanh_disguise
from porism.testing.gradients import relative_error

SHAPES = [(1, 1, 1, 1), (7, 2, 63, 7), (2, 63, 1, 2), (63, 1, 7, 63)]


def draw(T: int, B: int, D: int, H: int) -> list[Tensor]:
    torch.manual_seed(0)
    # Recurrent weights so small that a rounding error does not grow from step to step.
    x, h0, weight_ih, weight_hh, bias = (
        torch.randn(shape, dtype=torch.float64) for shape in ((T, B, D), (B, H), (H, D), (H, H), (H,))
    )
    return [part.requires_grad_() for part in (x, h0, weight_ih, 0.5 * H**-0.5 * weight_hh, bias)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("nonlinearity", ["sigmoid", "tanh"])
@pytest.mark.parametrize("with_bias", [True, False], ids=["bias", "no-bias"])
def test_fused_equals_naive(shape: tuple[int, int, int, int], nonlinearity: str, with_bias: bool) -> None:
    x, h0, weight_ih, weight_hh, bias = parts = draw(*shape)
    y = fused(x, h0, weight_ih, weight_hh, bias if with_bias else None, nonlinearity)
    b = bias if with_bias else torch.zeros_like(bias)
    wanted = naive.elman(x, h0, weight_ih.mT, weight_hh.mT, b, nonlinearity)
    assert relative_error(y, wanted) <= 1e-12
    learned = parts if with_bias else parts[:-1]
    found = torch.autograd.grad(y.sin().sum(), learned)
    for part, wanted_part in zip(found, torch.autograd.grad(wanted.sin().sum(), learned), strict=True):
        assert relative_error(part, wanted_part) <= 1e-10


def test_fused_relu_equals_naive() -> None:
    x, h0, weight_ih, weight_hh, bias = draw(7, 2, 3, 5)
    wanted = naive.elman(x, h0, weight_ih.mT, weight_hh.mT, bias, "relu")
    assert relative_error(fused(x, h0, weight_ih, weight_hh, bias, "relu"), wanted) <= 1e-12


@pytest.mark.parametrize("nonlinearity", ["sigmoid", "tanh", "relu"])
def test_cudnn_gets_the_first_state_in_one_piece(nonlinearity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, h0, weight_ih, weight_hh, bias = draw(7, 2, 3, 5)
    h0 = h0.detach().mT.contiguous().mT
    name = "rnn_relu" if nonlinearity == "relu" else "rnn_tanh"
    kernel = getattr(torch, name)

    def cudnn(x: Tensor, h0: Tensor, *rest: Any) -> Any:
        assert h0.is_contiguous()
        return kernel(x, h0, *rest)

    monkeypatch.setattr(torch, name, cudnn)
    wanted = naive.elman(x, h0, weight_ih.mT, weight_hh.mT, bias, nonlinearity)
    assert relative_error(fused(x, h0, weight_ih, weight_hh, bias, nonlinearity), wanted) <= 1e-12


def test_the_disguise_is_a_tanh_layer_with_states_between_minus_one_and_one() -> None:
    x, h0, weight_ih, weight_hh, bias = draw(7, 2, 3, 5)
    g0, w, u, b = tanh_disguise(h0, weight_ih, weight_hh, bias)
    h = naive.elman(x, h0, weight_ih.mT, weight_hh.mT, bias, "sigmoid")
    assert relative_error(naive.elman(x, g0, w.mT, u.mT, b, "tanh"), 2 * h - 1) <= 1e-12


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("nonlinearity", ["sigmoid", "tanh", "relu"])
def test_a_cuda_graph_captures_the_layer(nonlinearity: str) -> None:
    layer = Elman(7, 5, nonlinearity=nonlinearity, device="cuda")
    x, weights = torch.randn(3, 2, 7, device="cuda"), list(layer.parameters())
    wanted = torch.autograd.grad(layer(x)[0].sum(), weights)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = torch.autograd.grad(layer(x)[0].sum(), weights)
    graph.replay()
    torch.testing.assert_close(found, wanted)
