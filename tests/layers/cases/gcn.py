"""The case of gcn."""

from typing import cast

import networkx  # type: ignore[import-untyped]
import torch
from tests import needs
from tests.layers.cases.case import Case, Inputs, Mistake, Sizes
from torch import Tensor

from porism.layers.gcn import Graph, GraphConvolution, Propagated, SparseFeatures
from porism.layers.gcn import naive as gcn_naive
from porism.layers.gcn.cost import cost as gcn_cost
from porism.layers.gcn.graph import Outline

scipy = needs.lazy("scipy")


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
    Ahat = gcn_naive.normalized(A, edge, "sym")
    return gcn_naive.graph_convolution(inputs["x"], Ahat, layer.lin.weight, layer.bias)


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
        Mistake("no width", lambda: GraphConvolution(5, 0), r"out_channels is 0\. Give a whole number from 1 on"),
        Mistake(
            "normalization",
            lambda: GraphConvolution(5, 4, normalization="rows"),
            r"normalization is 'rows'\. Choose from 'sym', 'rw', 'softmax' or None\.",
        ),
        Mistake(
            "beyond",
            lambda: Graph(_PATH, num_nodes=2),
            r"edge_index runs from 0 to 2, and 2 nodes are numbered 0 to 1\. Number the nodes from 0 on",
        ),
        Mistake("below", lambda: Graph(_PATH - 1), r"edge_index runs from -1 to 1, and 2 nodes are"),
        Mistake("an edge a row", lambda: Graph(_PATH.T), r"edge_index is \(4, 2\), expected \(2, E\).*Transp"),
        Mistake(
            "fractions", lambda: Graph(_PATH.float(), num_nodes=3), r"edge_index is torch\.float32, expected whole"
        ),
        Mistake(
            "no edges", lambda: Graph(_PATH[:, :0]), r"the graph has no edges, so that num_nodes .* Give num_nodes"
        ),
        Mistake("no nodes", lambda: Graph(_PATH[:, :0], num_nodes=0), r"the graph has 0 nodes\. Give a whole number"),
        Mistake(
            "too few weights", lambda: _weighted(1, 2), r"edge_weight is \(2,\), expected \(4,\), one for each edge"
        ),
        Mistake(
            "no number",
            lambda: _weighted(1, 1, float("nan"), 1),
            r"the weight of edge 2 is nan, expected a finite number",
        ),
        Mistake(
            "learned weights",
            lambda: Graph(_PATH, torch.ones(4, requires_grad=True)),
            r"edge_weight requires a gradient, which this layer does not give\. Give edge_weight\.detach\(\)",
        ),
        Mistake(
            "degree below 0",
            lambda: _weighted(-3, 1, 1, 1).propagation("rw"),
            r"the weights of the edges to node 1 sum to -1, and rw divides by the sum\. Give weights from 0 on",
        ),
        Mistake(
            "not square", lambda: Graph.from_scipy(torch.zeros(2, 3)), r"the matrix is .*expected as many rows as col"
        ),
        Mistake(
            "another graph",
            lambda: _GCN(torch.zeros(4, 5), _ON_PATH),
            r"x is \(4, 5\), expected \(3, D\): a row for each of the graph's 3 nodes",
        ),
        Mistake(
            "width",
            lambda: _GCN(torch.zeros(3, 6), _ON_PATH),
            r"x is \(3, 6\), width 6, and the weight is \(4, 5\), expected \(H, 6\)\. .* with in_channels=6",
        ),
        Mistake(
            "a list for edges",
            lambda: _GCN(torch.zeros(3, 5), cast(Tensor, [(0, 1)])),
            r"edge_index is a list, expected a tensor \(2, E\), a sparse adj_t or a Graph\. Use torch\.as_tensor",
        ),
        Mistake(
            "type",
            lambda: _GCN(torch.zeros(3, 5).double(), _ON_PATH),
            r"x is torch\.float64, weight is torch\.float32, .* one type\. Convert x with x\.to",
        ),
        Mistake(
            "integers",
            lambda: _GCN(torch.zeros(3, 5).long(), _ON_PATH),
            r"x is torch\.int64, expected one of float32, .* Convert it with x\.float\(\)",
        ),
        Mistake(
            "edges in numbers of 64 bits without a sign",
            lambda: Graph(_PATH.to(torch.uint64)),
            r"edge_index is torch\.uint64, expected whole numbers\. Convert with edge_index\.long\(\)",
        ),
        Mistake("complex edges", lambda: Graph(_PATH * 1j), r"edge_index is torch\.complex64, expected whole"),
        Mistake(
            "edges of numpy",
            lambda: Graph(cast(Tensor, _PATH.numpy())),
            r"edge_index is a ndarray, expected a tensor",
        ),
        Mistake("sparse edges", lambda: Graph(_PATH.to_sparse()), r"edge_index is torch\.sparse_coo, expected"),
        Mistake("edges on meta", lambda: Graph(_PATH.to("meta")), r"edge_index is on meta, where its numbers"),
        Mistake(
            "complex weights",
            lambda: Graph(_PATH, torch.ones(4) * 1j),
            r"edge_weight is torch\.complex64, expected real numbers",
        ),
        Mistake(
            "weights on another device",
            lambda: Graph(_PATH, torch.ones(4, device="meta")),
            r"edge_weight is on meta, edge_index on cpu, expected one device",
        ),
        Mistake(
            "a weight that is no number",
            lambda: Graph.from_networkx(networkx.Graph([(0, 1, {"weight": "heavy"})])),
            r"an edge has a str for its 'weight', expected a number",
        ),
        Mistake(
            "a matrix that is not sparse",
            lambda: Graph.from_scipy(torch.eye(3)),
            r"the matrix is a Tensor, expected a spa",
        ),
        Mistake(
            "a complex matrix",
            lambda: Graph.from_scipy(scipy.sparse.eye_array(3) * 1j),
            r"the matrix is of complex128, expected real numbers",
        ),
        Mistake(
            "a graph on meta",
            lambda: Graph(_PATH).to("meta").propagation(),
            r"the graph is on meta, where its edges cannot be read\. Call graph\.propagation",
        ),
        Mistake(
            "whole sums", lambda: _ON_PATH.propagation(dtype=torch.int64), r"dtype is torch\.int64, expected floating"
        ),
        Mistake(
            "no features", lambda: SparseFeatures.from_dense(torch.zeros(3)), r"features are \(3,\), expected \(N, D\)"
        ),
        Mistake(
            "features that are learned",
            lambda: SparseFeatures.from_dense(torch.zeros(3, 5, requires_grad=True)),
            r"x requires a gradient, which sparse features do not get\. Give x to the layer",
        ),
        Mistake(
            "features of whole numbers",
            lambda: SparseFeatures.from_dense(torch.ones(3, 5).long()),
            r"x is torch\.int64, expected one of float32",
        ),
        Mistake(
            "all dropped",
            lambda: SparseFeatures.from_dense(torch.zeros(3, 5)).dropout(1),
            r"dropout is 1\. Give the probability",
        ),
        Mistake(
            "propagated for another layer",
            lambda: _GCN(Propagated.of(torch.zeros(3, 5), _ON_PATH, "rw"), _ON_PATH),
            r"x was propagated with normalization='rw', .*, and the layer has normalization='sym', .* Propagate it",
        ),
        Mistake(
            "propagated over another graph",
            lambda: _GCN(Propagated.of(torch.zeros(3, 5), _weighted(1, 2, 3, 4)), _ON_PATH),
            r"x was propagated over another graph\. Propagate it again, with Propagated\.of\(x, graph\)",
        ),
        Mistake(
            "propagated, and learned",
            lambda: Propagated.of(torch.zeros(3, 5, requires_grad=True), _ON_PATH),
            r"x requires a gradient, so it changes, and Ahat x with it\. Give x to the layer",
        ),
        Mistake(
            "another device",
            lambda: _GCN(torch.zeros(3, 5), _ON_PATH.to("meta")),
            r"the graph is on meta, the weight on cpu\. Move it with graph\.to\('cpu'\)",
        ),
    ),
)
