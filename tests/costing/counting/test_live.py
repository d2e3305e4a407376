"""What is alive is known by role, at the worst moment and at the end."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from porism.costing.counting.live import LiveBytes

NUMBER = 4  # bytes of a float


def test_memory_comes_and_goes() -> None:
    with LiveBytes() as live:
        x = torch.zeros(7)
        y = x + 1
        del x
        z = y.view(7, 1) * 2
        del y
    assert live.peak == {"transient": 2 * 7 * NUMBER}
    assert live.now == {"transient": 7 * NUMBER}
    del z
    assert live.now["transient"] == 0


def test_views_share_their_memory() -> None:
    with LiveBytes() as live:
        x = torch.zeros(6, 2)
        views = [x.t(), x[1:], x.expand(3, 6, 2)]
    assert live.now == {"transient": 12 * NUMBER}
    assert len(views) == 3


def test_roles_are_told_apart_through_a_training_step() -> None:
    layer, x = nn.Linear(7, 5), torch.zeros(3, 7)
    live = LiveBytes()
    live.hold("parameters", layer.parameters())
    live.hold("activations", [x])
    with live, live.following_autograd(layer.parameters()):
        y = layer(x).tanh()
        kept = dict(live.now)
        y.backward(torch.ones_like(y))
        del y
    # The input was there before, tanh keeps its answer; the sum before it is gone.
    assert kept == {"parameters": 40 * NUMBER, "activations": (21 + 15) * NUMBER, "transient": 0}
    assert live.now == {"parameters": 40 * NUMBER, "activations": 21 * NUMBER, "gradients": 40 * NUMBER, "transient": 0}


def test_fake_tensors_count_as_real_ones() -> None:
    def peak() -> int:
        model = nn.Sequential(nn.Linear(7, 63), nn.GELU(), nn.Linear(63, 2))
        live = LiveBytes()
        live.hold("parameters", model.parameters())
        with live, live.following_autograd(model.parameters()):
            y = model(torch.zeros(11, 7))
            y.backward(torch.ones_like(y))
        return live.peak.total()

    with FakeTensorMode():
        fake = peak()
    assert fake == peak() > 0
