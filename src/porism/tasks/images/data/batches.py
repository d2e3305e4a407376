"""The images of the task: where they come from, and how they are cut into batches.

>>> images = load_images()                    # the embedded digits
>>> pixels, labels = ImageBatches(images.splits["train"], batch=32, seed=1, epoch=1)[0]     # (32, 1, 8, 8) and (32,)
"""

import torch

from porism.tasks.blocks.batches import LazyBatches
from porism.tasks.images.data.image_set import Labelled


class ImageBatches(LazyBatches):
    """The images in an order that seed and epoch decide, `batch` at a time; the last may be fewer."""

    def __init__(self, images: Labelled, batch: int, seed: int, epoch: int) -> None:
        draw = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        self._images = images
        self._examples = torch.randperm(len(images.labels), generator=draw).split(batch)

    def __len__(self) -> int:
        return len(self._examples)

    def batch(self, number: int) -> Labelled:
        chosen = self._examples[number]
        return Labelled(self._images.images[chosen], self._images.labels[chosen])
