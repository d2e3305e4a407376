"""A small residual net: three stages, each half as high and wide as the one before and with twice the channels."""

import torch
from torch import Tensor, nn

STAGES = 3


class Residual(nn.Module):
    """A 3 x 3 convolution, three stages of blocks, the mean over the image, a linear layer.

    >>> Residual(channels=1, classes=10, hidden=16, blocks=2, dropout=0)(torch.randn(8, 1, 28, 28)).shape
    torch.Size([8, 10])

    Shapes: x (B, C, Y, X) -> logits (B, V).
    """

    def __init__(self, channels: int, classes: int, hidden: int, blocks: int, dropout: float) -> None:
        super().__init__()
        self.stem = _convolution(channels, hidden)
        widths = [hidden * 2**stage for stage in range(STAGES)]
        stacked: list[nn.Module] = []
        before = hidden
        for stage, width in enumerate(widths):
            for block in range(blocks):
                stacked.append(ResidualBlock(before, width, stride=2 if stage and not block else 1))
                before = width
        self.blocks = nn.Sequential(*stacked)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.blocks(torch.relu(self.stem(x)))  # B 4H Y/4 X/4
        logits: Tensor = self.head(self.drop(hidden.mean((2, 3))))
        return logits


class ResidualBlock(nn.Module):
    """y = relu(x + f(x)), f two convolutions; where the size changes, x passes a 1 x 1 convolution."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(before, width, stride)
        self.second = _convolution(width, width)
        self.shortcut = (
            nn.Identity()
            if stride == 1 and before == width
            else nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.shortcut(x) + self.second(torch.relu(self.first(x))))


def _convolution(before: int, width: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(before, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width))
