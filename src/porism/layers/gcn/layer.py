"""The graph convolution that people import, and its functional form."""

from typing import Any

import torch
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.gcn.features import SparseFeatures
from porism.layers.gcn.function import project, propagate
from porism.layers.gcn.graph import Graph
from porism.layers.gcn.normalise import check_normalisation
from porism.layers.gcn.order import project_first
from porism.layers.gcn.propagated import Propagated
from porism.layers.operands import check_operands, check_whole

Features = Tensor | SparseFeatures | Propagated


def graph_convolution(
    x: Features,
    graph: Graph,
    weight: Tensor,
    bias: Tensor | None = None,
    normalisation: str = "symmetric",
    self_loops: bool = True,
) -> Tensor:
    """Ahat x W + b, in the cheaper order.

    >>> graph = Graph.from_edges(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> graph_convolution(torch.randn(3, 50), graph, torch.randn(50, 16)).shape
    torch.Size([3, 16])

    x is a tensor, `SparseFeatures` where most of it is zero, or `Propagated` where Ahat x is at hand already. Under
    autocast the product with W runs in its type; sums over neighbours are float32 at least. One compiled function
    serves all graphs.

    Shapes: x (N, D), weight (D, H), bias (H) -> (N, H).
    """
    check_normalisation(normalisation)
    _check(x, graph, weight, bias)
    if isinstance(x, Propagated):
        x.check(normalisation, self_loops, graph)
    place = weight
    if (chosen := autocast_dtype(place)) is not None:
        x = _converted(x, chosen)
        weight, bias = weight.to(chosen), None if bias is None else bias.to(chosen)
    with without_autocast(place):
        if isinstance(x, Propagated):
            return _affine(x.answer, weight, bias)
        propagation = graph.propagation(normalisation, self_loops, x.dtype)
        if isinstance(x, SparseFeatures):
            return propagate(project(x, weight), propagation, bias)
        learns, (D, H) = torch.is_grad_enabled(), weight.shape
        if project_first(D, H, learns and weight.requires_grad, learns and x.requires_grad):
            return propagate(x @ weight, propagation, bias)
        return _affine(propagate(x, propagation), weight, bias)


class GraphConvolution(nn.Module):
    """A layer in which every node sums up what it hears from its neighbours and itself.

    y = Ahat x W + b

    >>> graph = Graph.from_edges(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))       # 0 - 1 - 2
    >>> GraphConvolution(50, 16)(torch.randn(3, 50), graph).shape                  # N D -> N H
    torch.Size([3, 16])

    `normalisation` says what Ahat is made of A + I: "none", "row", "symmetric" or "softmax"; `self_loops=False` leaves
    out the I. Weights start Glorot-uniform, biases at zero. The state_dict of a GCNConv of PyTorch Geometric loads
    strictly.

    Shapes: x (N, D), tensor or `SparseFeatures` or `Propagated` -> y (N, H).
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        normalisation: str = "symmetric",
        self_loops: bool = True,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("in_width", in_width), ("out_width", out_width)):
            check_whole("gcn", name, size)
        check_normalisation(normalisation)
        self.in_width = in_width
        self.out_width = out_width
        self.normalisation = normalisation
        self.self_loops = self_loops
        self.weight = nn.Parameter(torch.empty(in_width, out_width, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(out_width, device=device, dtype=dtype)) if bias else None
        self.register_load_state_dict_pre_hook(_read_peer)  # type: ignore[no-untyped-call]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform weight, zero bias."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Features, graph: Graph) -> Tensor:
        return graph_convolution(x, graph, self.weight, self.bias, self.normalisation, self.self_loops)

    def extra_repr(self) -> str:
        settings = f"normalisation={self.normalisation!r}, self_loops={self.self_loops}, bias={self.bias is not None}"
        return f"{self.in_width}, {self.out_width}, {settings}"


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weight if bias is None else torch.addmm(bias, x, weight)


def _converted(x: Features, dtype: torch.dtype) -> Features:
    if isinstance(x, Propagated):
        return x._replace(answer=x.answer.to(dtype))
    # Stored entries are summed as they are: only what they meet is rounded.
    return x if isinstance(x, SparseFeatures) else x.to(dtype)


def _read_peer(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """PyTorch Geometric keeps W transposed, inside a layer of its own."""
    if f"{prefix}lin.weight" in state_dict:
        state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}lin.weight").mT


def _check(x: Features, graph: Graph, weight: Tensor, bias: Tensor | None) -> None:
    if not isinstance(graph, Graph):
        raise ShapeError(
            f"gcn: the graph is a {type(graph).__name__}, wanted a Graph. "
            "Make it once, with Graph.from_edges(edge_index)."
        )
    if isinstance(x, SparseFeatures):
        check_operands("gcn", weight=weight, bias=bias)
        _check_sparse(x, weight)
        shape: tuple[int, ...] = x.shape
    else:
        dense = x.answer if isinstance(x, Propagated) else x
        check_operands("gcn", x=dense, weight=weight, bias=bias)
        shape = tuple(dense.shape)
    if len(shape) != 2 or shape[0] != graph.nodes:
        raise ShapeError(
            f"gcn: x is {shape}, wanted ({graph.nodes}, D): a row for each of the graph's {graph.nodes} nodes. "
            "Give the features of all nodes, in the order of their numbers."
        )
    if weight.dim() != 2 or shape[1] != weight.shape[0]:
        raise ShapeError(
            f"gcn: x is {shape}, width {shape[1]}, and the weight is {tuple(weight.shape)}, wanted ({shape[1]}, H). "
            f"Build the layer with in_width={shape[1]}, or project x first."
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[1],):
        raise ShapeError(f"gcn: bias is {tuple(bias.shape)}, wanted ({weight.shape[1]},), one for each column of W.")
    if graph.device != weight.device:
        raise ShapeError(
            f"gcn: the graph is on {graph.device}, the weight on {weight.device}. "
            f"Move it once, with graph.to({str(weight.device)!r})."
        )


def _check_sparse(x: SparseFeatures, weight: Tensor) -> None:
    if x.device != weight.device:
        raise ShapeError(
            f"gcn: x is on {x.device}, weight on {weight.device}, wanted one device. "
            f"Move it once, with x.to({str(weight.device)!r})."
        )
    # Sparse features in float32 serve weights of any lower precision.
    serves = x.dtype in (weight.dtype, torch.promote_types(weight.dtype, torch.float32))
    if not serves and autocast_dtype(weight, x.there.values) is None:
        raise ShapeError(
            f"gcn: x is {x.dtype}, weight is {weight.dtype}, wanted one type. "
            f"Convert x with x.to(dtype={weight.dtype})."
        )
