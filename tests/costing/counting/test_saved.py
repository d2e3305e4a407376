"""The bytes autograd keeps for the backward pass, equal to a hand count and to a traversal of the graph."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from tests.costing.counting.test_count import B, D, H, T, V, real, sparse
from tests.costing.layer_costs import layer_cost
from torch import Tensor, nn

from porism.costing.counting.count import count
from porism.costing.derive import derive
from porism.layers import Elman, Readout
from porism.layers.cases import LAYERS
from porism.layers.recurrent.lstm.functional import FUSED_ON_CPU

# torch says so of every CSR matrix, once a process.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")

SAVED = [
    ("linear", lambda: nn.Linear(D, H), (B, D), 4 * B * D),
    ("tanh", nn.Tanh, (B, D), 4 * B * D),
    ("relu then linear", lambda: nn.Sequential(nn.ReLU(), nn.Linear(D, H)), (B, D), 4 * B * D),
    ("layer norm", lambda: nn.LayerNorm(D), (B, D), 4 * (B * D + 2 * B)),
    ("softmax", lambda: nn.Softmax(-1), (B, D), 4 * B * D),
    ("gelu", nn.GELU, (B, D), 4 * B * D),
    ("conv2d", lambda: nn.Conv2d(4, 6, 3), (B, 4, 5, 5), 4 * B * 4 * 25),
    ("max pool", lambda: nn.MaxPool2d(2), (B, 4, 6, 6), 4 * B * 4 * 36 + 8 * B * 4 * 9),
    ("rnn cell", lambda: nn.RNNCell(D, H), (B, D), 4 * B * (D + 2 * H)),
    ("double linear", lambda: nn.Linear(D, H, dtype=torch.float64), (B, D), 8 * B * D),
    ("batch norm", lambda: nn.BatchNorm1d(D), (B, D), 4 * (B * D + 4 * D)),
    ("glu", nn.GLU, (B, D), 4 * B * D),
]


@pytest.mark.parametrize(("build", "shape", "kept"), [case[1:] for case in SAVED], ids=[case[0] for case in SAVED])
def test_saved_bytes_equal_the_hand_count(build: Callable[[], nn.Module], shape: tuple[int, ...], kept: int) -> None:
    layer = build()
    dtype = next(iter(layer.parameters()), torch.empty(0)).dtype
    assert count(layer, torch.randn(shape, dtype=dtype, requires_grad=True)).saved_bytes == kept


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.LSTM(D, H, 2),
        lambda: nn.GRU(D, H),
        lambda: nn.TransformerEncoderLayer(D, 2, V),
        lambda: Elman(D, H),
        lambda: Readout(D, H),
        lambda: nn.Sequential(nn.Linear(D, D), nn.Dropout(0.5), nn.Linear(D, H)),
    ],
    ids=["lstm", "gru", "encoder layer", "elman", "readout", "dropout"],
)
def test_saved_bytes_equal_a_walk_over_the_graph(build: Callable[[], nn.Module]) -> None:
    """The nodes' own saved tensors, found from the output back, by the address of their memory."""
    layer, x = build(), real(T, B, D)
    output = layer(x)
    waiting = [(output[0] if isinstance(output, tuple) else output).grad_fn]
    waiting += [output[1].grad_fn] if isinstance(output, tuple) and isinstance(output[1], Tensor) else []
    memory: dict[int, int] = {}
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [before for before, _ in node.next_functions]
        values = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
        values += getattr(node, "saved_tensors", ())
        for value in values:
            for tensor in value if isinstance(value, tuple | list) else [value]:
                if isinstance(tensor, Tensor):
                    memory[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    for parameter in layer.parameters():
        memory.pop(parameter.untyped_storage().data_ptr(), None)
    assert count(layer, x).saved_bytes == sum(memory.values())


def test_views_of_one_storage_are_kept_once_and_whole() -> None:
    x = real(B, D)
    assert count(lambda: x[:1].exp() * x[1:2].sin() * x.cos()).saved_bytes >= 4 * B * D
    y = real(4, D)
    assert count(lambda: y[:1].sin() + y[1:2].sin()).saved_bytes == 4 * 4 * D


def test_a_sparse_matrix_that_is_kept_counts_its_parts() -> None:
    counted = count(torch.sparse.mm, sparse(torch.sparse_csr), real(D, H))
    matrix = sparse(torch.sparse_csr)
    parts = (matrix.crow_indices(), matrix.col_indices(), matrix.values())
    assert counted.saved_bytes == sum(part.untyped_storage().nbytes() for part in parts)


def test_saved_bytes_are_the_same_without_memory() -> None:
    layers = [nn.Linear(D, H), nn.LayerNorm(D), nn.MultiheadAttention(D, 2), nn.RNN(D, H)]
    for layer in layers:
        inputs = (real(T, B, D),) * (3 if isinstance(layer, nn.MultiheadAttention) else 1)
        on_cpu = count(layer, *inputs).saved_bytes
        meta = [x.detach().to("meta").requires_grad_() for x in inputs[:1]] * len(inputs)
        assert count(layer.to("meta"), *meta).saved_bytes == on_cpu


def kept_by_autograd(function: Callable[..., Any], *inputs: Tensor, parameters: list[nn.Parameter]) -> int:
    """The bytes of every storage that autograd packs, on real tensors, less those of parameters."""
    packed: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        packed[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        kept_alive = function(*inputs)
    for parameter in parameters:
        packed.pop(parameter.untyped_storage().data_ptr(), None)
    del kept_alive
    return sum(tensor.untyped_storage().nbytes() for tensor in packed.values())


class SelfAttention(nn.MultiheadAttention):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, need_weights=False)[0]


FORMULAS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "linear": (lambda D, H: nn.Linear(D, H), ("B T D",)),
    "bilinear": (lambda D, H: nn.Bilinear(D, D, H), ("B D", "B D")),
    "embedding": (lambda V, D: nn.Embedding(V, D), ("B T : int < V",)),
    "convolution": (lambda C: nn.Conv2d(C, 2 * C, 3, stride=2, padding=1), ("B C 9 X",)),
    "transposed convolution": (lambda C: nn.ConvTranspose1d(C, C, 3), ("B C T",)),
    "recurrent net": (lambda D, H: nn.RNN(D, H), ("T B D",)),
    "gated recurrent net": (lambda D, H: nn.GRU(D, H), ("T B D",)),
    "multi-head attention": (lambda A, D: SelfAttention(A * D, A, batch_first=True), ("B T A*D",)),
    "encoder layer": (lambda A, D: nn.TransformerEncoderLayer(A * D, A, 3 * D, 0.0), ("T B A*D",)),
    "layer norm": (lambda D: nn.LayerNorm(D), ("B T D",)),
    "batch norm": (lambda D: nn.BatchNorm1d(D), ("B D",)),
    "group norm": (lambda C: nn.GroupNorm(2, 2 * C), ("B 2*C T",)),
    "feed-forward": (lambda D, H: nn.Sequential(nn.Linear(D, H), nn.GELU(), nn.Linear(H, D)), ("B D",)),
    "cross-entropy": (nn.functional.cross_entropy, ("B V", "B : int < V")),
    "fused attention": (nn.functional.scaled_dot_product_attention, ("B A T D",) * 3),
}
KEPT = (*FORMULAS, *(name for name in LAYERS if name != "lstm" or not FUSED_ON_CPU))
"""Not the LSTM on x86: the fused kernel that torch takes there keeps a workspace, which fake tensors do not have."""


# Numbers are drawn without regard to what a series of order 2 is made for.
@pytest.mark.filterwarnings("ignore::porism.layers.attention.taylor.error.SeriesWarning")
@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", KEPT)
def test_the_formula_gives_the_bytes_that_autograd_keeps_on_a_cpu(name: str) -> None:
    if name in FORMULAS:
        target, shapes = FORMULAS[name]
        derived = derive(target, *shapes)
        multiples: dict[str, int] = {}
    else:
        derived = layer_cost(name)
        multiples = getattr(import_module(f"{LAYERS[name]}.cost"), "MULTIPLES", {})
    for base in (2, 5, 12):
        sizes = {
            letter: (base + 2 * number) * multiples.get(letter, 1) for number, letter in enumerate(derived.letters)
        }
        called, inputs, _ = derived.target.call(sizes, torch.device("cpu"))
        parameters = list(called.parameters()) if isinstance(called, nn.Module) else []
        assert derived.at(recount=False, **sizes)["activation_bytes"] == kept_by_autograd(
            called, *inputs, parameters=parameters
        ), sizes
