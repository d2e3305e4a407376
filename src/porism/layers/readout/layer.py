"""The projection onto a vocabulary together with its softmax cross-entropy, which never holds all scores at once."""

import torch
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers.operands import check_operands, check_whole
from porism.layers.readout.functional import _check_width, linear_cross_entropy


class Readout(nn.Module):
    """From states to words: the projection onto a vocabulary, and its softmax cross-entropy.

    z = h U + b,  loss = -log softmax(z)[y]

    >>> readout, h, y = Readout(100, 10_000), torch.randn(35, 4, 100), torch.randint(10_000, (35, 4))
    >>> readout.loss(h, y).shape        # T B H, T B -> a scalar, without ever holding T B V scores
    torch.Size([])
    >>> readout(h).shape                # the scores themselves, where they are wanted
    torch.Size([35, 4, 10000])

    `weight` ties the projection to a matrix that is already there, such as that of an embedding of the same width:
    `Readout(100, 10_000, weight=embedding.weight)`.

    Shapes: h (..., H) -> z (..., V); targets (...) -> a scalar.
    """

    def __init__(
        self,
        width: int,
        vocabulary: int,
        bias: bool = True,
        weight: nn.Parameter | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("width", width), ("vocabulary", vocabulary)):
            check_whole("readout", name, size)
        if weight is not None and tuple(weight.shape) != (vocabulary, width):
            raise ShapeError(
                f"readout: the tied weight is {tuple(weight.shape)}, wanted {(vocabulary, width)}: vocabulary, width. "
                "Make the embedding as wide as the state, or leave out weight."
            )
        self.width = width
        self.vocabulary = vocabulary
        self.weight = (
            nn.Parameter(torch.empty(vocabulary, width, device=device, dtype=dtype)) if weight is None else weight
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

    def forward(self, h: Tensor) -> Tensor:
        check_operands("readout", h=h, weight=self.weight, bias=self.bias)
        _check_width(h, self.weight)
        return nn.functional.linear(h, self.weight, self.bias)

    def loss(self, h: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
        """The cross-entropy in nats of predicting `targets` from `h`."""
        return linear_cross_entropy(h, self.weight, self.bias, targets, reduction)

    def extra_repr(self) -> str:
        return f"{self.width}, {self.vocabulary}, bias={self.bias is not None}, tied={self._tied}"
