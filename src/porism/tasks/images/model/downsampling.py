"""Two nets of one size that make an image smaller in two ways: `pooled` by taking maxima, `strided` by leaving out."""

from math import ceil

from torch import Tensor, nn

from porism.errors import DataError
from porism.tasks.images.data.image_set import Shape

CHANNELS = (8, 16)
WIDTHS = (320, 120)
SMALLEST = 5
"""Rows and columns from which on something is left after both steps."""


class Downsampling(nn.Module):
    """Two 3 x 3 convolutions, each of which halves the image by a stride or by a pool after it; three linear layers.

    >>> pooled = Downsampling(Shape(1, 28, 28), classes=4, pooled=True, dropout=0.7)
    >>> sum(parameter.numel() for parameter in pooled.parameters())
    224892

    A pool that does not come out even takes what is left, as a stride does. So both nets have the same sizes after
    each step, and the same parameters, on any image.

    Shapes: x (B, C, Y, X) -> logits (B, V).
    """

    def __init__(self, shape: Shape, classes: int, pooled: bool, dropout: float) -> None:
        super().__init__()
        check_large_enough(shape, SMALLEST)
        stride = 1 if pooled else 2
        shrink = nn.MaxPool2d(2, ceil_mode=True) if pooled else nn.Identity()
        first, second = CHANNELS
        self.net = nn.Sequential(
            nn.Conv2d(shape.channels, first, 3, stride, padding=1),
            nn.ReLU(),
            shrink,
            nn.Conv2d(first, second, 3, stride),
            nn.ReLU(),
            shrink,
            nn.Flatten(),
            nn.Linear(second * left(shape.rows) * left(shape.columns), WIDTHS[0]),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(*WIDTHS),
            nn.ReLU(),
            nn.Linear(WIDTHS[1], classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits


def left(size: int) -> int:
    """Rows that are left of so many: halved, two less for the second convolution without padding, and halved again.

    >>> left(28)
    6
    """
    return ceil(size / 4) - 1


def check_large_enough(shape: Shape, smallest: int) -> None:
    if min(shape.rows, shape.columns) < smallest:
        raise DataError(f"images of {shape.rows} x {shape.columns}: this model needs {smallest} x {smallest} or more.")
