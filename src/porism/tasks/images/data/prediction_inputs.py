"""Pictures to predict on: files, Pillow's images, and arrays or tensors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from porism.errors import DataError, MissingExtra
from porism.tasks.blocks.in_memory import as_tensor
from porism.tasks.images.data.image_files import Opened, fitted, fitting_picture, in_bytes
from porism.tasks.images.data.image_set import Shape
from porism.tasks.images.data.memory import to_bytes

CHANNELS = (1, 3)
EXPECTED = "(rows, columns), (C, rows, columns) or (rows, columns, C), C 1 or 3"


class Given(NamedTuple):
    """A picture that fits the model: what it is called, bytes (C, Y, X), and what was done to it."""

    name: str
    pixels: Tensor
    notes: tuple[str, ...]


def list_pictures(inputs: Any, shape: Shape) -> list[Any]:
    """The pictures one by one. An array of one dimension more than a picture holds several.

    Of three dimensions it is one picture where its channels are those of the model, else several of one channel.
    """
    if isinstance(inputs, str | Path) or _is_image(inputs):
        return [inputs]
    if not isinstance(inputs, Tensor | np.ndarray):
        if isinstance(inputs, Sequence):
            return list(inputs)
        raise DataError(f"predict: a {type(inputs).__name__} is no picture. Give files, images of Pillow, or arrays.")
    if inputs.ndim == 2 or (inputs.ndim == 3 and shape.channels == 3 and 3 in (inputs.shape[0], inputs.shape[2])):
        return [inputs]
    if inputs.ndim in (3, 4):
        return list(inputs)
    raise DataError(f"predict: an array of {tuple(inputs.shape)}, expected pictures of {EXPECTED}, one or several.")


def read_picture(one: Any, index: int, shape: Shape) -> Given:
    """One picture as the model takes it, with a note on each change. index: its number among the inputs."""
    if isinstance(one, str | Path):
        return Given(str(one), *fitting_picture(Path(one).expanduser(), shape))
    name = f"image {index}"
    if _is_image(one):
        called = str(getattr(one, "filename", "") or name)
        return Given(called, *fitted(in_bytes(one, called), shape))
    pixels = to_bytes(_channels_first(as_tensor(one, name), name), name)
    if pixels.shape == (shape.channels, shape.rows, shape.columns):
        return Given(name, pixels, ())
    return Given(name, *_resized(pixels, shape))


def _channels_first(x: Tensor, name: str) -> Tensor:
    """(Y, X), (C, Y, X) or (Y, X, C) to (C, Y, X); refused where it could be both of the last two."""
    if x.dim() == 2 and x.numel():
        return x[None]
    if x.dim() == 3 and x.numel():
        first, last = x.shape[0] in CHANNELS, x.shape[2] in CHANNELS
        if first and last:
            raise DataError(f"predict: {name} is {tuple(x.shape)}: which are its channels is not clear. Give a file.")
        if first or last:
            return x if first else x.permute(2, 0, 1)
    raise DataError(f"predict: {name} is an array of {tuple(x.shape)}, expected {EXPECTED}.")


def _resized(pixels: Tensor, shape: Shape) -> Opened:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra(
            'predict: resizing pictures needs pillow, which is not installed: pip install "porism[images]"'
        ) from None
    array = pixels.to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    return fitted(Image.fromarray(array[..., 0] if array.shape[2] == 1 else array), shape)


def _is_image(one: Any) -> bool:
    """Whether it is an image of Pillow, without importing that."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(one).__mro__)
