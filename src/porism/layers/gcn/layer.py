"""The graph convolution that people import."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from porism.layers.gcn.adjacency.normalize import Normalization
from porism.layers.gcn.functional import Features, convolve
from porism.layers.gcn.graph import Graph, GraphCache
from porism.layers.operands import check_whole


class GraphConvolution(nn.Module):
    """Graph convolution, a drop-in for GCNConv of PyTorch Geometric.

    y = Ahat x W^T + b

    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])                    # 0 - 1 - 2
    >>> GraphConvolution(50, 16)(torch.randn(3, 50), edge_index).shape             # N D -> N H
    torch.Size([3, 16])
    >>> GraphConvolution(50, 16)(torch.randn(3, 50), Graph(edge_index)).shape      # normalized once
    torch.Size([3, 16])

    Ahat is A + I, or A + 2 I where `improved`, normalized by `normalization`: "sym", "rw" (random walk, the mean over
    neighbors), "softmax" over neighbors, or None. `normalize=False` takes A as it is. Weights start Glorot-uniform,
    biases at zero. A state_dict of GCNConv loads strictly, and the other way round.

    `cached` keeps the normalized graph of the last call, and compares edges and weights: another graph is normalized
    anew. The gradient of edge_weight is not computed.

    Shapes: x (..., N, D), or `SparseFeatures`, or `Propagated`; edge_index (2, E), or a sparse adj_t (N, N) as COO or
    CSR, or a `Graph`; edge_weight (E) -> y (..., N, H).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        cached: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        bias: bool = True,
        *,
        normalization: str | None = "sym",
        flow: str = "source_to_target",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("in_channels", in_channels), ("out_channels", out_channels)):
            check_whole("gcn", name, size)
        self._how = Normalization.of(normalization, add_self_loops, improved, normalize, flow)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.improved = improved
        self.cached = cached
        self.add_self_loops = normalize if add_self_loops is None else add_self_loops
        self.normalize = normalize
        self.normalization = normalization
        self.flow = flow
        self._cache = GraphCache() if cached else None
        self.lin = _GlorotLinear(in_channels, out_channels, bias=False, device=device, dtype=dtype)
        self.bias = nn.Parameter(torch.zeros(out_channels, device=device, dtype=dtype)) if bias else None
        self.register_load_state_dict_pre_hook(_read_weight_of_0_1)  # type: ignore[no-untyped-call]

    def reset_parameters(self) -> None:
        """Glorot-uniform weight, zero bias; the cached graph is forgotten."""
        self.lin.reset_parameters()
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self._cache is not None:
            self._cache.clear()

    def forward(self, x: Features, edge_index: Tensor | Graph, edge_weight: Tensor | None = None) -> Tensor:
        return convolve(x, edge_index, edge_weight, self.lin.weight, self.bias, self._how, self._cache)

    if TYPE_CHECKING:
        __call__ = forward

    def extra_repr(self) -> str:
        defaults = {
            "improved": False,
            "cached": False,
            "add_self_loops": self.normalize,
            "normalize": True,
            "normalization": "sym",
            "flow": "source_to_target",
        }
        changed = [f"{name}={value!r}" for name, usual in defaults.items() if (value := getattr(self, name)) != usual]
        changed += [] if self.bias is not None else ["bias=False"]
        return ", ".join([str(self.in_channels), str(self.out_channels), *changed])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


class _GlorotLinear(nn.Linear):
    """The weight (H, D) under the name that GCNConv gives it."""

    def reset_parameters(self) -> None:
        # Drawn as (D, H), as in 0.1: a seed gives the same weights.
        drawn = torch.empty(self.in_features, self.out_features, device=self.weight.device, dtype=self.weight.dtype)
        with torch.no_grad():
            self.weight.copy_(nn.init.xavier_uniform_(drawn).mT)


def _read_weight_of_0_1(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """In 0.1 the weight was (D, H), and named `weight`."""
    if f"{prefix}weight" in state_dict and f"{prefix}lin.weight" not in state_dict:
        state_dict[f"{prefix}lin.weight"] = state_dict.pop(f"{prefix}weight").mT
