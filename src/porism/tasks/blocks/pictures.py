"""Images as exhibits of the report."""

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.runs.exhibits import Picture


def picture(image: Tensor, caption: str = "") -> Picture:
    """From numbers between 0 and 1, (1, Y, X) or (3, Y, X).

    >>> picture(torch.rand(1, 28, 28), "a 3, taken for an 8")
    """
    if image.ndim != 3 or image.shape[0] not in (1, 3):
        raise ShapeError(
            f"a picture takes (1, Y, X) or (3, Y, X), got {tuple(image.shape)}. Pick one image of a batch."
        )
    colours, height, width = image.shape
    grey = image.detach().float().mul(255).round().clamp(0, 255).to(torch.uint8)
    pixels = grey.permute(1, 2, 0).contiguous().cpu().numpy().tobytes()
    return Picture(pixels=pixels, width=width, height=height, colours=colours, caption=caption)
