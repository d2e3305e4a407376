"""Image files of any common kind, read by Pillow."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.errors import DataError, MissingExtra, one_line
from porism.tasks.images.data.image_set import Shape

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""What is read, whatever a file's name says. Pillow knows more, and hands some of it, PostScript for one, to another
program. PPM stands for PBM, PGM, PNM and PFM too."""
GREY_MODES = ("1", "L", "LA")
"""What Pillow calls pictures without colour, of a byte a pixel."""
COLOUR_MODES = ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr")
LARGEST = {"F": 1.0, "I": 65_535.0}
"""White in a picture of more than a byte a pixel: 1 among fractions, and the most that 16 bits hold."""


class Opened(NamedTuple):
    """A picture's pixels (C, Y, X), one byte each, and what was done to it."""

    pixels: Tensor
    notes: tuple[str, ...]


def open_picture(path: Path) -> "Image":
    """The picture in a file, wholly decoded, a byte a pixel and channel.

    Of 16 bits the upper eight are kept. Fractions count from 0, which is black, to 1.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingExtra('pictures need pillow, which is not installed: pip install "porism[images]"') from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tags that are not as they should be, beside the pixels
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as picture:
                picture.load()
                found = picture.copy()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Check the path.") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a folder, expected a picture. Give a file in it.") from None
    except UnidentifiedImageError:
        raise DataError(f"{path}: not a picture that can be read. Give one of {', '.join(FORMATS)}.") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise DataError(
            f"{path}: more than {Image.MAX_IMAGE_PIXELS:,} pixels, which take all memory. Give a smaller picture."
        ) from None
    # A decoder can stumble over damaged bytes anywhere.
    except Exception as error:
        raise DataError(f"{path}: not a whole picture ({one_line(error)}). Copy or save it again.") from None
    return in_bytes(found, str(path))


def in_bytes(picture: "Image", path: str) -> "Image":
    """A picture of a byte a pixel and channel. path: what it is called in an error."""
    from PIL import Image

    if picture.mode in (*GREY_MODES, *COLOUR_MODES):
        return picture
    if picture.mode not in ("I", "F") and not picture.mode.startswith("I;16"):
        try:
            return picture.convert("RGB")
        except ValueError:
            raise DataError(f"{path}: its colours are {picture.mode}. Save it in red, green and blue.") from None
    values, largest = np.asarray(picture), LARGEST[picture.mode[0]]
    outside = ~((values >= 0) & (values <= largest))  # nor is NaN within
    if outside.any():
        raise DataError(
            f"{path}: a pixel is {float(values[outside][0]):g}, expected 0 to {largest:g} in a picture of more than a "
            "byte a pixel. Save it with a byte each, as a PNG for instance."
        )
    return Image.fromarray((values * (255 / largest)).round().astype(np.uint8))


def is_grey(picture: "Image") -> bool:
    return picture.mode in GREY_MODES


def pixels_of(picture: "Image", colour: bool, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """(Y, X) or (Y, X, 3), on white where the picture is transparent; `size` is rows and columns to resize to."""
    from PIL import Image

    if "A" in picture.getbands() or "transparency" in picture.info:
        layered = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered)
    made = picture.convert("RGB" if colour else "L")
    if size is not None and size != (made.height, made.width):
        made = made.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.asarray(made, dtype=np.uint8)


def fitting_picture(path: Path, shape: Shape) -> Opened:
    """One picture made to fit what a model takes, with a note on each change."""
    return fitted(open_picture(path), shape)


def fitted(picture: "Image", shape: Shape) -> Opened:
    """The same of a picture that is decoded already, a byte a pixel and channel."""
    notes = []
    colour = shape.channels == 3
    if colour == is_grey(picture):
        notes.append("grey, read as colour" if colour else "read as grey")
    expected = (shape.rows, shape.columns)
    if expected != (picture.height, picture.width):
        notes.append(f"resized from {picture.height} x {picture.width} to {shape.rows} x {shape.columns}")
    pixels = torch.from_numpy(pixels_of(picture, colour, expected).copy())
    return Opened(pixels.permute(2, 0, 1) if colour else pixels[None], tuple(notes))


def write_picture(path: Path, pixels: Tensor) -> None:
    """Bytes (C, Y, X) as a picture of the kind that the name's ending says."""
    from PIL import Image

    array = pixels.permute(1, 2, 0).numpy() if len(pixels) == 3 else pixels[0].numpy()
    try:
        Image.fromarray(array).save(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be written ({error}). Name a .png in a folder of yours.") from None
