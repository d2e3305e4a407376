"""Image files of any common kind, read by Pillow."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.errors import DataError, MissingExtra
from porism.tasks.images.imageset import Shape

if TYPE_CHECKING:
    from PIL.Image import Image

GREY_MODES = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "F")
"""What Pillow calls pictures without colour."""


class Opened(NamedTuple):
    """A picture's pixels (C, Y, X), one byte each, and what was done to it."""

    pixels: Tensor
    notes: tuple[str, ...]


def open_picture(path: Path) -> "Image":
    """The picture in a file, wholly decoded."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingExtra('pictures need pillow, which is not installed: pip install "porism[images]"') from None
    try:
        with Image.open(path) as picture:
            picture.load()
            return picture.copy()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Check the path.") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a folder, wanted a picture. Give a file in it.") from None
    except UnidentifiedImageError:
        raise DataError(
            f"{path}: not a picture that Pillow can read. Give a PNG, JPEG, GIF, BMP or the like."
        ) from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: not a whole picture ({error}). Copy or save it again.") from None


def is_grey(picture: "Image") -> bool:
    return picture.mode in GREY_MODES


def pixels_of(picture: "Image", colour: bool, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """(Y, X) or (Y, X, 3), on white where the picture is transparent; `size` is rows and columns to resize to."""
    from PIL import Image

    if picture.mode.startswith("I;16") or picture.mode in ("I", "F"):
        # More than a byte a pixel: 16 bits, of which the upper eight are kept.
        return pixels_of(Image.fromarray((np.asarray(picture).clip(0, 65535) / 257).round().astype("u1")), colour, size)
    if "A" in picture.getbands() or "transparency" in picture.info:
        layered = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered)
    made = picture.convert("RGB" if colour else "L")
    if size is not None and size != (made.height, made.width):
        made = made.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.asarray(made, dtype=np.uint8)


def fitting_picture(path: Path, shape: Shape) -> Opened:
    """One picture made to fit what a model takes, with a note on each change."""
    picture = open_picture(path)
    notes = []
    colour = shape.channels == 3
    if colour == is_grey(picture):
        notes.append("grey, read as colour" if colour else "read as grey")
    wanted = (shape.rows, shape.columns)
    if wanted != (picture.height, picture.width):
        notes.append(f"resized from {picture.height} x {picture.width} to {shape.rows} x {shape.columns}")
    pixels = torch.from_numpy(pixels_of(picture, colour, wanted).copy())
    return Opened(pixels.permute(2, 0, 1) if colour else pixels[None], tuple(notes))


def write_picture(path: Path, pixels: Tensor) -> None:
    """Bytes (C, Y, X) as a picture of the kind that the name's ending says."""
    from PIL import Image

    array = pixels.permute(1, 2, 0).numpy() if len(pixels) == 3 else pixels[0].numpy()
    try:
        Image.fromarray(array).save(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be written ({error}). Name a .png in a folder of yours.") from None
