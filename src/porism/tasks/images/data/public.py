"""Public image sets by name, fetched on demand."""

from porism.tasks.blocks.download import fetch
from porism.tasks.images.catalogue import PUBLIC
from porism.tasks.images.data.idx import read_idx_files
from porism.tasks.images.data.image_set import ImageSet
from porism.tasks.images.data.npz import read_npz

CLASSES = {
    "mnist": tuple("0123456789"),
    "fashion-mnist": (
        *("T-shirt", "trousers", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
    "octmnist": ("choroidal neovascularization", "diabetic macular edema", "drusen", "normal"),
}


def read_named(name: str) -> ImageSet:
    """A public set from the data folder, fetched first where it is not there."""
    fetched = {part: fetch(file) for part, file in PUBLIC[name].files.items()}
    if "all" in fetched:
        return read_npz(fetched["all"], name, CLASSES[name])
    return read_idx_files(fetched, name, CLASSES[name])
