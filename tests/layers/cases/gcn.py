"""The case of gcn."""

from typing import cast

import networkx  # type: ignore[import-untyped]
import scipy.sparse  # type: ignore[import-untyped]
import torch
from tests.layers.cases.case import Case, Inputs, Mistake, Sizes
from torch import Tensor

from porism.layers.gcn import Graph, GraphConvolution, Propagated, SparseFeatures
from porism.layers.gcn import naive as gcn_naive
from porism.layers.gcn.cost import cost as gcn_cost
from porism.layers.gcn.graph import Outline


class _OnGraph(GraphConvolution):
    """A convolution with a graph of N nodes and E stored entries, a loop for each node among them."""

    def __init__(self, n: Sizes) -> None:
        super().__init__(n["D"], n["H"])
        self.nodes = n["N"]
        # Each node to the one after it, then to the one after that.
        number = torch.arange(n["E"] - n["N"], device="cpu")
        self.edges = torch.stack([number % n["N"], (number % n["N"] + 1 + number // n["N"]) % n["N"]])
        weightless = torch.get_default_device().type == "meta"
        self.graph = Outline(n["N"], n["E"]) if weightless else Graph(self.edges, num_nodes=n["N"])


def _run_gcn(layer: _OnGraph, inputs: Inputs) -> Tensor:
    y: Tensor = layer(inputs["x"], layer.graph.to(inputs["x"].device))
    return y


def _naive_gcn(layer: _OnGraph, inputs: Inputs) -> Tensor:
    A, edge = (matrix(layer.edges, layer.nodes) for matrix in (gcn_naive.adjacency, gcn_naive.is_edge))
    Ahat = gcn_naive.normalised(A, edge, layer.normalisation)
    return gcn_naive.graph_convolution(inputs["x"], Ahat, layer.weight, layer.bias)


_PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
_ON_PATH = Graph(_PATH)
_GCN = GraphConvolution(5, 4)


def _weighted(*weights: float) -> Graph:
    return Graph(_PATH, torch.tensor(weights))


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
            lambda: Graph(_PATH, num_nodes=2),
            r"edge_index runs from 0 to 2, and 2 nodes are numbered 0 to 1\. Number the nodes from 0 on",
        ),
        Mistake("below", lambda: Graph(_PATH - 1), r"edge_index runs from -1 to 1, and 2 nodes are"),
        Mistake("an edge a row", lambda: Graph(_PATH.T), r"edge_index is \(4, 2\), wanted \(2, E\).*Transp"),
        Mistake("fractions", lambda: Graph(_PATH.float(), num_nodes=3), r"edge_index is torch\.float32, wanted whole"),
        Mistake("no edges", lambda: Graph(_PATH[:, :0]), r"the graph has no edges, so .* Give num_nodes too"),
        Mistake("no nodes", lambda: Graph(_PATH[:, :0], num_nodes=0), r"the graph has 0 nodes\. Give a whole number"),
        Mistake("too few weights", lambda: _weighted(1, 2), r"weights are \(2,\), wanted \(4,\), one for each edge"),
        Mistake("no number", lambda: _weighted(1, 1, float("nan"), 1), r"the weight of edge 2 is nan, wanted a number"),
        Mistake(
            "learned weights",
            lambda: Graph(_PATH, torch.ones(4, requires_grad=True)),
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
            "integers",
            lambda: _GCN(torch.zeros(3, 5).long(), _ON_PATH),
            r"x is torch\.int64, wanted one of float32, .* Convert it with x\.float\(\)",
        ),
        Mistake(
            "edges in numbers of 64 bits without a sign",
            lambda: Graph(_PATH.to(torch.uint64)),
            r"edge_index is torch\.uint64, wanted whole numbers\. Convert with edge_index\.long\(\)",
        ),
        Mistake("complex edges", lambda: Graph(_PATH * 1j), r"edge_index is torch\.complex64, wanted whole"),
        Mistake(
            "edges of numpy",
            lambda: Graph(cast(Tensor, _PATH.numpy())),
            r"edge_index is a ndarray, wanted a tensor",
        ),
        Mistake("sparse edges", lambda: Graph(_PATH.to_sparse()), r"edge_index is torch\.sparse_coo, wanted"),
        Mistake("edges on meta", lambda: Graph(_PATH.to("meta")), r"edge_index is on meta, where its numbers"),
        Mistake(
            "complex weights",
            lambda: Graph(_PATH, torch.ones(4) * 1j),
            r"weights are torch\.complex64, wanted real numbers",
        ),
        Mistake(
            "weights on another device",
            lambda: Graph(_PATH, torch.ones(4, device="meta")),
            r"weights are on meta, edge_index on cpu, wanted one device",
        ),
        Mistake(
            "a weight that is no number",
            lambda: Graph.from_networkx(networkx.Graph([(0, 1, {"weight": "heavy"})])),
            r"an edge has a str for its 'weight', wanted a number",
        ),
        Mistake(
            "a matrix that is not sparse",
            lambda: Graph.from_scipy(torch.eye(3)),
            r"the matrix is a Tensor, wanted a spa",
        ),
        Mistake(
            "a complex matrix",
            lambda: Graph.from_scipy(scipy.sparse.eye_array(3) * 1j),
            r"the matrix is of complex128, wanted real numbers",
        ),
        Mistake(
            "a graph on meta",
            lambda: Graph(_PATH).to("meta").propagation(),
            r"the graph is on meta, where nothing can be built of its edges\. Ask for graph\.propagation",
        ),
        Mistake(
            "whole sums", lambda: _ON_PATH.propagation(dtype=torch.int64), r"dtype is torch\.int64, wanted floating"
        ),
        Mistake(
            "no features", lambda: SparseFeatures.from_dense(torch.zeros(3)), r"features are \(3,\), wanted \(N, D\)"
        ),
        Mistake(
            "features that are learned",
            lambda: SparseFeatures.from_dense(torch.zeros(3, 5, requires_grad=True)),
            r"x asks for a gradient, and sparse features are given, not learned\. Give x to the layer",
        ),
        Mistake(
            "features of whole numbers",
            lambda: SparseFeatures.from_dense(torch.ones(3, 5).long()),
            r"x is torch\.int64, wanted one of float32",
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
            "propagated over another graph",
            lambda: _GCN(Propagated.of(torch.zeros(3, 5), _weighted(1, 2, 3, 4)), _ON_PATH),
            r"x was propagated over another graph\. Propagate it again, with Propagated\.of\(x, graph\)",
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
