"""Small image files that tests write themselves."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from porism.runs.recipe import override
from porism.tasks.images.recipes import RECIPES, ImagesRecipe
from porism.tasks.images.task import Images

Arrays = dict[str, NDArray[np.generic]]


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    """An array as an idx file has it."""
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def idx_folder(tmp_path: Path) -> Path:
    """Forty training images and eight for the test, 6 x 5, three classes; one file of the four compressed."""
    folder = tmp_path / "idx"
    folder.mkdir()
    draw = np.random.default_rng(1)
    for beginning, count in (("train", 40), ("t10k", 8)):
        images = draw.integers(0, 256, (count, 6, 5), dtype=np.uint8)
        labels = (np.arange(count) % 3).astype(np.uint8)
        (folder / f"{beginning}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
        content = idx_bytes(images)
        if beginning == "train":
            (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(content))
        else:
            (folder / "t10k-images.idx3-ubyte").write_bytes(content)
    return folder


@pytest.fixture
def arrays() -> Arrays:
    """What a MedMNIST file holds."""
    draw = np.random.default_rng(1)
    made: Arrays = {}
    for split, count in (("train", 30), ("val", 9), ("test", 12)):
        made[f"{split}_images"] = draw.integers(0, 256, (count, 7, 6), dtype=np.uint8)
        made[f"{split}_labels"] = (np.arange(count) % 3).astype(np.uint8)[:, None]
    return made


@pytest.fixture
def write_npz(tmp_path: Path) -> Callable[[Arrays], Path]:
    def write(arrays: Arrays) -> Path:
        path = tmp_path / "scans.npz"
        np.savez_compressed(path, allow_pickle=True, **arrays)
        return path

    return write


@pytest.fixture
def class_folder(tmp_path: Path) -> Path:
    """Two classes of twenty grey pictures, 9 x 8."""
    from PIL import Image

    draw = np.random.default_rng(1)
    for name in ("cat", "dog"):
        (tmp_path / "animals" / name).mkdir(parents=True)
        for number in range(20):
            pixels = draw.integers(0, 256, (9, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "animals" / name / f"{number:02d}.png")
    return tmp_path / "animals"


@pytest.fixture
def small() -> Callable[[str], ImagesRecipe]:
    """A recipe made small."""
    return lambda name: override(RECIPES[name], ["hidden_size=8", "batch_size=16", "epochs=1", "precision=fp32"])


@pytest.fixture
def digits_task(small: Callable[[str], ImagesRecipe]) -> Callable[[str], Images]:
    return lambda name: Images.load(small(name), None)
