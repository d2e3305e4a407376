"""Training images that differ a little every time. All on the images' device, without synchronising with the host."""

import math

import torch
from torch import Tensor
from torch.nn import functional


def shifted(images: Tensor, most: int) -> Tensor:
    """Every image moved by up to `most` pixels in each direction, drawn for each; what comes in is zero.

    >>> shifted(torch.ones(8, 1, 28, 28), most=2).shape
    torch.Size([8, 1, 28, 28])
    """
    B, _, Y, X = images.shape
    wide = functional.pad(images, (most, most, most, most))
    down, right = torch.randint(0, 2 * most + 1, (2, B, 1), device=images.device)
    rows = down + torch.arange(Y, device=images.device)  # B Y
    columns = right + torch.arange(X, device=images.device)  # B X
    image = torch.arange(B, device=images.device)[:, None, None]
    # Indices on both sides of a slice put what they pick in front: B Y X C.
    return wide[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def flipped(images: Tensor) -> Tensor:
    """Half of the images mirrored left to right, drawn at random."""
    mirrored = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
    return torch.where(mirrored, images.flip(3), images)


def rotated(images: Tensor, degrees: float, scale: float) -> Tensor:
    """Every image rotated by up to so many degrees and scaled by up to 1 +- `scale`, about its centre.

    >>> rotated(torch.ones(8, 1, 28, 28), degrees=10, scale=0.1).shape
    torch.Size([8, 1, 28, 28])
    """
    angle, factor = torch.rand(2, len(images), device=images.device) * 2 - 1
    angle, factor = angle * math.radians(degrees), 1 + factor * scale
    across, along = factor * angle.cos(), factor * angle.sin()
    zero = torch.zeros_like(across)
    # Where each pixel of the new image is found in the old one: a rotation and no translation.
    rows = torch.stack([torch.stack([across, -along, zero], 1), torch.stack([along, across, zero], 1)], 1)  # B 2 3
    # In bfloat16 a position would be off by a good part of a pixel.
    with torch.autocast(images.device.type, enabled=False):
        grid = functional.affine_grid(rows, list(images.shape), align_corners=False)
        return functional.grid_sample(images, grid, align_corners=False)
