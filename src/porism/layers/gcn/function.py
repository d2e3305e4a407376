"""The two sparse products as differentiable functions: spreading over a graph, and projecting sparse features."""

from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.derivative import first_derivative_only
from porism.layers.gcn.csr import Csr, versions
from porism.layers.gcn.features import SparseFeatures
from porism.layers.gcn.gradient import project_gradient, propagate_gradient
from porism.layers.gcn.graph import Propagation
from porism.layers.gcn.propagate import product


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
