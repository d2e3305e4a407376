"""The images that come with the package: 1,797 handwritten digits, 8 x 8, real scans."""

from dataclasses import replace
from importlib.resources import as_file, files

import torch

from porism.tasks.images.data.image_set import ImageSet, Labelled
from porism.tasks.images.data.npz import read_npz

GREYS = 17
"""A pixel counts the dark dots, 0 to 16, in a square of 4 x 4 dots of the scan."""
HOW_SPLIT = "of each class a fifth is test and a fifth valid, drawn once; the same people wrote all three"


def digits() -> ImageSet:
    """The digits with a fixed split: of each class a fifth is test, a fifth valid.

    They are kept as they were published, and given as bytes: 16 greys each 16 apart, the last at 255.
    """
    with as_file(files(__package__) / "digits.npz") as path:
        kept = read_npz(path, "digits")
    spread = torch.arange(GREYS).mul(256 // (GREYS - 1)).clamp(max=255).to(torch.uint8)
    return replace(
        kept,
        facts={"split": HOW_SPLIT},
        splits={split: Labelled(spread[images.long()], labels) for split, (images, labels) in kept.splits.items()},
    )
