"""Modules that once got a wrong number and the verdict "exact": each right now, or labelled for what it is."""

import collections
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.costing.net import Net, stops_early
from tests.costing.real_run import really_kept
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import pad
from torch.utils.flop_counter import FlopCounterMode

from porism import cost
from porism.costing.cost_at import CostAt
from porism.costing.counting.count import count
from porism.errors import RecipeError, ShapeError

pytestmark = pytest.mark.sample(16)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("T", "B"), [(9, 3), (64, 8)])
def test_what_the_lstm_kernel_keeps_is_counted(layers: int, T: int, B: int) -> None:
    lstm = nn.LSTM(4, 6, layers)
    kept = cost(lstm, "T B 4").at(T=T, B=B).activation_bytes
    assert kept == really_kept(lstm, torch.randn(T, B, 4, requires_grad=True))
    assert kept.label == "counted"


def test_a_storage_that_is_longer_than_its_tensor_is_counted_whole() -> None:
    bag = nn.EmbeddingBag(20, 8)
    assert cost(bag, "B T : int < 20").at(B=3, T=9).activation_bytes == really_kept(bag, torch.ones(3, 9).long())


# What runs is what users run


def asks_for_fakes(net: Net, x: Tensor) -> Any:
    return net.linear(x) if type(x).__name__ == "FakeTensor" else net.linear(net.linear(x))


def tries_to_read(net: Net, x: Tensor) -> Any:
    try:
        x.amax().item()
    except Exception:
        return net.linear(x)
    return net.linear(net.linear(x))


@pytest.mark.parametrize("run", [asks_for_fakes, tries_to_read])
def test_code_that_does_something_else_on_fake_tensors_is_counted_on_real_ones(run: Any) -> None:
    found = cost(Net(run), "B T 8")
    assert found.at(B=2, T=4).flops == 2 * 2 * 2 * 4 * 64
    assert "counted on real tensors" in found.verdict


# Every output counts


class Held:
    def __init__(self, y: Tensor) -> None:
        self.y = y


class Slotted:
    __slots__ = ("y",)

    def __init__(self, y: Tensor) -> None:
        self.y = y


WRAPS: dict[str, Callable[[Tensor], Any]] = {
    "set": lambda y: {y},
    "distribution": lambda y: torch.distributions.Categorical(logits=y),
    "normal": lambda y: torch.distributions.Normal(y, 1.0),
    "namespace": lambda y: types.SimpleNamespace(y=y),
    "object": Held,
    "slots": Slotted,
    "generator": lambda y: (part for part in [y]),
    "values": lambda y: {"a": y}.values(),
    "deque": lambda y: collections.deque([y]),
    "closure": lambda y: lambda: y,
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_an_output_counts_whatever_it_is_wrapped_in(wrap: Callable[[Tensor], Any]) -> None:
    assert str(cost(Net(lambda net, x: wrap(net.linear(x))), "B T 8").backward_flops) == "256*B*T"


def test_a_generator_runs_to_its_end() -> None:
    def stages(net: Net, x: Tensor) -> Iterator[Tensor]:
        for _ in range(3):
            x = net.linear(x)
            yield x

    assert str(cost(Net(stages), "B T 8").flops) == "384*B*T"


def test_a_loss_kept_aside_is_named() -> None:
    def routed(net: Net, x: Tensor) -> Any:
        net.aux = net.linear(x).pow(2).mean()
        return net.linear(x)

    assert "no backward pass from aux, which is no output" in cost(Net(routed), "B T 8").verdict
    found = cost(Net(routed), "B T 8", outputs="aux")
    assert str(found.backward_flops) == "256*B*T"
    assert "backward pass from aux;" in found.verdict


def test_the_backward_pass_starts_where_it_is_told_to() -> None:
    def two(net: Net, x: Tensor) -> Any:
        y = net.linear(x)
        return {"y": y, "loss": net.linear(y).sum(), "parts": (y, x)}

    everything = cost(Net(two), "B T 8")
    assert str(everything.backward_flops) == "512*B*T"
    assert "backward pass from the sum of all 3 outputs" in everything.verdict
    assert str(cost(Net(two), "B T 8", outputs="y").backward_flops) == "256*B*T"
    assert str(cost(Net(two), "B T 8", outputs=["y", "loss"]).backward_flops) == "512*B*T"
    assert str(cost(Net(lambda net, x: (x, net.linear(x))), "B T 8", outputs=0).backward_flops) == "0"
    with pytest.raises(RecipeError, match="a dict, has no output 'logits'. Keys: y, loss, parts"):
        cost(Net(two), "B T 8", outputs="logits")


# No memory between sizes


def rotates(net: Net, x: Tensor) -> Any:
    if net.state is None or len(net.state) < x.shape[1]:
        net.state = torch.randn(x.shape[1], 8)
    return net.linear(x) * net.state[: x.shape[1]]


def counts_calls(net: Net, x: Tensor) -> Any:
    net.state = (net.state or 0) + 1
    return net.linear(net.linear(x)) if net.state > 3 else net.linear(x)


def pads_to_longest(net: Net, x: Tensor) -> Any:
    net.state = max(net.state or 0, x.shape[1])
    return net.linear(pad(x, (0, 0, 0, net.state - x.shape[1])))


@pytest.mark.parametrize("run", [rotates, counts_calls, pads_to_longest])
def test_nothing_stays_from_the_sizes_before(run: Any) -> None:
    net = Net(run)
    found = cost(net, "B T 8")
    found.at(B=2, T=50)
    at = found.at(B=2, T=4)
    assert at.flops == 2 * 2 * 4 * 64
    assert at.activation_bytes == really_kept(net, torch.randn(2, 4, 8, requires_grad=True))
    assert net.state is None


# Bytes that are not seen


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        ctx.y = x.exp()
        return ctx.y.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.y


def test_tensors_hung_on_the_context_are_kept() -> None:
    apply: Any = Exp.apply
    assert str(cost(lambda x: apply(x), "B D").activation_bytes) == "4*B*D"


def test_hooks_of_a_module_keep_what_they_pack() -> None:
    def halved(_: Net, x: Tensor) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.half(), lambda packed: packed.float()):
            return x.sigmoid().tanh()

    assert cost(Net(halved), "B T 8").at(B=2, T=4).activation_bytes == 2 * (2 * 64)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_weights_of_a_traced_module_are_no_activations() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    traced = torch.jit.trace(net, torch.randn(3, 8))
    assert cost(traced, "B 8").at(B=4).activation_bytes == 384


# Free by name


@torch.library.custom_op("never_wrong::rows_scatter", mutates_args=())
def rows_scatter(x: Tensor, weight: Tensor) -> Tensor:
    return x @ weight


@rows_scatter.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[1])


def test_no_operator_is_free_by_its_name() -> None:
    found = cost(lambda x, w: rows_scatter(x, w), "B D : data", "D H : data")
    assert "not counted: never_wrong.rows_scatter" in found.verdict
    assert found.verdict.startswith("a lower bound, the same on 3 held-out sizes")
    assert found.at(B=2, D=3, H=4).flops.label == "lower bound"


# Refused though torch runs it


def with_default(x: Tensor, W: int = 512) -> Tensor:
    return x @ x.mT if x.shape[1] < W else x


RUN: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "func.grad": (lambda x, w: torch.func.grad(lambda w: (x @ w).sum())(w), ("B D", "D H"), "4*B*D*H"),
    "lazy": (nn.LazyLinear(8), ("B D",), "16*B*D"),
    "builder": (lambda: nn.Linear(8, 8), ("B 8",), "128*B"),
    "a number in capitals": (with_default, ("B T D",), "2*B*D*T**2"),
    "lazy buffers": (nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d()), ("B 2 T",), "48*B*(T - 2)"),
    "old weight norm": (lambda: torch.nn.utils.weight_norm(nn.Linear(8, 8)), ("B 8",), "128*B"),
}


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`")
@pytest.mark.parametrize(("target", "inputs", "flops"), RUN.values(), ids=RUN)
def test_what_torch_runs_is_counted(target: Any, inputs: tuple[str, ...], flops: str) -> None:
    assert str(cost(target, *inputs).flops) == flops


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`")
def test_a_module_whose_weight_is_computed_can_be_copied() -> None:
    assert str(cost(torch.nn.utils.weight_norm(nn.Linear(8, 8)), "B 8").flops) == "128*B"


def test_torch_func_hides_what_is_kept_and_that_is_said() -> None:
    found = cost(lambda x: torch.func.grad(lambda x: (x @ x.mT).sum())(x), "B D")
    assert found.at(B=np.int64(2), D=3).activation_bytes.label == "unknown"


def test_a_padding_mask_of_an_encoder_in_inference_leaves_nothing_uncounted() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    found = cost(encoder, {"src": "B T 8", "src_key_padding_mask": "B T : bool"})
    assert not found.uncounted


def test_what_numpy_computes_is_said_to_be_unseen() -> None:
    def through_numpy(x: Tensor) -> Tensor:
        return torch.from_numpy(np.asarray(x.detach()) @ x.detach().numpy().T) @ x

    found = cost(through_numpy, "B D")
    assert "not counted: NumPy" in found.verdict
    flops = found.at(B=2, D=3).flops
    assert (flops.label, flops.low) == ("lower bound", 24)


@pytest.mark.parametrize(
    ("target", "inputs", "advice"),
    [
        (nn.Linear(8, 8, device="meta"), "B 8", ""),
        (Net(stops_early).to("meta"), "B T 8", "make it on the CPU"),
        (lambda x: x.view(-1, 32) if x.shape[1] % 32 == 0 else x.missing, "B N", "written 32"),
    ],
)
def test_a_refusal_says_what_to_do(target: Any, inputs: str, advice: str) -> None:
    if advice:
        with pytest.raises(ShapeError, match=advice):
            cost(target, inputs)
    else:
        assert str(cost(target, inputs).flops) == "128*B"


def test_no_real_input_of_gigabytes_is_made() -> None:
    made = []

    def refuses(x: Tensor) -> Tensor:
        made.append(x.nbytes if type(x) is Tensor else 0)
        raise NotImplementedError("no kernel for this")

    with pytest.raises(Exception, match="no kernel for this"):
        cost(refuses, "B A T D")
    assert max(made) < 2**28


def test_labels_of_a_plain_layer_stay_as_they_were() -> None:
    layer = nn.Linear(8, 8)
    at: CostAt = cost(layer, "B 8").at(B=4)
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(4, 8))
    assert at.flops == counter.get_total_flops()
    assert {quantity.label for _, quantity in at.items()} == {"by formula"}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_blocks_that_a_mask_of_flex_attention_leaves_out_are_not_counted() -> None:
    T, D = 384, 16
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, T, T, device="cpu")
    x = torch.randn(2, 3, T, D)
    blocks = 1 + 2 + 3
    assert count(lambda q: flex_attention(q, q, q, block_mask=mask), x).flops == 4 * 6 * D * blocks * 128**2
    assert count(lambda q: flex_attention(q, q, q), x).flops == 4 * 6 * D * T**2


def by_index_add(x: Tensor, weight: Tensor, edges: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]] * weight[:, None])


def by_scatter_add(x: Tensor, weight: Tensor, edges: Tensor) -> Tensor:
    messages = x.index_select(0, edges[0]) * weight.view(-1, 1)
    return torch.zeros_like(x).scatter_add_(0, edges[1].view(-1, 1).expand_as(messages), messages)


def unweighted(x: Tensor, _: Tensor, edges: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])


@pytest.mark.parametrize("run", [by_index_add, by_scatter_add, unweighted])
def test_messages_along_edges_count_as_the_sparse_product(run: Any) -> None:
    found = cost(run, "N D", "E", "2 E : int < N")
    assert (str(found.flops), str(found.backward_flops)) == ("2*D*E", "2*D*E")
    assert str(found.under(elementwise=True).flops) == "2*D*E"  # the weight's product is among them


def summed_thrice(x: Tensor, weight: Tensor, edges: Tensor) -> Tensor:
    messages = x[edges[0]] * weight[:, None]
    same, other = messages.view_as(messages), messages * weight[:, None]
    return sum((torch.zeros_like(x).index_add(0, edges[1], each) for each in (messages, same, other)), x)


def test_a_multiplication_whose_messages_are_summed_several_times_is_left_out_once() -> None:
    found = cost(summed_thrice, "N D", "E", "2 E : int < N")
    assert str(found.flops) == "6*D*E"
    assert found.under(elementwise=True).at(N=5, D=3, E=7).flops == 6 * 3 * 7 + 3 * 5 * 3


def test_sums_by_index_of_anything_else_are_said_to_be_elementwise() -> None:
    found = cost(lambda x, batch: x.new_zeros(3, x.shape[1]).index_add_(0, batch, x), "N D", "N : int < 3")
    assert str(found.flops) == "0"
    assert "other sums by index_add as elementwise work" in found.verdict
    summed = found.under(elementwise=True)
    assert (str(summed.flops), "index_add" in summed.verdict) == ("D*N", False)


def test_elementwise_work_inside_of_kernels_is_said_to_be_left_out() -> None:
    found = cost(nn.Linear(8, 8), "B 8").under(elementwise=True)
    assert "none for that inside of fused kernels, for biases of products" in found.verdict


def test_a_complex_product_counts_as_four() -> None:
    found = cost(lambda x, y: torch.complex(x, y) @ torch.complex(x, y).mT, "B D", "B D")
    assert str(found.flops) == "8*B**2*D"
    assert "a complex product counts as four" in found.verdict
    assert "complex" not in cost(lambda x: x @ x.mT, "B D").verdict
