"""Images that are not what they should be: one clear line with the file's name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.tasks.images.conftest import Arrays, idx_bytes

from porism.errors import DataError
from porism.tasks.images.catalogue import PUBLIC
from porism.tasks.images.data import load_images

Spoil = Callable[[Arrays], Arrays]

SPOILED: dict[str, tuple[Spoil, str]] = {
    "lost": (lambda a: {k: v for k, v in a.items() if k != "val_labels"}, "no array val_labels; it holds train_images"),
    "floats": (lambda a: a | {"train_images": a["train_images"].astype(np.float32)}, "train: pixels are float32"),
    "flat": (lambda a: a | {"train_images": a["train_images"].reshape(30, -1)}, "train: images are (30, 42), expected"),
    "channels": (lambda a: a | {"test_images": np.zeros((12, 7, 6, 2), np.uint8)}, "test: images are (12, 7, 6, 2)"),
    "none": (lambda a: a | {"val_images": a["val_images"][:0], "val_labels": a["val_labels"][:0]}, "val: images are"),
    "fewer labels": (lambda a: a | {"test_labels": a["test_labels"][:5]}, "test: 12 images, but 5 labels"),
    "two labels": (lambda a: a | {"test_labels": np.zeros((12, 14), np.uint8)}, "test: labels are (12, 14)"),
    "negative": (
        lambda a: a | {"val_labels": np.full(9, -1)},
        "val: label -1 of example 0, expected a class from 0 on",
    ),
    "fractions": (lambda a: a | {"val_labels": np.full(9, 0.5)}, "val: labels are float64, expected whole numbers"),
    "other sizes": (lambda a: a | {"val_images": np.zeros((9, 5, 6), np.uint8)}, "images of different shapes"),
    "pickled": (lambda a: a | {"val_labels": np.array([{}] * 9, dtype=object)}, "not a whole .npz of plain arrays"),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_an_npz_with_something_wrong(arrays: Arrays, write_npz: Callable[[Arrays], Path], spoiled: str) -> None:
    spoil, message = SPOILED[spoiled]
    path = write_npz(spoil(arrays))
    with pytest.raises(DataError) as caught:
        load_images(str(path))
    assert message in str(caught.value)
    assert "scans" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_npz_that_was_cut_off(arrays: Arrays, write_npz: Callable[[Arrays], Path], tmp_path: Path) -> None:
    content = write_npz(arrays).read_bytes()
    for length in (0, 3, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.npz").write_bytes(content[:length])
        with pytest.raises(DataError, match="cut.npz: not a whole .npz"):
            load_images(str(tmp_path / "cut.npz"))


def test_an_npz_with_a_wrong_byte_within(arrays: Arrays, write_npz: Callable[[Arrays], Path]) -> None:
    path = write_npz(arrays)
    content = bytearray(path.read_bytes())
    content[200] ^= 255
    path.write_bytes(content)
    with pytest.raises(DataError, match="scans.npz: not a whole .npz"):
        load_images(str(path))


def test_one_array_is_no_npz(tmp_path: Path) -> None:
    path = tmp_path / "one.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DataError, match=r"one.npz: not a whole .npz of plain arrays \(a single array, an .npy file\)"):
        load_images(str(path))


@pytest.mark.parametrize("cut", [1, 30])
def test_idx_files_that_are_cut_off(idx_folder: Path, cut: int) -> None:
    file = idx_folder / "t10k-images.idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(DataError, match=rf"t10k-images.idx3-ubyte: {240 - cut} bytes after the header, expected 240"):
        load_images(str(idx_folder))


def test_idx_files_that_are_not(idx_folder: Path) -> None:
    labels = idx_folder / "t10k-labels-idx1-ubyte"
    for content, message in (
        (b"", "begins with nothing, expected 00 00 08 01"),
        (b"PNG!" * 9, "begins with 50 4e 47 21, expected 00 00 08 01"),
        (idx_bytes(np.zeros((4, 2), np.uint8)), "begins with 00 00 08 02, expected 00 00 08 01"),
        (idx_bytes(np.zeros(0, np.uint8)), "its header says (0,), so it is empty"),
        (idx_bytes(np.zeros(7, np.uint8)), "8 images, but 7 labels"),
    ):
        labels.write_bytes(content)
        with pytest.raises(DataError) as caught:
            load_images(str(idx_folder))
        assert str(caught.value).startswith(f"{labels}: {message}")


def test_one_of_four_idx_files_is_missing(idx_folder: Path) -> None:
    (idx_folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="train-labels-idx1-ubyte: no such file, plain or as .gz"):
        load_images(str(idx_folder))


def test_a_compressed_idx_file_that_was_cut_off(idx_folder: Path) -> None:
    file = idx_folder / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match="train-images-idx3-ubyte.gz: not a whole .gz file"):
        load_images(str(idx_folder))


def test_pictures_that_are_not(class_folder: Path) -> None:
    whole = (class_folder / "cat" / "00.png").read_bytes()
    for content, message in (
        (b"", "not a picture"),
        (b"hello", "not a picture"),
        (whole[: len(whole) // 2], "not a whole picture"),
    ):
        (class_folder / "cat" / "07.png").write_bytes(content)
        with pytest.raises(DataError, match=f"07.png: {message}"):
            load_images(str(class_folder))


def test_all_files_that_are_no_pictures_are_named_at_once_and_left_out_on_request(class_folder: Path) -> None:
    whole = load_images(str(class_folder))
    (class_folder / "cat" / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match="notes.txt: not a picture.* Or leave such files out with .*skip_broken=true"):
        load_images(str(class_folder))
    (class_folder / "cat" / "aa.png").write_bytes(b"PNG")
    with pytest.raises(DataError, match="2 files of .* cannot be read: cat/aa.png, cat/notes.txt. Or leave"):
        load_images(str(class_folder))
    skipped = load_images(str(class_folder), skip_broken=True)
    assert skipped.facts["left out"] == "2 files that cannot be read: cat/aa.png, cat/notes.txt"
    assert skipped.fingerprint() == whole.fingerprint()
    assert "left out" not in whole.facts
    for file in (class_folder / "cat").iterdir():
        file.write_bytes(b"")
    with pytest.raises(DataError, match="class cat has no picture that can be read"):
        load_images(str(class_folder), skip_broken=True)


def test_folders_without_what_they_need(class_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: 0 subfolders, expected two or more, a class each"):
        load_images(str(tmp_path / "empty"))
    (class_folder / "horse").mkdir()
    with pytest.raises(DataError, match="horse: no pictures in it"):
        load_images(str(class_folder))
    (class_folder / "horse").rmdir()
    for name in ("cat", "dog"):
        for file in sorted((class_folder / name).iterdir())[5:]:
            file.unlink()
    with pytest.raises(DataError, match="no pictures for valid. Give at least 10 of a class"):
        load_images(str(class_folder))


def test_half_a_split(class_folder: Path) -> None:
    (class_folder / "cat").rename(class_folder / "train")
    with pytest.raises(DataError, match="it holds train, but no folder valid"):
        load_images(str(class_folder))


def test_a_file_that_is_no_image_set(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match="notes.txt: a single file, expected an .npz"):
        load_images(str(tmp_path / "notes.txt"))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_file_that_cannot_be_had_says_where_it_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORISM_DATA", str(tmp_path))
    monkeypatch.setattr("porism.tasks.blocks.download._copy", _without_network)
    file = next(iter(PUBLIC[name].files.values()))
    with pytest.raises(DataError) as caught:
        load_images(name)
    for part in (file.url, str(tmp_path / file.path), file.digest):
        assert part in str(caught.value)


def _without_network(url: str, target: object) -> None:
    raise OSError("no network")
