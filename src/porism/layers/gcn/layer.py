"""The graph convolution that people import, and its functional form."""

from typing import Any

import torch
from torch import Tensor, nn

from porism.layers.gcn.adjacency.normalize import check_normalisation
from porism.layers.gcn.functional import Features, graph_convolution
from porism.layers.gcn.graph import Graph
from porism.layers.operands import check_whole


class GraphConvolution(nn.Module):
    """A layer in which every node sums up what it hears from its neighbours and itself.

    y = Ahat x W + b

    >>> graph = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))       # 0 - 1 - 2
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


def _read_peer(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """PyTorch Geometric keeps W transposed, inside a layer of its own."""
    if f"{prefix}lin.weight" in state_dict:
        state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}lin.weight").mT
