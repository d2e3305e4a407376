"""Where images come from: splits, shapes and classes as the loaders promise."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.tasks.images.conftest import Arrays, idx_bytes

from porism.errors import DataError, RecipeError
from porism.tasks.images.catalogue import CATALOGUE
from porism.tasks.images.data import ImageSet, Labelled, Shape, load_images, own_images
from porism.tasks.images.data.batches import ImageBatches
from porism.tasks.images.data.embedded import digits


def test_the_digits_are_all_there_once() -> None:
    found = digits()
    assert found.shape == Shape(1, 8, 8)
    assert found.classes == tuple("0123456789")
    images = torch.cat([split.images for split in found.splits.values()])
    assert len(images) == 1797
    # The sum of all grey values as scikit-learn publishes them; 16 is given as 255, so that 1 stands for 16.
    assert int((images.long() + 1).div(16, rounding_mode="floor").sum()) == 561_718
    assert len({image.numpy().tobytes() for image in images}) == 1797


def test_the_digits_are_split_by_class() -> None:
    counts = {split: torch.bincount(part.labels) for split, part in digits().splits.items()}
    whole = torch.stack(list(counts.values())).sum(0)
    for split, share in (("train", 0.6), ("valid", 0.2), ("test", 0.2)):
        assert (counts[split] - share * whole).abs().max() <= 1


def test_a_report_of_the_digits_says_how_they_were_split_and_by_whom_they_were_written() -> None:
    told = digits().told()
    assert (
        told["split"] == "of each class a fifth is test and a fifth valid, drawn once; the same people wrote all three"
    )


def test_idx_files_in_any_spelling(idx_folder: Path) -> None:
    found = load_images(str(idx_folder))
    assert found.shape == Shape(1, 6, 5)
    assert found.classes == ("0", "1", "2")
    assert {split: len(part.labels) for split, part in found.splits.items()} == {"train": 36, "valid": 4, "test": 8}
    # The last tenth of train is valid, or the last 5,000 of more than 50,000.
    assert found.splits["valid"].labels.tolist() == [36 % 3, 37 % 3, 38 % 3, 39 % 3]
    assert found.facts["split"] == "valid is the last 4 images of train"


def test_idx_files_in_the_order_of_classes_have_all_of_them_in_valid(idx_folder: Path) -> None:
    (idx_folder / "train-labels-idx1-ubyte").write_bytes(idx_bytes((np.arange(40) // 14).astype(np.uint8)))
    found = load_images(str(idx_folder))
    assert found.splits["valid"].labels.tolist() == [0, 1, 2]
    assert found.splits["train"].labels.unique().tolist() == [0, 1, 2]
    assert "the last tenth of each class" in found.facts["split"]


@pytest.mark.parametrize(
    "labels",
    [
        # The last tenth of train is of a class that no other image has, or of all classes but the first.
        [*(n * 7 % 3 for n in range(180)), *[3] * 20],
        [*(n * 7 % 3 for n in range(360)), *(1 + n % 2 for n in range(40))],
        # A tenth of a class rounds to none.
        [n // 3 for n in range(30)],
    ],
)
def test_idx_files_whose_last_images_lack_a_class_have_it_in_train_and_valid(
    idx_folder: Path, labels: list[int]
) -> None:
    images = np.arange(len(labels) * 30).reshape(-1, 6, 5).astype(np.uint8)
    (idx_folder / "train-images-idx3-ubyte").write_bytes(idx_bytes(images))
    (idx_folder / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(images))
    for split in ("train", "t10k"):
        (idx_folder / f"{split}-labels-idx1-ubyte").write_bytes(idx_bytes(np.array(labels, dtype=np.uint8)))
    found = load_images(str(idx_folder))
    assert all(part.labels.unique().tolist() == sorted(set(labels)) for part in found.splits.values())
    assert "the last tenth of each class" in found.facts["split"]


def test_classes_that_a_split_has_no_image_of_are_told(class_folder: Path) -> None:
    """Of four pictures none is held out."""
    (class_folder / "owl").mkdir()
    for number in range(4):
        picture = (class_folder / "cat" / f"{number:02d}.png").read_bytes()
        (class_folder / "owl" / f"{number:02d}.png").write_bytes(picture)
    found = load_images(str(class_folder))
    assert found.facts["missing classes"] == "valid has no owl image; test has no owl image"


def test_an_npz_with_its_own_splits(arrays: Arrays, write_npz: Callable[[Arrays], Path]) -> None:
    found = load_images(str(write_npz(arrays)))
    assert found.name == "scans"
    assert [len(part.labels) for part in found.splits.values()] == [30, 9, 12]
    assert np.array_equal(found.splits["valid"].images[:, 0].numpy(), arrays["val_images"])


def test_an_npz_in_colour(arrays: Arrays, write_npz: Callable[[Arrays], Path]) -> None:
    grey = {name: x for name, x in arrays.items() if name.endswith("images")}
    found = load_images(str(write_npz(arrays | {name: np.stack([x, x, 255 - x], 3) for name, x in grey.items()})))
    assert found.shape == Shape(3, 7, 6)
    assert torch.equal(found.splits["test"].images[:, 2], 255 - found.splits["test"].images[:, 0])


def test_a_folder_is_split_by_class_and_always_in_the_same_way(class_folder: Path) -> None:
    found = load_images(str(class_folder))
    assert found.classes == ("cat", "dog")
    assert found.shape == Shape(1, 9, 8)
    assert {split: part.labels.tolist() for split, part in found.splits.items()} == {
        "train": [0] * 16 + [1] * 16,
        "valid": [0] * 2 + [1] * 2,
        "test": [0] * 2 + [1] * 2,
    }
    assert found.fingerprint() == load_images(str(class_folder)).fingerprint()


def test_copies_of_a_picture_stay_in_one_split(class_folder: Path) -> None:
    """Each of ten pictures of a class under four names: nothing that is tested was learned."""
    for animal in ("cat", "dog"):
        for number in range(10):
            picture = (class_folder / animal / f"{number:02d}.png").read_bytes()
            (class_folder / animal / f"{number + 10:02d}.png").write_bytes(picture)
            (class_folder / animal / f"copy-{number}.png").write_bytes(picture)
            (class_folder / animal / f"link-{number}.png").hardlink_to(class_folder / animal / f"copy-{number}.png")
    found = load_images(str(class_folder))
    pictures = {split: {image.numpy().tobytes() for image in part.images} for split, part in found.splits.items()}
    assert {split: len(part.labels) for split, part in found.splits.items()} == {"train": 64, "valid": 8, "test": 8}
    assert {split: len(distinct) for split, distinct in pictures.items()} == {"train": 16, "valid": 2, "test": 2}
    assert len(set.union(*pictures.values())) == 20
    assert "files of the same bytes together" in found.facts["split"]


def test_a_folder_that_is_split_already(class_folder: Path, tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        for name, count in (("cat", 3), ("dog", 2)):
            place = tmp_path / "split" / split / name
            place.mkdir(parents=True)
            for number in range(count):
                source = class_folder / name / f"{number:02d}.png"
                (place / source.name).write_bytes(source.read_bytes())
    found = load_images(str(tmp_path / "split"))
    assert [part.labels.tolist() for part in found.splits.values()] == [[0, 0, 0, 1, 1]] * 3
    assert found.told()["split"] == "as given"


def test_how_images_in_memory_were_split_is_told() -> None:
    images, labels = torch.zeros(40, 6, 5, dtype=torch.uint8), torch.arange(40) % 2
    assert own_images((images, labels)).told()["split"] == "15 % valid, 15 % test held out at random in each class"
    test = (images[:4], labels[:4])
    held = own_images({"train": (images, labels), "test": test}).told()["split"]
    assert held == "15 % valid held out at random in each class"
    assert own_images({"train": (images, labels), "valid": test, "test": test}).told()["split"] == "as given"


def test_pictures_are_resized_only_when_asked(class_folder: Path) -> None:
    from PIL import Image

    Image.new("RGB", (30, 20), "red").save(class_folder / "cat" / "large.png")
    with pytest.raises(DataError, match=r"(20 x 30, .* are 9 x 8|9 x 8, .* are 20 x 30).*--set image_size="):
        load_images(str(class_folder))
    found = load_images(str(class_folder), size=5)
    # One picture in colour makes all of them so.
    assert found.shape == Shape(3, 5, 5)


def test_size_is_for_folders_of_pictures(idx_folder: Path) -> None:
    for source in (None, str(idx_folder)):
        with pytest.raises(RecipeError, match="image_size=5 is for a folder of pictures"):
            load_images(source, size=5)


def test_a_test_split_with_the_shares_of_train() -> None:
    """OCTMNIST's counts give the 529 images that were published on."""

    def of(counts: list[int]) -> Labelled:
        labels = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
        return Labelled(order.to(torch.uint8)[:, None, None, None], labels[order])

    splits = {"train": of([33484, 10213, 7754, 46026]), "valid": of([1, 1, 1, 1]), "test": of([250, 250, 250, 250])}
    test = splits["test"]
    part = ImageSet("octmnist", tuple("abcd"), splits).with_test_as_train()
    assert part.told()["test"] == "529 of 1,000 images: the first of each class, in the shares of train"
    chosen = part.splits["test"]
    assert torch.bincount(chosen.labels).tolist() == [182, 55, 42, 250]
    for label, count in enumerate((182, 55, 42, 250)):
        assert torch.equal(chosen.images[chosen.labels == label], test.images[test.labels == label][:count])


def test_batches_hold_every_image_once_in_an_order_of_their_own() -> None:
    images = Labelled(torch.arange(23, dtype=torch.uint8)[:, None, None, None], torch.arange(23))
    first, second = (ImageBatches(images, 5, seed=1, epoch=epoch) for epoch in (1, 2))
    assert [len(labels) for _, labels in first] == [5, 5, 5, 5, 3]
    for batches in (first, second):
        assert sorted(int(label) for _, labels in batches for label in labels) == list(range(23))
    assert not torch.equal(first[0][1], second[0][1])
    assert all(torch.equal(pixels.flatten().long(), labels) for pixels, labels in first)


def test_every_public_file_has_an_address_and_a_digest() -> None:
    for data in CATALOGUE.values():
        assert data.about
        assert data.licence
        for file in data.files.values():
            assert file.url.startswith("http")
            assert len(file.sha256) == 64 or len(file.md5) == 32
