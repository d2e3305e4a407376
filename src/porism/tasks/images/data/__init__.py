"""The images of the task: where they come from, and how they are cut into batches.

>>> images = load_images()                    # the embedded digits
>>> pixels, labels = ImageBatches(images.splits["train"], batch=32, seed=1, epoch=1)[0]     # (32, 1, 8, 8) and (32,)
"""

from pathlib import Path

from porism.errors import DataError, RecipeError, nearest
from porism.tasks.images.catalogue import CATALOGUE, PUBLIC
from porism.tasks.images.data.batches import ImageBatches
from porism.tasks.images.data.class_folders import read_folder
from porism.tasks.images.data.embedded import digits
from porism.tasks.images.data.idx import holds_idx, read_idx_folder
from porism.tasks.images.data.image_set import SPLITS, ImageSet, Labelled, Shape
from porism.tasks.images.data.memory import own_images
from porism.tasks.images.data.npz import read_npz
from porism.tasks.images.data.public import read_named

__all__ = ["SPLITS", "ImageBatches", "ImageSet", "Labelled", "Shape", "load_images", "own_images"]


def load_images(source: str | None = None, *, size: int | None = None, skip_broken: bool = False) -> ImageSet:
    """The images of a name (`digits`, `mnist`, `fashion-mnist`, `octmnist`) or of a path; None is the digits.

    A path is an .npz as MedMNIST has, a folder of idx files, or a folder of pictures with a subfolder a class, which
    may be resized to `size` x `size`; `skip_broken` leaves out what cannot be read there.
    """
    source = "digits" if source is None else source
    path = Path(source).expanduser()
    of_pictures = source not in CATALOGUE and path.is_dir() and not holds_idx(path)
    if size is not None and not of_pictures:
        raise RecipeError(f"image_size={size} is for a folder of pictures, and {source} is none. Leave it out.")
    if source == "digits":
        return digits()
    if source in PUBLIC:
        return read_named(source)
    if of_pictures:
        return read_folder(path, size, skip_broken)
    if path.is_dir():
        return read_idx_folder(path, path.name)
    if path.suffix == ".npz" and path.exists():
        return read_npz(path, path.stem)
    if path.exists():
        raise DataError(
            f"{path}: a single file, expected an .npz as MedMNIST has, a folder of idx files, or a folder of pictures "
            "with a subfolder a class."
        )
    raise DataError(
        f"{source}: no such file or folder, and no images of that name. {nearest(source.lower(), list(CATALOGUE))}"
    )
