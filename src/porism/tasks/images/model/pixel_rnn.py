"""A net that says what the next pixel may be, from all that come before it, row by row from the top left."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.tasks.images.model.causal import causal_layer
from porism.tasks.images.recipes import ImagesRecipe


class PixelRNN(nn.Module):
    """Layers that see pixels before one, and never that one: scans over the grid, or what the recipe's `layer` says.

    >>> model = PixelRNN(replace(RECIPES["complete"], levels=16), channels=1)
    >>> model(torch.randint(0, 16, (8, 1, 28, 28))).shape
    torch.Size([8, 1, 16, 28, 28])

    Pixels come in one of `levels` greys. The channels of a pixel are predicted each for itself, from the pixels before.

    Shapes: levels (B, C, Y, X) whole numbers -> logits (B, C, levels, Y, X).
    """

    def __init__(self, recipe: ImagesRecipe, channels: int) -> None:
        super().__init__()
        self.channels, self.levels = channels, recipe.levels
        # One more channel of ones: outside the image all is zero, so that an edge can be distinguished from black.
        widths = [channels + 1, *[recipe.hidden_size] * recipe.num_layers]
        self.layers = nn.ModuleList(
            causal_layer(recipe, before, width, first=layer == 0)
            for layer, (before, width) in enumerate(pairwise(widths))
        )
        self.wider = nn.Conv2d(recipe.hidden_size, 2 * recipe.hidden_size, 1)
        self.readout = nn.Conv2d(2 * recipe.hidden_size, channels * recipe.levels, 1)

    def forward(self, levels: Tensor) -> Tensor:
        x = 2 * levels.to(self.readout.weight.dtype) / (self.levels - 1) - 1
        x = torch.cat([x, torch.ones_like(x[:, :1])], 1)  # B, C + 1, Y, X
        first, *others = self.layers
        x = first(x)  # B, H, Y, X
        for layer in others:
            x = x + layer(x)
        logits: Tensor = self.readout(torch.relu(self.wider(x)))
        B, _, Y, X = logits.shape
        return logits.view(B, self.channels, self.levels, Y, X)


def pixel_loss(model: nn.Module, images: Tensor, levels: int) -> Tensor:
    """Mean nats for the level of a pixel's channel."""
    targets = quantise(images, levels)
    return functional.cross_entropy(model(targets).transpose(1, 2), targets)


def quantise(images: Tensor, levels: int) -> Tensor:
    """Bytes as the nearest of so many levels from below.

    >>> quantise(torch.tensor([0, 15, 16, 255], dtype=torch.uint8), 16)
    tensor([ 0,  0,  1, 15])
    """
    return images.long() * levels // 256


@torch.no_grad()
def complete(model: PixelRNN, levels: Tensor, given_rows: int, seed: int = 0) -> Tensor:
    """The same images (B, C, Y, X) with every row from `given_rows` on drawn pixel by pixel from the model.

    The rows to be drawn are not read. The same seed gives the same images, on any device.
    """
    draw = torch.Generator().manual_seed(seed)
    made = levels.clone()
    made[:, :, given_rows:] = 0
    _, _, Y, X = made.shape
    for row in range(given_rows, Y):
        for column in range(X):
            logits = model(made[:, :, : row + 1])[..., row, column]  # B C levels
            probs = logits.double().softmax(-1).cpu().flatten(0, 1)
            drawn = torch.multinomial(probs, 1, generator=draw).view(made.shape[:2])
            made[:, :, row, column] = drawn.to(made.device)
    return made
