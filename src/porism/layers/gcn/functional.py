"""Graph convolution as a function: y = Ahat x W^T + b, in the cheaper order of the two products."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.gcn.adjacency.csr import versions
from porism.layers.gcn.adjacency.gcn_norm import gcn_norm
from porism.layers.gcn.adjacency.modes import check_numbers, outside_modes
from porism.layers.gcn.adjacency.normalize import Normalization
from porism.layers.gcn.adjacency.propagations import Propagation
from porism.layers.gcn.features import SparseFeatures
from porism.layers.gcn.gradient import product_gradient
from porism.layers.gcn.graph import Graph, GraphCache
from porism.layers.gcn.kernels import OPERATOR
from porism.layers.operands import check_operands, has_values, is_plain
from porism.layers.operators import Function, call_linear, differentiate, map_by_turns, may_need_gradient


def project_first(D: int, H: int, learns_weight: bool = True, learns_x: bool = True) -> bool:
    """Whether to multiply with W before the propagation, features of width D into H.

    >>> project_first(1433, 16), project_first(16, 64)
    (True, False)

    The product with W costs the same either way. Propagation costs E times the width it has: H after the product, D
    before it. The backward pass propagates again, at width H if weight or x needs a gradient, at width D if x does. So
    features without a gradient are propagated first, in a layer that learns, unless H is at most half of D. If both
    cost the same W comes first: that order saves x for the backward pass, which exists anyhow, the other one Ahat x.

    >>> project_first(64, 64), project_first(64, 64, learns_x=False)
    (True, False)
    """
    after = H * (1 + (learns_weight or learns_x))
    before = D * (1 + learns_x)
    return after <= before


Arrays = tuple[Tensor, Tensor, Tensor]
"""Starts, columns and values of a sparse matrix: a Csr."""


def propagate(x: Tensor, propagation: Propagation, bias: Tensor | None = None) -> Tensor:
    """Ahat x + b. x (..., N, H), bias (H) -> (..., N, H)."""
    there, back = propagation
    if x.dim() == 2:
        return multiply(there, x, bias, back)
    # Side by side in one product: neighbors are read once.
    lead, (N, H) = x.shape[:-2], x.shape[-2:]
    side_by_side = x.movedim(-2, 0).reshape(N, -1)  # N (... H)
    repeated = None if bias is None else bias.expand(*lead, H).reshape(-1)
    return multiply(there, side_by_side, repeated, back).view(N, *lead, H).movedim(0, -2)


def project(x: SparseFeatures, weight: Tensor) -> Tensor:
    """x W^T for sparse features. x (N, D), weight (H, D) -> (N, H)."""
    x.check()
    transposed = x.back if torch.is_grad_enabled() and may_need_gradient(weight) else None
    return multiply(x.there, weight.mT, None, transposed)


def multiply(matrix: Arrays, x: Tensor, bias: Tensor | None = None, transposed: Arrays | None = None) -> Tensor:
    """matrix x + bias, with gradients of x and bias; that of x needs the transposed matrix."""
    output: Tensor = call_linear(OPERATOR, CsrProduct, *matrix, x, bias, *(transposed or (None, None, None)))
    return output


class CsrProduct(Function):
    """Linear in x: the backward pass needs no tensor but the matrices, which belong to the graph and are not copied."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.matrix, ctx.transposed = inputs[:3], inputs[5:]
        ctx.versions = versions(*ctx.transposed) if _is_given(ctx.transposed) else None

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        needs_x, needs_bias = (*ctx.needs_input_grad, False)[3:5]
        if needs_x and ctx.versions is None:
            raise ShapeError("gcn: csr_product needs the transposed matrix for a gradient. Pass transposed_starts, ...")
        if needs_x and ctx.versions != versions(*ctx.transposed):
            raise ShapeError(
                "gcn: a sparse matrix was changed in place between the forward pass and the backward pass. "
                "Change it after backward(), or make another."
            )
        # The transposed of the transposed is the matrix: so a second derivative is the same product.
        dx, db = product_gradient(
            dy, ctx.transposed, needs_x, needs_bias, lambda matrix, dy: multiply(matrix, dy, None, ctx.matrix)
        )
        return None, None, None, dx, db, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        dx: Tensor | None = tangents[3]
        dbias: Tensor | None = tangents[4]
        if dx is None:
            assert dbias is not None, "one of the two has a tangent"
            return dbias.expand(ctx.matrix[0].shape[0] - 1, -1)
        return multiply(ctx.matrix, dx, dbias, ctx.transposed if _is_given(ctx.transposed) else None)

    @classmethod
    def mapped(
        cls, apply: Callable[..., Any], info: Any, in_dims: Sequence[Any], args: Sequence[Any]
    ) -> tuple[Any, Any]:
        """The mapped dimension becomes a part of the columns, so that neighbors are read once. Matrices take turns."""
        if any(dim is not None for dim in (*in_dims[:3], *in_dims[5:])):
            return map_by_turns(apply, info.batch_size, in_dims, args)
        x, bias = args[3], args[4] if len(args) > 4 else None
        columns = x.unsqueeze(1).expand(-1, info.batch_size, -1) if in_dims[3] is None else x.movedim(in_dims[3], 1)
        if bias is not None:
            bias = (bias.expand(info.batch_size, -1) if in_dims[4] is None else bias.movedim(in_dims[4], 0)).flatten()
        y = apply(*args[:3], columns.flatten(1), bias, *args[5:])  # N (B H)
        return y.unflatten(1, columns.shape[1:]), 1


differentiate(CsrProduct, OPERATOR)


def _is_given(transposed: tuple[Tensor | None, ...]) -> bool:
    """The operator may be called without it, and then has no gradient of x."""
    return len(transposed) > 0 and transposed[0] is not None


class Propagated(NamedTuple):
    """Ahat x, and the graph and the normalization it was computed with: only the product with W is left.

    >>> graph, x = Graph(torch.tensor([[0, 1], [1, 0]])), torch.randn(2, 5)
    >>> once, layer = Propagated.of(x, graph), GraphConvolution(5, 3)
    >>> torch.allclose(layer(once, graph), layer(x, graph), atol=1e-6)
    True

    It belongs to its graph, by the graph's digest: the same graph moved to another device, copied, pickled or made
    again of the same edges and weights is the same graph, any other is refused. One that was made by hand, without a
    digest, belongs to none.
    """

    output: Tensor
    normalization: Normalization
    digest: Tensor | None = None

    @classmethod
    def of(
        cls,
        x: Tensor,
        graph: Graph,
        normalization: str | None = "sym",
        add_self_loops: bool = True,
        *,
        improved: bool = False,
        flow: str = "source_to_target",
    ) -> "Propagated":
        check_operands("gcn", x=x)
        if x.requires_grad:
            raise ShapeError(
                "gcn: x requires a gradient, so it changes, and Ahat x with it. "
                "Give x to the layer, or x.detach() here."
            )
        if not x.is_meta:
            check_numbers("x", x)
        if x.dim() != 2:
            raise ShapeError(f"gcn: x is {tuple(x.shape)}, expected ({graph.num_nodes}, D). Propagate one at a time.")
        _check_nodes(tuple(x.shape), graph)
        how = Normalization.of(normalization, add_self_loops, improved, flow=flow)
        return cls(outside_modes(propagate, x, graph.normalized(how, x.dtype)), how, graph.digest)

    def check(self, how: Normalization, graph: Graph) -> None:
        """Refuses what was computed for another layer, or with another graph."""
        if self.normalization != how:
            raise ShapeError(
                f"gcn: x was propagated with {_options(self.normalization)}, and the layer has {_options(how)}. "
                "Propagate it again."
            )
        if self.digest is graph.digest:
            return
        refusal = "gcn: x was propagated over another graph. Propagate it again, with Propagated.of(x, graph)."
        if self.digest is None:
            raise ShapeError(refusal)
        if has_values(self.digest):
            if not outside_modes(torch.equal, self.digest, graph.digest):
                raise ShapeError(refusal)
        else:
            torch._assert_async((self.digest == graph.digest).all(), refusal)


Features = Tensor | SparseFeatures | Propagated


def graph_convolution(
    x: Features,
    edge_index: Tensor | Graph,
    weight: Tensor,
    bias: Tensor | None = None,
    edge_weight: Tensor | None = None,
    *,
    improved: bool = False,
    add_self_loops: bool | None = None,
    normalize: bool = True,
    normalization: str | None = "sym",
    flow: str = "source_to_target",
) -> Tensor:
    """Ahat x W^T + b, in the cheaper order.

    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> graph_convolution(torch.randn(3, 50), edge_index, torch.randn(16, 50)).shape
    torch.Size([3, 16])

    x is a tensor, `SparseFeatures`, or `Propagated` where Ahat x is known already. A `Graph` in place of edge_index is
    normalized once, and not at every call. Under autocast the product with W runs in its type; sums over neighbors are
    float32 at least. One compiled function serves all graphs.

    Shapes: x (..., N, D), edge_index (2, E), edge_weight (E), weight (H, D), bias (H) -> (..., N, H).
    """
    how = Normalization.of(normalization, add_self_loops, improved, normalize, flow)
    return convolve(x, edge_index, edge_weight, weight, bias, how)


def convolve(
    x: Features,
    edge_index: Tensor | Graph,
    edge_weight: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    how: Normalization,
    cache: GraphCache | None = None,
) -> Tensor:
    """The same by options that were checked. A cache serves outside of compiled code and transforms."""
    shape = _check(x, weight, bias)
    _check_adjacency(edge_index, edge_weight, shape, weight.device, how)
    if not isinstance(edge_index, Graph):
        edge_index, edge_weight, how = as_edges(edge_index, edge_weight, how)
        if cache is not None and is_plain(edge_index):
            edge_index, edge_weight = cache.graph(edge_index, edge_weight, shape[-2]), None
    if isinstance(x, Propagated):
        if not isinstance(edge_index, Graph):
            raise ShapeError("gcn: x was propagated, and edge_index is no Graph. Give the Graph that it belongs to.")
        x.check(how, edge_index)
    place = weight
    if (chosen := autocast_dtype(place)) is not None:
        x = _converted(x, chosen)
        weight, bias = weight.to(chosen), None if bias is None else bias.to(chosen)
    with without_autocast(place):
        if isinstance(x, Propagated):
            return linear(x.output, weight, bias)
        if isinstance(edge_index, Graph):
            propagation = edge_index.normalized(how, x.dtype)
        else:
            propagation = gcn_norm(edge_index, edge_weight, shape[-2], how, x.dtype, torch.is_grad_enabled())
        if isinstance(x, SparseFeatures):
            return propagate(project(x, weight), propagation, bias)
        learns, (H, D) = torch.is_grad_enabled(), weight.shape
        if project_first(D, H, learns and weight.requires_grad, learns and x.requires_grad):
            return propagate(linear(x, weight), propagation, bias)
        return linear(propagate(x, propagation), weight, bias)


def as_edges(
    edge_index: Tensor, edge_weight: Tensor | None, how: Normalization
) -> tuple[Tensor, Tensor | None, Normalization]:
    """A list of edges as it is; of a sparse adj_t its entries, and self-loops beside those that it has, as in GCNConv.

    Entry (i, j) of adj_t is the weight of the edge from j to i.
    """
    if edge_index.layout is torch.strided:
        return edge_index, edge_weight, how
    if edge_index.layout is torch.sparse_csr:
        rows = torch.repeat_interleave(edge_index.crow_indices().diff())
        edges, weights = torch.stack([edge_index.col_indices(), rows]), edge_index.values()
    else:
        edges, weights = edge_index._indices().flip(0), edge_index._values()
    if weights.dtype is torch.bool:
        # A self-loop of weight 2 is no bool.
        weights = weights.to(torch.uint8)
    if how.loop_weight:
        loops = torch.arange(edge_index.shape[0], device=edges.device)
        edges = torch.cat([edges, loops.expand(2, -1)], 1)
        weights = torch.cat([weights, weights.new_full((len(loops),), how.loop_weight)])
    return edges, weights, how._replace(loop_weight=0)


def _converted(x: Features, dtype: torch.dtype) -> Features:
    if isinstance(x, Propagated):
        return x._replace(output=x.output.to(dtype))
    # Stored entries are summed as they are: only what they are multiplied with is rounded.
    return x if isinstance(x, SparseFeatures) else x.to(dtype)


def _check(x: Features, weight: Tensor, bias: Tensor | None) -> tuple[int, ...]:
    """The shape of x, whatever it is kept in."""
    if isinstance(x, SparseFeatures):
        check_operands("gcn", weight=weight, bias=bias)
        _check_sparse(x, weight)
        shape: tuple[int, ...] = x.shape
    else:
        dense = x.output if isinstance(x, Propagated) else x
        check_operands("gcn", x=dense, weight=weight, bias=bias)
        shape = tuple(dense.shape)
    if weight.dim() != 2 or len(shape) < 2 or shape[-1] != weight.shape[1]:
        if len(shape) < 2:
            raise ShapeError(f"gcn: x is {shape}, expected (N, D): a row for each node. Use x.view(-1, D).")
        raise ShapeError(
            f"gcn: x is {shape}, width {shape[-1]}, and the weight is {tuple(weight.shape)}, expected "
            f"(H, {shape[-1]}). Build the layer with in_channels={shape[-1]}, or project x first."
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ShapeError(f"gcn: bias is {tuple(bias.shape)}, expected ({weight.shape[0]},), one for each row of W.")
    return shape


def _check_adjacency(
    edge_index: Tensor | Graph,
    edge_weight: Tensor | None,
    shape: tuple[int, ...],
    device: torch.device,
    how: Normalization,
) -> None:
    if isinstance(edge_index, Graph):
        if edge_weight is not None:
            raise ShapeError("gcn: edge_weight beside a Graph, which has its own. Use Graph(edge_index, edge_weight).")
        _check_nodes(shape, edge_index)
        name, move = "the graph", "graph"
    elif not isinstance(edge_index, Tensor):
        raise ShapeError(
            f"gcn: edge_index is a {type(edge_index).__name__}, expected a tensor (2, E), a sparse adj_t or a Graph. "
            "Use torch.as_tensor(edge_index), or Graph.from_scipy, from_networkx, from_data."
        )
    else:
        name = move = "edge_index"
        if edge_index.layout is not torch.strided:
            _check_sparse_adjacency(edge_index, edge_weight, shape[-2], how)
    if edge_index.device != device:
        raise ShapeError(
            f"gcn: {name} is on {edge_index.device}, the weight on {device}. Move it with {move}.to({str(device)!r})."
        )


def _check_nodes(shape: tuple[int, ...], graph: Graph) -> None:
    if len(shape) < 2 or shape[-2] != graph.num_nodes:
        raise ShapeError(
            f"gcn: x is {shape}, expected ({graph.num_nodes}, D): a row for each of the graph's {graph.num_nodes} "
            "nodes. Give the features of all nodes, in the order of their numbers."
        )


def _check_sparse_adjacency(adj_t: Tensor, edge_weight: Tensor | None, nodes: int, how: Normalization) -> None:
    if adj_t.layout not in (torch.sparse_coo, torch.sparse_csr):
        raise ShapeError(f"gcn: adj_t is {adj_t.layout}, expected COO or CSR. Convert it with adj_t.to_sparse_csr().")
    if tuple(adj_t.shape) != (nodes, nodes):
        raise ShapeError(f"gcn: adj_t is {tuple(adj_t.shape)}, expected ({nodes}, {nodes}), as x has {nodes} nodes.")
    if edge_weight is not None:
        raise ShapeError("gcn: edge_weight beside a sparse adj_t, which has its own. Put the weights into adj_t.")
    if how.flow == "target_to_source":
        raise ShapeError("gcn: flow='target_to_source' with a sparse adj_t, whose rows are targets. Transpose adj_t.")


def _check_sparse(x: SparseFeatures, weight: Tensor) -> None:
    if x.device != weight.device:
        raise ShapeError(
            f"gcn: x is on {x.device}, weight on {weight.device}, expected one device. "
            f"Move it once, with x.to({str(weight.device)!r})."
        )
    # Sparse features in float32 serve weights of any lower precision.
    serves = x.dtype in (weight.dtype, torch.promote_types(weight.dtype, torch.float32))
    if not serves and autocast_dtype(weight, x.there.values) is None:
        raise ShapeError(
            f"gcn: x is {x.dtype}, weight is {weight.dtype}, expected one type. "
            f"Convert x with x.to(dtype={weight.dtype})."
        )


def _options(how: Normalization) -> str:
    return f"normalization={how.kind!r}, self-loops of weight {how.loop_weight}, flow={how.flow!r}"
