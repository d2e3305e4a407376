"""The projection onto a vocabulary that people import, with its softmax cross-entropy."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers.operands import check_operands, check_whole
from porism.layers.readout.functional import check_width, linear_cross_entropy


class Readout(nn.Module):
    """Linear layer onto a vocabulary whose softmax cross-entropy never holds all scores.

    z = h U + b,  loss = -log softmax(z)[y]

    >>> readout, h, y = Readout(100, 10_000), torch.randn(35, 4, 100), torch.randint(10_000, (35, 4))
    >>> readout.loss(h, y).shape        # T B H, T B -> a scalar, without ever holding T B V scores
    torch.Size([])
    >>> readout(h).shape                # the scores themselves
    torch.Size([35, 4, 10000])

    `weight` ties the projection to a matrix that is already there, such as that of an embedding of the same width:
    `Readout(100, 10_000, weight=embedding.weight)`.

    Called as nn.Linear is, its loss as torch.nn.functional.linear_cross_entropy.

    Shapes: input (..., H) -> scores (..., V); target (...) -> a scalar.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        weight: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("in_features", in_features), ("out_features", out_features)):
            check_whole("readout", name, size)
        if weight is not None and tuple(weight.shape) != (out_features, in_features):
            raise ShapeError(
                f"readout: the tied weight is {tuple(weight.shape)}, expected {(out_features, in_features)}: "
                "out_features, in_features. "
                "Make the embedding as wide as the state, or leave out weight."
            )
        self.in_features = in_features
        self.out_features = out_features
        self.weight = (
            nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
            if weight is None
            else weight
        )
        self.bias = nn.Parameter(torch.empty_like(self.weight[:, 0], requires_grad=False)) if bias else None
        self._tied = weight is not None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform weights, zero bias. A tied weight belongs to its owner and stays as it is."""
        if not self._tied:
            nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(
        self,
        input: Tensor,
        target: Tensor | None = None,
        *,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """The scores, (..., V); with a target its `loss`."""
        if target is not None:
            return linear_cross_entropy(
                input,
                self.weight,
                target,
                linear_bias=self.bias,
                reduction=reduction,
                ignore_index=ignore_index,
                label_smoothing=label_smoothing,
            )
        check_operands("readout", input=input, linear_weight=self.weight, linear_bias=self.bias)
        check_width(input, self.weight)
        return nn.functional.linear(input, self.weight, self.bias)

    if TYPE_CHECKING:
        __call__ = forward

    def loss(
        self,
        input: Tensor,
        target: Tensor,
        *,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """The cross-entropy in nats of predicting `target` from `input`."""
        # A call, so that hooks of the module run: those that count FLOPs by module, or that gather a sharded weight.
        return self(input, target, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, tied={self._tied}"
