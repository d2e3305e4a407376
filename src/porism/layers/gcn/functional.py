"""Ahat (x W) or (Ahat x) W? The same numbers at different prices: the stored entries times the width decide."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.derivative import first_derivative_only
from porism.layers.gcn.adjacency.csr import Csr, versions
from porism.layers.gcn.adjacency.modes import check_numbers, outside_modes
from porism.layers.gcn.adjacency.normalize import check_normalisation
from porism.layers.gcn.adjacency.propagations import Propagation
from porism.layers.gcn.features import SparseFeatures
from porism.layers.gcn.gradient import project_gradient, propagate_gradient
from porism.layers.gcn.graph import Graph
from porism.layers.gcn.kernels import product
from porism.layers.operands import check_operands, has_values


def project_first(D: int, H: int, learns_weight: bool = True, learns_x: bool = True) -> bool:
    """Whether to multiply with W before spreading over the graph, features of width D into H.

    >>> project_first(1433, 16), project_first(16, 64)
    (True, False)

    The product with W costs the same either way. Spreading costs E times the width it happens at: H after the product,
    D before it. On the way back it happens again, at width H for whatever is learned, at width D for x alone. So
    features that are given, in a layer that learns, are spread first unless H is at most half of D. On a draw W comes
    first: it keeps x, which is there anyhow, where the other order keeps Ahat x.

    >>> project_first(64, 64), project_first(64, 64, learns_x=False)
    (True, False)
    """
    after = H * (1 + (learns_weight or learns_x))
    before = D * (1 + learns_x)
    return after <= before


def propagate(x: Tensor, propagation: Propagation, bias: Tensor | None = None) -> Tensor:
    """Ahat x + b. x (N, H), bias (H) -> (N, H)."""
    spread: Tensor = _Propagate.apply(x, bias, propagation)  # type: ignore[no-untyped-call]
    return spread


def project(x: SparseFeatures, weight: Tensor) -> Tensor:
    """x W for sparse features. x (N, D), weight (D, H) -> (N, H)."""
    projected: Tensor = _Project.apply(weight, x)  # type: ignore[no-untyped-call]
    return projected


class _Propagate(torch.autograd.Function):
    """Linear in x, so nothing is kept for the way back. The graph belongs to whoever made it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, propagation: Propagation) -> Tensor:
        ctx.propagation = propagation
        ctx.versions = _versions(propagation.back) if any(ctx.needs_input_grad) else None
        return product(propagation.there, x, bias)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        _check_unchanged(ctx, ctx.propagation.back)
        wants_x, wants_bias, _ = ctx.needs_input_grad
        return *propagate_gradient(dy, ctx.propagation.back, wants_x, wants_bias), None


class _Project(torch.autograd.Function):
    """Features are given, so only the weight gets a gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: SparseFeatures) -> Tensor:
        x.check()
        ctx.x = x
        ctx.versions = _versions(x.there) if any(ctx.needs_input_grad) else None
        return product(x.there, weight)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor, None]:
        ctx.x.check()
        _check_unchanged(ctx, ctx.x.there)
        return project_gradient(dz, ctx.x.back), None


def _versions(matrix: Csr) -> tuple[int, ...] | None:
    # The compiler keeps what it needs, and looks itself whether it was changed.
    return None if torch.compiler.is_compiling() else versions(*matrix)


def _check_unchanged(ctx: Any, matrix: Csr) -> None:
    """The matrix is not kept for the way back but read again: it must be the same."""
    if ctx.versions is not None and ctx.versions != versions(*matrix):
        raise ShapeError(
            "gcn: a sparse matrix was changed in place between the forward pass and the backward pass. "
            "Change it after backward(), or make another."
        )


class Propagated(NamedTuple):
    """Ahat x, and what it was spread over: a convolution has only the product with W left to do.

    >>> graph, x = Graph(torch.tensor([[0, 1], [1, 0]])), torch.randn(2, 5)
    >>> once, layer = Propagated.of(x, graph), GraphConvolution(5, 3)
    >>> torch.allclose(layer(once, graph), layer(x, graph), atol=1e-6)
    True

    It belongs to its graph, told by the graph's digest: the same graph moved to another device, copied, pickled or made
    again of the same edges and weights is the same graph, any other is refused. One that was made by hand, without a
    digest, belongs to none.
    """

    answer: Tensor
    normalisation: str
    self_loops: bool
    digest: Tensor | None = None

    @classmethod
    def of(cls, x: Tensor, graph: Graph, normalisation: str = "symmetric", self_loops: bool = True) -> "Propagated":
        check_operands("gcn", x=x)
        if x.requires_grad:
            raise ShapeError(
                "gcn: x asks for a gradient, so it changes, and Ahat x with it. "
                "Give x to the layer, or x.detach() here."
            )
        if not x.is_meta:
            check_numbers("x is", x)
        if x.dim() != 2 or len(x) != graph.num_nodes:
            raise ShapeError(
                f"gcn: x is {tuple(x.shape)}, wanted ({graph.num_nodes}, D): a row for each of the graph's "
                f"{graph.num_nodes} nodes. Give the features of all nodes, in the order of their numbers."
            )
        propagation = graph.propagation(normalisation, self_loops, x.dtype)
        return cls(outside_modes(propagate, x, propagation), normalisation, self_loops, graph.digest)

    def check(self, normalisation: str, self_loops: bool, graph: Graph) -> None:
        """Refuses what was spread for another layer, or over another graph."""
        for name, has, wanted in (
            ("normalisation", self.normalisation, normalisation),
            ("self_loops", self.self_loops, self_loops),
        ):
            if has != wanted:
                raise ShapeError(
                    f"gcn: x was propagated with {name}={has!r}, and the layer has {name}={wanted!r}. "
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
    graph: Graph,
    weight: Tensor,
    bias: Tensor | None = None,
    normalisation: str = "symmetric",
    self_loops: bool = True,
) -> Tensor:
    """Ahat x W + b, in the cheaper order.

    >>> graph = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
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


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weight if bias is None else torch.addmm(bias, x, weight)


def _converted(x: Features, dtype: torch.dtype) -> Features:
    if isinstance(x, Propagated):
        return x._replace(answer=x.answer.to(dtype))
    # Stored entries are summed as they are: only what they meet is rounded.
    return x if isinstance(x, SparseFeatures) else x.to(dtype)


def _check(x: Features, graph: Graph, weight: Tensor, bias: Tensor | None) -> None:
    if not isinstance(graph, Graph):
        raise ShapeError(
            f"gcn: the graph is a {type(graph).__name__}, wanted a Graph. Make it once, with Graph(edge_index)."
        )
    if isinstance(x, SparseFeatures):
        check_operands("gcn", weight=weight, bias=bias)
        _check_sparse(x, weight)
        shape: tuple[int, ...] = x.shape
    else:
        dense = x.answer if isinstance(x, Propagated) else x
        check_operands("gcn", x=dense, weight=weight, bias=bias)
        shape = tuple(dense.shape)
    if len(shape) != 2 or shape[0] != graph.num_nodes:
        raise ShapeError(
            f"gcn: x is {shape}, wanted ({graph.num_nodes}, D): a row for each of the graph's {graph.num_nodes} nodes. "
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
