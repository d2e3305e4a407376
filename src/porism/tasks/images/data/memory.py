"""Images that are in memory: arrays, tensors, a Dataset or a DataLoader, all of them or by split."""

from typing import Any

import torch
from torch import Tensor

from porism.errors import DataError
from porism.tasks.blocks.finite import check_finite
from porism.tasks.blocks.held_out import split_positions
from porism.tasks.blocks.in_memory import Examples, by_split, examples_of
from porism.tasks.blocks.labels import check_class_count
from porism.tasks.images.data.image_set import AS_GIVEN, SPLITS, ImageSet, Labelled, image_set

READ_AT_ONCE = 256
HELD_OUT = {"valid": 0.15, "test": 0.15}


def own_images(data: Any) -> ImageSet:
    """The images of (X, y), X of (N, Y, X) or (N, C, Y, X): bytes, or floats from 0 to 1, which become bytes.

    Without a split 15 % each are held out for valid and test, in each class.
    """
    parts = {split: examples_of(part, split) for split, part in by_split(data).items()}
    splits = {split: _labelled(examples, split) for split, examples in parts.items()}
    how_split = AS_GIVEN
    if "valid" not in splits:
        whole = splits["train"]
        shares = {split: share for split, share in HELD_OUT.items() if split not in splits}
        positions = split_positions(len(whole.labels), shares, 0, whole.labels)
        held = ", ".join(f"{100 * share:g} % {split}" for split, share in shares.items())
        how_split = f"{held} held out at random in each class"
        splits |= {split: Labelled(whole.images[some], whole.labels[some]) for split, some in positions.items()}
    count = 1 + max(int(part.labels.max()) for part in splits.values())
    check_class_count("data", count, len(splits["train"].labels))
    names = getattr(getattr(data, "dataset", data), "classes", None)
    classes = [str(name) for name in names] if isinstance(names, list | tuple) and len(names) >= count else range(count)
    ordered = {split: splits[split] for split in SPLITS if split in splits}
    return image_set("data", [str(name) for name in classes], ordered, how_split)


def _labelled(examples: Examples, where: str) -> Labelled:
    read = [examples.batch(some) for some in torch.arange(len(examples)).split(READ_AT_ONCE)]
    if len(read[0]) != 2:
        raise DataError(f"{where}: an example has {len(read[0])} tensors, expected an image and its class.")
    images, labels = (torch.cat([batch[part] for batch in read]) for part in (0, 1))
    if labels.is_floating_point() or labels.dim() != 1 or int(labels.min()) < 0:
        raise DataError(
            f"{where}: labels are {labels.dtype} of {tuple(labels.shape)}, expected classes from 0 on, (N,)."
        )
    if images.dim() == 3:
        images = images[:, None]
    if images.dim() != 4 or 0 in images.shape:
        raise DataError(
            f"{where}: images are {tuple(images.shape)}, expected (N, rows, columns) or (N, C, rows, columns)."
        )
    return Labelled(to_bytes(images, where).contiguous(), labels.long())


def to_bytes(images: Tensor, where: str) -> Tensor:
    """Pixels from 0 to 255, of bytes or whole numbers as they are, of floats from 0 to 1."""
    if images.dtype == torch.uint8:
        return images
    check_finite(images, where, "pixel at")
    low, high = (float(end) for end in images.aminmax())
    if images.is_floating_point() and low >= 0 and high <= 1:
        return (images * 255).round().to(torch.uint8)
    if not images.is_floating_point() and low >= 0 and high <= 255:
        return images.to(torch.uint8)
    raise DataError(
        f"{where}: pixels from {low:g} to {high:g}, expected bytes from 0 to 255, or floats from 0 to 1. Images with "
        "other numbers train as task supervised."
    )
