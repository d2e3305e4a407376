"""The images of the task: where they come from, and how they are cut into batches.

>>> images = load_images()                    # the embedded digits
>>> pixels, labels = ImageBatches(images.splits["train"], batch=32, seed=1, epoch=1)[0]     # (32, 1, 8, 8) and (32,)
"""

from collections.abc import Sequence
from typing import overload

import torch

from porism.tasks.images.data.image_set import Labelled


class ImageBatches(Sequence[Labelled]):
    """The images in an order that seed and epoch decide, `batch` at a time; the last may be fewer."""

    def __init__(self, images: Labelled, batch: int, seed: int, epoch: int) -> None:
        draw = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        self._images = images
        self._places = torch.randperm(len(images.labels), generator=draw).split(batch)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Labelled: ...
    @overload
    def __getitem__(self, index: slice) -> list[Labelled]: ...
    def __getitem__(self, index: int | slice) -> Labelled | list[Labelled]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        chosen = self._places[index]
        return Labelled(self._images.images[chosen], self._images.labels[chosen])
