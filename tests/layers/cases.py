"""One case for every layer: how the contract builds it, runs it, and what it must refuse."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from porism.cost import Cost, D, T
from porism.layers import Attention, Elman, Readout, softmax_attention
from porism.layers.attention import naive as attention_naive
from porism.layers.attention.cost import cost as attention_cost
from porism.layers.attention.layer import Cache
from porism.layers.elman import naive as elman_naive
from porism.layers.elman.cost import cost as elman_cost
from porism.layers.gcn import Graph, GraphConvolution, Propagated, SparseFeatures
from porism.layers.gcn import naive as gcn_naive
from porism.layers.gcn.cost import cost as gcn_cost
from porism.layers.gcn.graph import Outline
from porism.layers.grid import Grid, grid
from porism.layers.grid import naive as grid_naive
from porism.layers.grid.cost import cost as grid_cost
from porism.layers.hybrid import HybridAttention, hybrid_attention
from porism.layers.hybrid import naive as hybrid_naive
from porism.layers.hybrid.cost import cost as hybrid_cost
from porism.layers.pattern import Pattern
from porism.layers.readout import linear_cross_entropy
from porism.layers.readout import naive as readout_naive
from porism.layers.readout.cost import cost as readout_cost
from porism.layers.skipgram import SkipGram, sampled_loss
from porism.layers.skipgram import naive as skipgram_naive
from porism.layers.skipgram import skipgram as skipgram_loss
from porism.layers.skipgram.cost import cost as skipgram_cost
from porism.layers.taylor import TaylorAttention, TaylorState, taylor_attention, taylor_decode
from porism.layers.taylor import naive as taylor_naive
from porism.layers.taylor.cost import cost as taylor_cost
from porism.layers.window import WindowAttention, window_attention, window_decode
from porism.layers.window import naive as window_naive
from porism.layers.window.cost import cost as window_cost

Sizes = dict[str, int]
Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Mistake:
    """A call that must be refused, and the words of the refusal."""

    name: str
    call: Callable[[], Any]
    message: str


@dataclass(frozen=True)
class Case:
    """A layer at given sizes; `run` is the fast way, `naive` the slow way to the same tensor."""

    build: Callable[[Sizes], nn.Module]
    inputs: Callable[[Sizes], Inputs]
    run: Callable[[Any, Inputs], Tensor]
    naive: Callable[[Any, Inputs], Tensor]
    cost: Callable[[], Cost]
    mistakes: tuple[Mistake, ...]


def _run_elman(layer: Elman, inputs: Inputs) -> Tensor:
    y: Tensor = layer(inputs["x"], inputs["h"])[0]
    return y


def _naive_elman(layer: Elman, inputs: Inputs) -> Tensor:
    weight_ih, weight_hh, bias = layer.parameters()
    return elman_naive.elman(inputs["x"], inputs["h"][0], weight_ih.mT, weight_hh.mT, bias)


_ELMAN = Elman(7, 5)

ELMAN = Case(
    build=lambda n: Elman(n["D"], n["H"]),
    inputs=lambda n: {"x": torch.randn(n["T"], n["B"], n["D"]), "h": torch.rand(1, n["B"], n["H"])},
    run=_run_elman,
    naive=_naive_elman,
    cost=elman_cost,
    mistakes=(
        Mistake("no hidden", lambda: Elman(7, 0), r"hidden_size is 0\. Give a whole number from 1 on\."),
        Mistake("no input", lambda: Elman(-1, 5), r"input_size is -1\. Give"),
        Mistake("no layers", lambda: Elman(7, 5, num_layers=0), r"num_layers is 0\. Give"),
        Mistake("part of a layer", lambda: Elman(7, 5, num_layers=1.5), r"num_layers is 1\.5\. Give"),  # type: ignore[arg-type]
        Mistake("all dropped", lambda: Elman(7, 5, 2, dropout=1.0), r"dropout is 1\.0\. Give the probability"),
        Mistake("dropout below 0", lambda: Elman(7, 5, 2, dropout=-0.1), r"dropout is -0\.1\."),
        Mistake(
            "nonlinearity",
            lambda: Elman(7, 5, nonlinearity="sigmoids"),
            r"nonlinearity is 'sigmoids'\. Choose from sigmoid, tanh, relu\.",
        ),
        Mistake(
            "width",
            lambda: _ELMAN(torch.zeros(3, 2, 6)),
            r"x is \(3, 2, 6\), width 6, wanted width 7, the input_size\. Build the layer with input_size=6",
        ),
        Mistake(
            "a vector", lambda: _ELMAN(torch.zeros(7)), r"x is \(7,\), 1 dimensions, wanted \(T, B, D\) or \(T, D\)"
        ),
        Mistake("no steps", lambda: _ELMAN(torch.zeros(0, 2, 7)), r"x is \(0, 2, 7\), no steps, wanted \(T, B, D\)"),
        Mistake(
            "no steps, batch first",
            lambda: Elman(7, 5, batch_first=True)(torch.zeros(2, 0, 7)),
            r"x is \(2, 0, 7\), no steps, wanted \(B, T, D\), batch_first, with T from 1 on",
        ),
        Mistake(
            "state",
            lambda: _ELMAN(torch.zeros(3, 2, 7), torch.zeros(2, 5)),
            r"hx is \(2, 5\), wanted \(1, 2, 5\): layers \* directions, B, hidden_size",
        ),
        Mistake(
            "state without a batch",
            lambda: _ELMAN(torch.zeros(3, 7), torch.zeros(1, 1, 5)),
            r"hx is \(1, 1, 5\), wanted \(1, 5\): layers \* directions, hidden_size",
        ),
        Mistake(
            "type",
            lambda: _ELMAN(torch.zeros(3, 2, 7, dtype=torch.float64)),
            r"x is torch\.float64, weight_ih is torch\.float32, wanted one type\. Convert x with x\.to",
        ),
    ),
)


def _naive_grid(layer: Grid, inputs: Inputs) -> Tensor:
    weight_in, weight_left, weight_top, bias = layer.parameters()
    return grid_naive.grid(inputs["x"], weight_in.mT, weight_left.mT, weight_top.mT, bias)


_GRID = Grid(3, 5)


def _grid(x: tuple[int, ...] = (2, 3, 4, 6), **parts: Any) -> Callable[[], Tensor]:
    weights = {"weight_in": torch.zeros(5, 3), "weight_left": torch.zeros(5, 5), "weight_top": torch.zeros(5, 5)}
    return lambda: grid(torch.zeros(x), **{**weights, **parts})


GRID = Case(
    build=lambda n: Grid(n["C"], n["H"], bias=True),
    inputs=lambda n: {"x": torch.randn(n["B"], n["C"], n["Y"], n["X"])},
    run=lambda layer, inputs: layer(inputs["x"]),
    naive=_naive_grid,
    cost=lambda: grid_cost(bias=True),
    mistakes=(
        Mistake("no hidden", lambda: Grid(3, 0), r"hidden is 0\. Give a whole number from 1 on\."),
        Mistake("no input", lambda: Grid(-1, 5), r"in_channels is -1\. Give"),
        Mistake("part of a unit", lambda: Grid(3, 1.5), r"hidden is 1\.5\. Give"),  # type: ignore[arg-type]
        Mistake(
            "activation",
            lambda: Grid(3, 5, activation="sigmoids"),
            r"activation is 'sigmoids'\. Choose from sigmoid, tanh, relu\.",
        ),
        Mistake("cell", lambda: Grid(3, 5, cell="gru"), r"cell is 'gru'\. Choose from simple, lstm\."),
        Mistake(
            "activation of an lstm",
            lambda: Grid(3, 5, cell="lstm", activation="relu"),
            r"activation is 'relu', and an lstm cell has its own\. Leave it out\.",
        ),
        Mistake("combine", lambda: Grid(3, 5, combine="mean"), r"combine is 'mean'\. Choose from sum, concatenate\."),
        Mistake(
            "three corners",
            lambda: Grid(3, 5, corners=3),
            r"corners is 3\. Give 1, 2 or 4, or names from top-left, top",
        ),
        Mistake(
            "no corner", lambda: Grid(3, 5, corners=()), r"corners is \(\)\. Give each of top-left.*, and one or more"
        ),
        Mistake(
            "a corner twice",
            lambda: Grid(3, 5, corners=("top-left", "top-left")),
            r"corners is \('top-left', 'top-left'\)\. Give each of .* once at most",
        ),
        Mistake("a corner that is none", lambda: Grid(3, 5, corners=["left"]), r"corners is \['left'\]\. Give each of"),
        Mistake(
            "a corner of one walk", _grid(corner="left"), r"corner is 'left'\. Choose from top-left, top-right, bot"
        ),
        Mistake(
            "channels",
            lambda: _GRID(torch.zeros(2, 4, 6, 3)),
            r"x is \(2, 4, 6, 3\), 4 channels, wanted 3, the in_channels\. Build the layer with in_channels=4, or",
        ),
        Mistake(
            "a matrix",
            lambda: _GRID(torch.zeros(3, 7)),
            r"x is \(3, 7\), 2 dimensions, wanted \(B, C, Y, X\) or \(C, Y",
        ),
        Mistake("no batch", _grid(x=(3, 4, 6)), r"x is \(3, 4, 6\), wanted \(B, C, Y, X\)\. Reshape x\."),
        Mistake(
            "no rows", lambda: _GRID(torch.zeros(2, 3, 0, 6)), r"x is \(2, 3, 0, 6\), no pixels, wanted \(B, C, Y, X"
        ),
        Mistake("no columns", _grid(x=(2, 3, 4, 0)), r"x is \(2, 3, 4, 0\), no pixels, wanted"),
        Mistake(
            "weight",
            _grid(weight_top=torch.zeros(5, 4)),
            r"weight_top is \(5, 4\), wanted \(5, 5\) for x \(2, 3, 4, 6\) and 5 hidden units\. Reshape weight_top",
        ),
        Mistake("bias", _grid(bias=torch.zeros(4)), r"bias is \(4,\), wanted \(5,\) for x"),
        Mistake("gates", _grid(cell="lstm"), r"weight_in is \(5, 3\), wanted \(25, 3\) for x"),
        Mistake(
            "type",
            lambda: _GRID(torch.zeros(2, 3, 4, 6, dtype=torch.float64)),
            r"x is torch\.float64, weight_in is torch\.float32, wanted one type\. Convert x with x\.to",
        ),
    ),
)


def _run_readout(layer: Readout, inputs: Inputs) -> Tensor:
    return layer.loss(inputs["h"], inputs["targets"], reduction="sum")


def _naive_readout(layer: Readout, inputs: Inputs) -> Tensor:
    h, targets = inputs["h"].flatten(0, -2), inputs["targets"].flatten()
    return readout_naive.cross_entropy(h, layer.weight, layer.bias, targets)


def _loss(h: tuple[int, ...] = (3, 5), targets: Tensor | None = None, **options: Any) -> Callable[[], Tensor]:
    targets = torch.zeros(3, dtype=torch.long) if targets is None else targets
    return lambda: linear_cross_entropy(torch.zeros(h), torch.zeros(9, 5), torch.zeros(9), targets, **options)


READOUT = Case(
    build=lambda n: Readout(n["H"], n["V"]),
    inputs=lambda n: {"h": torch.randn(n["T"], n["B"], n["H"]), "targets": torch.randint(n["V"], (n["T"], n["B"]))},
    run=_run_readout,
    naive=_naive_readout,
    cost=readout_cost,
    mistakes=(
        Mistake("no width", lambda: Readout(0, 9), r"width is 0\. Give a whole number from 1 on\."),
        Mistake("no words", lambda: Readout(5, 0), r"vocabulary is 0\. Give"),
        Mistake(
            "tied to another width",
            lambda: Readout(5, 9, weight=nn.Parameter(torch.zeros(9, 6))),
            r"the tied weight is \(9, 6\), wanted \(9, 5\): vocabulary, width\. Make the embedding as wide",
        ),
        Mistake("width", _loss(h=(3, 6)), r"h is \(3, 6\), wanted \(\.\.\., 5\), the width of the weight \(9, 5\)"),
        Mistake(
            "width of the scores", lambda: Readout(5, 9)(torch.zeros(3, 6)), r"h is \(3, 6\), wanted \(\.\.\., 5\)"
        ),
        Mistake("too few", _loss(h=(4, 5)), r"targets are \(3,\), wanted \(4,\), one for each row of h \(4, 5\)"),
        Mistake(
            "none", _loss(h=(0, 5), targets=torch.zeros(0).long()), r"targets are empty, \(0,\), wanted one or more"
        ),
        Mistake(
            "fractions", _loss(targets=torch.zeros(3)), r"targets are torch\.float32, wanted whole numbers\. Convert"
        ),
        Mistake(
            "beyond", _loss(targets=torch.tensor([0, 9, 2])), r"targets run from 0 to 9, wanted 0 to 8\. Use the layer"
        ),
        Mistake("below", _loss(targets=torch.tensor([0, -1, 2])), r"targets run from -1 to 2, wanted 0 to 8"),
        Mistake("reduction", _loss(reduction="none"), r"reduction is 'none'\. Choose mean or sum\."),
        Mistake("block", _loss(block=0), r"block is 0\. Give a number of rows from 1 on"),
        Mistake(
            "bias",
            lambda: linear_cross_entropy(torch.zeros(3, 5), torch.zeros(9, 5), torch.zeros(5), torch.zeros(3).long()),
            r"bias is \(5,\), wanted \(9,\), one for each word",
        ),
        Mistake(
            "type",
            lambda: Readout(5, 9).loss(torch.zeros(3, 5, dtype=torch.float64), torch.zeros(3).long()),
            r"h is torch\.float64, weight is torch\.float32, wanted one type\. Convert h with h\.to\(torch\.float32\)",
        ),
    ),
)

# The contract's sizes say nothing of heads.
_HEADS = 3


def _naive_attention(layer: Attention, inputs: Inputs) -> Tensor:
    def one_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention_naive.softmax_attention(q, k, v, torch.ones((), dtype=torch.bool))

    W, b, W_O, b_O = layer.parameters()
    return attention_naive.multi_head(inputs["x"], W, b, W_O, b_O, _HEADS, one_head)


_ATTENTION = Attention(12, 3, batch_first=True)


def _attend(q: tuple[int, ...] = (2, 4, 7, 3), k: tuple[int, ...] = (2, 4, 7, 3), **options: Any) -> Callable[[], Any]:
    v = options.pop("v", k)
    return lambda: softmax_attention(torch.zeros(q), torch.zeros(k), torch.zeros(v), **options)


ATTENTION = Case(
    build=lambda n: Attention(_HEADS * n["D"], _HEADS, batch_first=True),
    inputs=lambda n: {"x": torch.randn(n["B"], n["T"], _HEADS * n["D"])},
    run=lambda layer, inputs: layer(inputs["x"])[0],
    naive=_naive_attention,
    cost=lambda: attention_cost(heads=_HEADS),
    mistakes=(
        Mistake("no heads", lambda: Attention(12, 0), r"num_heads is 0\. Give a whole number from 1 on\."),
        Mistake(
            "heads that do not divide",
            lambda: Attention(12, 5),
            r"width 12 does not split into 5 heads \(remainder 2\)\. Choose heads from \[1, 2, 3, 4, 6, 12\]",
        ),
        Mistake(
            "key heads that do not divide",
            lambda: Attention(12, 6, key_heads=4),
            r"6 query heads do not share 4 key heads evenly\. Choose key_heads from \[1, 2, 3, 6\]",
        ),
        Mistake("all dropped", lambda: Attention(12, 3, dropout=1.0), r"dropout is 1\.0\. Give the probability"),
        Mistake(
            "two scales",
            lambda: Attention(12, 3, scale=1.0, normalize=True),
            r"normalize has a learned temperature, and scale is 1\.0\. Leave out one",
        ),
        Mistake(
            "width",
            lambda: _ATTENTION(torch.zeros(2, 7, 11)),
            r"query is \(2, 7, 11\), width 11, wanted width 12\. Build the layer for 11, or project query first",
        ),
        Mistake(
            "a vector", lambda: _ATTENTION(torch.zeros(12)), r"query is \(12,\), 1 dimensions, wanted \(B, T, width"
        ),
        Mistake(
            "another batch",
            lambda: _ATTENTION(torch.zeros(2, 7, 12), torch.zeros(3, 7, 12)),
            r"query is \(2, 7, 12\), key \(3, 7, 12\) and value \(3, 7, 12\), wanted one batch",
        ),
        Mistake(
            "a key without a value",
            lambda: _ATTENTION(torch.zeros(2, 7, 12), torch.zeros(2, 5, 12), torch.zeros(2, 4, 12)),
            r"wanted one batch, and a value for every key\. Give those of the same texts",
        ),
        Mistake(
            "type",
            lambda: _ATTENTION(torch.zeros(2, 7, 12, dtype=torch.float64)),
            r"query is torch\.float64, the weights are torch\.float32, wanted one type\. Convert query with",
        ),
        Mistake(
            "mask of another size",
            lambda: _ATTENTION(torch.zeros(2, 7, 12), attn_mask=torch.zeros(7, 6)),
            r"attn_mask is \(7, 6\), wanted \(7, 7\) for all or \(6, 7, 7\) for each head",
        ),
        Mistake("three sizes", _attend(q=(4, 7, 3)), r"q is \(4, 7, 3\), wanted 4 sizes: batch, heads, length, width"),
        Mistake("width of keys", _attend(k=(2, 4, 7, 5)), r"k is \(2, 4, 7, 5\), wanted batch 2 and width 3 as in q"),
        Mistake("values", _attend(v=(2, 4, 6, 3)), r"v is \(2, 4, 6, 3\), wanted \(2, 4, 7\) and any width, as in k"),
        Mistake("groups", _attend(k=(2, 3, 7, 3)), r"4 query heads do not share 3 key heads evenly"),
        Mistake(
            "padding",
            _attend(key_padding=torch.zeros(2, 6).bool()),
            r"key_padding is \(2, 6\) of torch\.bool, wanted \(2, 7\) of bool, True where a key is only padding",
        ),
        Mistake("dropout", _attend(dropout_p=1.0), r"dropout_p is 1\.0\. Give the probability"),
        Mistake(
            "mask",
            _attend(mask=torch.zeros(3, 7, 7)),
            r"mask is \(3, 7, 7\), wanted one that broadcasts to \(2, 4, 7, 7\)",
        ),
        Mistake(
            "mask of numbers",
            _attend(mask=torch.zeros(7, 7).int()),
            r"mask is torch\.int32, wanted bool, True for a pair to look at, or numbers to add",
        ),
        Mistake(
            "lengths that do not add up",
            _attend(q=(1, 4, 7, 3), k=(1, 4, 7, 3), cumulative_lengths=[0, 3, 6]),
            r"cumulative lengths are \[0, 3, 6\], wanted numbers that rise from 0 to 7, the tokens in all",
        ),
        Mistake(
            "a batch end to end",
            _attend(cumulative_lengths=[0, 3, 7]),
            r"with cumulative lengths the batch is 1, got \(2, 4, 7, 3\)\. Put texts end to end",
        ),
        Mistake(
            "lengths and another text",
            _attend(q=(1, 4, 7, 3), k=(1, 4, 6, 3), cumulative_lengths=[0, 7]),
            r"each text attends to itself, and 7 queries came with 6 keys\. Pad the texts",
        ),
        Mistake(
            "lengths and an offset",
            _attend(q=(1, 4, 7, 3), k=(1, 4, 7, 3), cumulative_lengths=[0, 7], offset=1),
            r"cumulative_lengths came with key_padding, a mask or an offset\. Texts end to end need none",
        ),
    ),
)


def _naive_hybrid(layer: HybridAttention, inputs: Inputs) -> Tensor:
    def one_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return hybrid_naive.hybrid_attention(q, k, v, window=_HYBRID_WINDOW)

    W, b, W_O, b_O = layer.parameters()
    return attention_naive.multi_head(inputs["x"], W, b, W_O, b_O, _HEADS, one_head)


# Short enough for the contract's lengths to have keys beyond it.
_HYBRID_WINDOW = 3


def _attend_hybrid(**options: Any) -> Callable[[], Any]:
    return lambda: hybrid_attention(*torch.zeros(3, 2, 4, 7, 3), **{"window": 3, **options})


HYBRID = Case(
    build=lambda n: HybridAttention(_HEADS * n["D"], _HEADS, window=_HYBRID_WINDOW, batch_first=True),
    inputs=lambda n: {"x": torch.randn(n["B"], n["T"], _HEADS * n["D"])},
    run=lambda layer, inputs: layer(inputs["x"])[0],
    naive=_naive_hybrid,
    cost=lambda: hybrid_cost(heads=_HEADS, window=_HYBRID_WINDOW, causal=False, width=D, length=T),
    mistakes=(
        Mistake("no window", _attend_hybrid(window=0), r"window is 0\. Give a whole number from 1 on"),
        Mistake("odd order", _attend_hybrid(order=3), r"order 3 is odd.*Choose 2 or 4, or set allow_odd=True"),
        Mistake("dropout", _attend_hybrid(dropout_p=0.5), r"dropout_p is 0\.5, and far keys have no single weights"),
        Mistake("block", _attend_hybrid(pattern=Pattern("block", window=3)), r"is block, wanted full or causal"),
        Mistake("layer", lambda: HybridAttention(12, 3, window=0), r"window is 0\. Give a whole number from 1 on"),
    ),
)


def _naive_window(layer: WindowAttention, inputs: Inputs) -> Tensor:
    def one_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return window_naive.window_attention(q, k, v, layer.pattern)

    W, b, W_O, b_O = layer.parameters()
    return attention_naive.multi_head(inputs["x"], W, b, W_O, b_O, _HEADS, one_head)


_NEAR = Pattern("sliding", window=3)


def _attend_near(
    q: tuple[int, ...] = (2, 4, 7, 3), k: tuple[int, ...] = (2, 4, 7, 3), pattern: Pattern = _NEAR, **options: Any
) -> Callable[[], Any]:
    v = options.pop("v", k)
    attend = options.pop("attend", window_attention)
    return lambda: attend(torch.zeros(q), torch.zeros(k), torch.zeros(v), pattern=pattern, **options)


WINDOW = Case(
    build=lambda n: WindowAttention(_HEADS * n["D"], _HEADS, window=5, batch_first=True),
    inputs=lambda n: {"x": torch.randn(n["B"], n["T"], _HEADS * n["D"])},
    run=lambda layer, inputs: layer(inputs["x"])[0],
    naive=_naive_window,
    cost=lambda: window_cost(heads=_HEADS, window=5),
    mistakes=(
        Mistake(
            "no window",
            lambda: WindowAttention(12, 3, 0),
            r"a sliding pattern has a window of 0\. Give a number from 1",
        ),
        Mistake(
            "ahead of a block",
            lambda: WindowAttention(12, 3, 4, kind="block", ahead=1),
            r"ahead and dilation are for a sliding pattern, and this one is block",
        ),
        Mistake(
            "a pattern without a window", lambda: WindowAttention(12, 3, 4, kind="full"), r"full pattern has no win"
        ),
        Mistake(
            "all blocks before",
            lambda: WindowAttention(12, 3, 4, kind="block-causal"),
            r"a block-causal pattern looks at all blocks before, not at a window\. Take softmax_attention, or a block",
        ),
        Mistake(
            "all blocks before, heads", _attend_near(pattern=Pattern("block-causal", window=3)), r"not at a window"
        ),
        Mistake(
            "no such pattern",
            lambda: WindowAttention(12, 3, 4, kind="slide"),  # type: ignore[arg-type]
            r"there is no pattern 'slide'\. Choose from full, causal, sliding",
        ),
        Mistake(
            "weights",
            lambda: WindowAttention(12, 3, 4)(torch.zeros(7, 2, 12), need_weights=True),
            r"WindowAttention never holds all pairs, and need_weights=True asks for them\. Leave it out",
        ),
        Mistake("groups", _attend_near(k=(2, 3, 7, 3)), r"4 query heads do not share 3 key heads evenly"),
        Mistake("values", _attend_near(v=(2, 4, 6, 3)), r"v is \(2, 4, 6, 3\), wanted \(2, 4, 7\) and any width"),
        Mistake(
            "padding", _attend_near(key_padding=torch.zeros(2, 6).bool()), r"key_padding is \(2, 6\) of torch\.bool"
        ),
        Mistake("dropout", _attend_near(dropout_p=-0.1), r"dropout_p is -0\.1\. Give the probability"),
        Mistake(
            "lengths that do not add up",
            _attend_near(q=(1, 4, 7, 3), k=(1, 4, 7, 3), cumulative_lengths=[0, 3, 6]),
            r"cumulative lengths are \[0, 3, 6\], wanted numbers that rise from 0 to 7",
        ),
        Mistake(
            "lengths and another text",
            _attend_near(q=(1, 4, 7, 3), k=(1, 4, 6, 3), cumulative_lengths=[0, 7]),
            r"each text attends to itself, and 7 queries came with 6 keys\. Pad the texts",
        ),
        Mistake(
            "lengths and an offset",
            _attend_near(q=(1, 4, 7, 3), k=(1, 4, 7, 3), cumulative_lengths=[0, 7], offset=1),
            r"cumulative_lengths came with key_padding or an offset\. Texts end to end need none",
        ),
        Mistake(
            "decoding ahead",
            _attend_near(attend=window_decode, pattern=Pattern("sliding", window=3, ahead=1)),
            r"this sliding pattern looks at tokens that are not there yet, so it cannot be decoded\. Choose causal",
        ),
        Mistake(
            "decoding whole blocks",
            _attend_near(attend=window_decode, pattern=Pattern("block", window=3)),
            r"this block pattern looks at tokens that are not there yet",
        ),
        Mistake(
            "decoding another text",
            _attend_near(attend=window_decode, k=(2, 4, 6, 3)),
            r"decoding takes a key for each new token, got 7 queries and 6 keys\. Give those of the new tokens only",
        ),
        Mistake(
            "another state",
            _attend_near(attend=window_decode, state=Cache(torch.zeros(2, 4, 2, 3), torch.zeros(2, 4, 2, 5))),
            r"the state has values of \(2, 4, 2, 5\), the new ones are \(2, 4, 7, 3\)\. Pass the state that the same",
        ),
    ),
)


def _naive_taylor(layer: TaylorAttention, inputs: Inputs) -> Tensor:
    W, b, W_O, b_O = layer.parameters()
    return attention_naive.multi_head(inputs["x"], W, b, W_O, b_O, _HEADS, taylor_naive.taylor_attention)


def _attend_by_series(
    attend: Callable[..., Any] = taylor_attention, T: int = 7, S: int = 7, **options: Any
) -> Callable[[], Any]:
    q, k, v = (torch.zeros(2, 4, length, width) for length, width in ((T, 3), (S, 3), (S, 5)))
    return lambda: attend(q, k, v, **options)


TAYLOR = Case(
    build=lambda n: TaylorAttention(_HEADS * n["D"], _HEADS, batch_first=True, warn_above=None),
    inputs=lambda n: {"x": torch.randn(n["B"], n["T"], _HEADS * n["D"])},
    run=lambda layer, inputs: layer(inputs["x"])[0],
    naive=_naive_taylor,
    cost=lambda: taylor_cost(heads=_HEADS),
    mistakes=(
        Mistake(
            "odd order",
            lambda: TaylorAttention(12, 3, order=3),
            r"order 3 is odd, .* weights can turn negative.* Choose",
        ),
        Mistake(
            "no order", lambda: TaylorAttention(12, 3, order=0), r"order is 0\. Give an even whole number from 2 on"
        ),
        Mistake(
            "map",
            lambda: TaylorAttention(12, 3, map="turned"),
            r"there is no map 'turned'\. Choose from exact, rolled, ordered, diagonal\.",
        ),
        Mistake(
            "map of another order",
            lambda: TaylorAttention(12, 3, map="rolled", order=4),
            r"the rolled map is of order 2, and order is 4\. Choose exact or ordered\.",
        ),
        Mistake(
            "window",
            lambda: TaylorAttention(12, 3, pattern=Pattern("sliding", window=3)),
            r"a sliding pattern forgets keys, and a running sum cannot\. Use WindowAttention for windows, or Hybrid",
        ),
        Mistake(
            "dropout", lambda: TaylorAttention(12, 3, dropout=0.1), r"dropout is 0\.1, and the series has no single"
        ),
        Mistake("limit", lambda: TaylorAttention(12, 3, warn_above=-1), r"warn_above is -1\. Give an error above 0"),
        Mistake("heads that do not divide", lambda: TaylorAttention(12, 5), r"width 12 does not split into 5 heads"),
        Mistake(
            "dropout of weights", _attend_by_series(dropout_p=0.1), r"dropout_p is 0\.1, and the series has no single"
        ),
        Mistake(
            "lengths that do not add up",
            _attend_by_series(cumulative_lengths=[0, 3, 6]),
            r"cumulative lengths are \[0, 3, 6\], wanted numbers that rise from 0 to 7",
        ),
        Mistake(
            "lengths and another text",
            _attend_by_series(S=6, cumulative_lengths=[0, 7]),
            r"each text attends to itself, and 7 queries came with 6 keys\. Pad the texts",
        ),
        Mistake(
            "lengths and an offset",
            _attend_by_series(cumulative_lengths=[0, 7], offset=1),
            r"cumulative_lengths came with key_padding or an offset\. Texts end to end need none",
        ),
        Mistake(
            "decoding another text",
            _attend_by_series(taylor_decode, S=6),
            r"decoding takes a key for each new token, and 7 queries came with 6 keys\. Give those of the new tokens",
        ),
        Mistake(
            "another state",
            _attend_by_series(taylor_decode, state=TaylorState(torch.zeros(2, 4, 10, 3), torch.zeros(2, 4, 10))),
            r"the state is \(2, 4, 10, 3\) and \(2, 4, 10\), wanted \(2, 4, 10, 5\) and \(2, 4, 10\): batch, key heads",
        ),
    ),
)


class _OnGraph(GraphConvolution):
    """A convolution with a graph of N nodes and E stored entries, a loop for each node among them."""

    def __init__(self, n: Sizes) -> None:
        super().__init__(n["D"], n["H"])
        self.nodes = n["N"]
        # Each node to the one after it, then to the one after that.
        number = torch.arange(n["E"] - n["N"], device="cpu")
        self.edges = torch.stack([number % n["N"], (number % n["N"] + 1 + number // n["N"]) % n["N"]])
        weightless = torch.get_default_device().type == "meta"
        self.graph = Outline(n["N"], n["E"]) if weightless else Graph.from_edges(self.edges, n["N"])


def _run_gcn(layer: _OnGraph, inputs: Inputs) -> Tensor:
    y: Tensor = layer(inputs["x"], layer.graph.to(inputs["x"].device))
    return y


def _naive_gcn(layer: _OnGraph, inputs: Inputs) -> Tensor:
    A, edge = (matrix(layer.edges, layer.nodes) for matrix in (gcn_naive.adjacency, gcn_naive.is_edge))
    Ahat = gcn_naive.normalised(A, edge, layer.normalisation)
    return gcn_naive.graph_convolution(inputs["x"], Ahat, layer.weight, layer.bias)


_PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
_ON_PATH = Graph.from_edges(_PATH)
_GCN = GraphConvolution(5, 4)


def _weighted(*weights: float) -> Graph:
    return Graph.from_edges(_PATH, weights=torch.tensor(weights))


GCN = Case(
    build=_OnGraph,
    inputs=lambda n: {"x": torch.randn(n["N"], n["D"])},
    run=_run_gcn,
    naive=_naive_gcn,
    cost=gcn_cost,
    mistakes=(
        Mistake("no width", lambda: GraphConvolution(5, 0), r"out_width is 0\. Give a whole number from 1 on"),
        Mistake(
            "normalisation",
            lambda: GraphConvolution(5, 4, normalisation="rows"),
            r"normalisation is 'rows'\. Choose from none, row, symmetric, softmax\.",
        ),
        Mistake(
            "beyond",
            lambda: Graph.from_edges(_PATH, nodes=2),
            r"edge_index runs from 0 to 2, and 2 nodes are numbered 0 to 1\. Number the nodes from 0 on",
        ),
        Mistake("below", lambda: Graph.from_edges(_PATH - 1), r"edge_index runs from -1 to 1, and 2 nodes are"),
        Mistake("an edge a row", lambda: Graph.from_edges(_PATH.T), r"edge_index is \(4, 2\), wanted \(2, E\).*Transp"),
        Mistake("fractions", lambda: Graph.from_edges(_PATH.float(), 3), r"edge_index is torch\.float32, wanted whole"),
        Mistake("no edges", lambda: Graph.from_edges(_PATH[:, :0]), r"the graph has no edges, so .* Give nodes too"),
        Mistake("no nodes", lambda: Graph.from_edges(_PATH[:, :0], 0), r"the graph has 0 nodes\. Give a whole number"),
        Mistake("too few weights", lambda: _weighted(1, 2), r"weights are \(2,\), wanted \(4,\), one for each edge"),
        Mistake("no number", lambda: _weighted(1, 1, float("nan"), 1), r"the weight of edge 2 is nan, wanted a number"),
        Mistake(
            "learned weights",
            lambda: Graph.from_edges(_PATH, weights=torch.ones(4, requires_grad=True)),
            r"weights ask for a gradient, and a graph is normalised once.* Give weights\.detach\(\)",
        ),
        Mistake(
            "degree below 0",
            lambda: _weighted(-3, 1, 1, 1).propagation("row"),
            r"the weights that node 1 hears sum to -1, and row divides by the sum\. Give weights from 0 on",
        ),
        Mistake(
            "not square", lambda: Graph.from_scipy(torch.zeros(2, 3)), r"the matrix is .*wanted as many rows as col"
        ),
        Mistake(
            "another graph",
            lambda: _GCN(torch.zeros(4, 5), _ON_PATH),
            r"x is \(4, 5\), wanted \(3, D\): a row for each of the graph's 3 nodes",
        ),
        Mistake(
            "width",
            lambda: _GCN(torch.zeros(3, 6), _ON_PATH),
            r"x is \(3, 6\), width 6, and the weight is \(5, 4\), wanted \(6, H\)\. Build the layer with in_width=6",
        ),
        Mistake("edges for a graph", lambda: _GCN(torch.zeros(3, 5), _PATH), r"the graph is a Tensor, wanted a Graph"),
        Mistake(
            "type",
            lambda: _GCN(torch.zeros(3, 5).double(), _ON_PATH),
            r"x is torch\.float64, weight is torch\.float32, wanted one type\. Convert x with x\.to",
        ),
        Mistake(
            "no features", lambda: SparseFeatures.from_dense(torch.zeros(3)), r"features are \(3,\) of torch\.float"
        ),
        Mistake(
            "all dropped",
            lambda: SparseFeatures.from_dense(torch.zeros(3, 5)).dropout(1),
            r"dropout is 1\. Give the probability",
        ),
        Mistake(
            "propagated for another layer",
            lambda: _GCN(Propagated.of(torch.zeros(3, 5), _ON_PATH, "row"), _ON_PATH),
            r"x was propagated with normalisation='row', and the layer has normalisation='symmetric'\. Propagate it",
        ),
        Mistake(
            "propagated, and learned",
            lambda: Propagated.of(torch.zeros(3, 5, requires_grad=True), _ON_PATH),
            r"x asks for a gradient, so it changes, and Ahat x with it\. Give x to the layer",
        ),
        Mistake(
            "another device",
            lambda: _GCN(torch.zeros(3, 5), _ON_PATH.to("meta")),
            r"the graph is on meta, the weight on cpu\. Move it once, with graph\.to\('cpu'\)",
        ),
    ),
)


def _naive_skipgram(layer: SkipGram, inputs: Inputs) -> Tensor:
    words, contexts = inputs["word"], inputs["context"]
    return skipgram_naive.loss(layer.words[words], layer.contexts, contexts) / len(words)


_PAIR = torch.tensor([0, 3])


def _skipgram(
    words: Any = _PAIR, contexts: Any = _PAIR, samples: Any = None, estimator: str = "full"
) -> Callable[[], Tensor]:
    return lambda: SkipGram(9, 5, estimator)(words, contexts, samples)


def _sampled(estimator: str = "nce", **parts: Any) -> Callable[[], Tensor]:
    operands = {"v": torch.zeros(2, 5), "U": torch.zeros(9, 5), "contexts": _PAIR, "q": torch.full((9,), 1 / 9)}
    samples = torch.zeros(2, 3, dtype=torch.long)
    return lambda: sampled_loss(**{**operands, "samples": samples, **parts}, estimator=estimator)


SKIPGRAM = Case(
    build=lambda n: SkipGram(n["V"], n["D"]),
    inputs=lambda n: {name: torch.randint(n["V"], (n["B"],)) for name in ("word", "context")},
    run=lambda layer, inputs: layer(inputs["word"], inputs["context"]),
    naive=_naive_skipgram,
    cost=skipgram_cost,
    mistakes=(
        Mistake("no words", lambda: SkipGram(0, 5), r"vocabulary is 0\. Give a whole number from 1 on\."),
        Mistake("no width", lambda: SkipGram(9, 0), r"width is 0\. Give"),
        Mistake("no samples", lambda: SkipGram(9, 5, "nce", samples=0), r"samples is 0\. Give"),
        Mistake(
            "estimator",
            lambda: SkipGram(9, 5, "softmax"),
            r"estimator is 'softmax'\. Choose from full, uniform, importance, self-normalised, sampled-softmax, nce",
        ),
        Mistake("estimator of a sample", _sampled("full"), r"estimator is 'full'\. Choose from uniform, importance"),
        Mistake(
            "uniform by frequency",
            lambda: SkipGram(9, 5, "uniform", frequencies=torch.ones(9)),
            r"uniform draws all words alike, and frequencies were given\. Leave them out, or take importance\.",
        ),
        Mistake(
            "frequencies of others",
            lambda: SkipGram(9, 5, frequencies=torch.ones(8)),
            r"frequencies are \(8,\), wanted \(9,\)\. Give one number for each word",
        ),
        Mistake(
            "words that never occur",
            lambda: SkipGram(2, 5, frequencies=torch.tensor([3, 0])),
            r"frequencies run from 0 to 3, wanted numbers above 0\. Leave words that never occur out",
        ),
        Mistake("a matrix of words", _skipgram(words=_PAIR[None]), r"words are \(1, 2\), wanted \(B,\)\. Flatten them"),
        Mistake("too few contexts", _skipgram(contexts=_PAIR[:1]), r"contexts are \(1,\), wanted \(2,\), as many as w"),
        Mistake("none", _skipgram(words=_PAIR[:0], contexts=_PAIR[:0]), r"words are empty, \(0,\), wanted one or more"),
        Mistake(
            "fractions", _skipgram(words=torch.zeros(2)), r"words are torch\.float32, wanted whole numbers\. Convert"
        ),
        Mistake("beyond", _skipgram(words=_PAIR + 6), r"words run from 6 to 9, wanted 0 to 8\. Number the words"),
        Mistake("below", _skipgram(contexts=_PAIR - 1), r"contexts run from -1 to 2, wanted 0 to 8"),
        Mistake(
            "samples of other pairs",
            _skipgram(samples=torch.zeros(3, 4).long(), estimator="nce"),
            r"samples are \(3, 4\), wanted \(2, m\) with m from 1 on, some for each pair\. Leave them out",
        ),
        Mistake(
            "samples beyond",
            _sampled(samples=torch.full((2, 3), 9)),
            r"samples run from 9 to 9, wanted 0 to 8\. Number",
        ),
        Mistake(
            "probabilities of others", _sampled(q=torch.ones(8)), r"q is \(8,\), wanted \(9,\)\. Give a probability"
        ),
        Mistake(
            "widths",
            lambda: skipgram_loss(torch.zeros(2, 5), torch.zeros(9, 4), _PAIR),
            r"v is \(2, 5\) and U \(9, 4\), wanted \(B, D\) and \(V, D\) of one width",
        ),
        Mistake(
            "type", _sampled(v=torch.zeros(2, 5).double()), r"v is torch\.float64, U is torch\.float32, wanted one t"
        ),
        Mistake("reduction", _sampled(reduction="none"), r"reduction is 'none'\. Choose mean or sum\."),
        Mistake(
            "a step of all rows",
            lambda: SkipGram(9, 5).descend(_PAIR, _PAIR, rate=0.1),
            r"full reaches every row\. Use an optimiser, or choose another estimator",
        ),
    ),
)

CASES = {
    "attention": ATTENTION,
    "elman": ELMAN,
    "gcn": GCN,
    "grid": GRID,
    "hybrid": HYBRID,
    "readout": READOUT,
    "skipgram": SKIPGRAM,
    "taylor": TAYLOR,
    "window": WINDOW,
}
