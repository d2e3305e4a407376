"""Pictures: letters, patches of photographs, shapes."""

import random
from pathlib import Path
from typing import Any

import numpy as np

from untuned_sets.data_set import DataSet


def letters(path: Path) -> None:
    """A to H in each font that has them, turned by up to 15 degrees, of several sizes and places: 20 x 20."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    draw = random.Random(1)
    # The others hold symbols of mathematics in place of letters.
    fonts = [f for f in sorted((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("DejaVu*.ttf"))
             if "Display" not in f.name]  # fmt: skip
    for letter in "ABCDEFGH":
        for number in range(60):
            font = ImageFont.truetype(str(fonts[number % len(fonts)]), draw.randint(10, 17))
            picture = Image.new("L", (20, 20))
            place = draw.randint(1, 6), draw.randint(-2, 3)
            ImageDraw.Draw(picture).text(place, letter, fill=draw.randint(120, 255), font=font)
            _save(picture.rotate(draw.uniform(-15, 15), Image.Resampling.BILINEAR), path / letter, number)


def patches(path: Path) -> None:
    """Patches of 16 x 16 pixels, in colour, of scikit-learn's photographs: of a temple, or of a flower."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    draw = random.Random(2)
    for name, photograph in zip(("temple", "flower"), load_sample_images().images, strict=True):
        for number in range(240):
            y, x = (draw.randrange(side - 16) for side in photograph.shape[:2])
            _save(Image.fromarray(photograph[y : y + 16, x : x + 16]), path / name, number)


def shapes(path: Path) -> None:
    """A circle, a square, a triangle or a cross of any size and place, on noise: 20 x 20."""
    from PIL import Image, ImageDraw

    draw, noise = random.Random(3), np.random.default_rng(3)
    for kind in ("circle", "cross", "square", "triangle"):
        for number in range(120):
            picture = Image.fromarray(noise.integers(0, 110, (20, 20), dtype=np.uint8))
            pen, r, ink = ImageDraw.Draw(picture), draw.randint(3, 7), draw.randint(130, 255)
            x, y = draw.randint(r, 19 - r), draw.randint(r, 19 - r)
            if kind == "circle":
                pen.ellipse((x - r, y - r, x + r, y + r), outline=ink)
            elif kind == "square":
                pen.rectangle((x - r, y - r, x + r, y + r), outline=ink)
            elif kind == "triangle":
                pen.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], outline=ink)
            else:
                pen.line((x - r, y, x + r, y), fill=ink)
                pen.line((x, y - r, x, y + r), fill=ink)
            _save(picture, path / kind, number)


def _save(picture: Any, folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    picture.save(folder / f"{number:03}.png")


SETS = [
    DataSet("images", "letters", "8 letters in the fonts of matplotlib, turned", letters),
    DataSet("images", "patches", "patches of two photographs", patches),
    DataSet("images", "shapes", "4 shapes on noise", shapes),
]
