"""Picture files: a list of formats, no other program, values as they are meant, and damage reported in one line."""

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from porism.errors import DataError
from porism.tasks.images.data import Shape, load_images
from porism.tasks.images.data.image_files import fitting_picture, open_picture, pixels_of

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for Ghostscript on the path, and the file that it leaves when it is started."""
    trace = tmp_path / "started"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gs").write_text(f"#!/bin/sh\necho \"$@\" >> '{trace}'\n")
    (tmp_path / "bin" / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    return trace


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script of a shell")
@pytest.mark.parametrize("name", ["x.png", "x.eps", "x"])
def test_no_picture_starts_another_program(ghostscript: Path, class_folder: Path, name: str) -> None:
    place = class_folder / "cat" / name
    place.write_bytes(POSTSCRIPT)
    for read in (lambda: load_images(str(class_folder)), lambda: fitting_picture(place, Shape(1, 8, 8))):
        with pytest.raises(DataError, match=f"{name}: not a picture that can be read. Give one of PNG, JPEG"):
            read()
    assert not ghostscript.exists()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_common_formats_are_read_whatever_they_are_called(tmp_path: Path, kind: str, mode: str) -> None:
    Image.new(mode, (6, 5), "white").save(tmp_path / "picture.dat", kind)
    assert (pixels_of(open_picture(tmp_path / "picture.dat"), colour=True) == 255).all()


@pytest.mark.parametrize(
    ("array", "pixels"),
    [
        (np.array([[0.0, 0.25], [0.5, 1.0]], np.float32), [[0, 64], [128, 255]]),
        (np.array([[0, 257], [32_896, 65_535]], np.uint16), [[0, 1], [128, 255]]),
        (np.array([[0, 257], [32_896, 65_535]], np.int32), [[0, 1], [128, 255]]),
    ],
    ids=["fractions", "16 bits", "16 of 32 bits"],
)
def test_more_than_a_byte_a_pixel_becomes_a_byte(tmp_path: Path, array: np.ndarray, pixels: list[list[int]]) -> None:
    Image.fromarray(array).save(tmp_path / "scan.tiff")
    opened = open_picture(tmp_path / "scan.tiff")
    assert pixels_of(opened, colour=False).tolist() == pixels
    assert fitting_picture(tmp_path / "scan.tiff", Shape(1, 2, 2)).pixels[0].tolist() == pixels


def test_colours_of_another_space_are_converted(tmp_path: Path) -> None:
    Image.new("LAB", (4, 4), (255, 128, 128)).save(tmp_path / "lab.tiff")
    assert (pixels_of(open_picture(tmp_path / "lab.tiff"), colour=True) >= 250).all()


def test_what_systems_leave_behind_is_no_picture(class_folder: Path) -> None:
    before = load_images(str(class_folder)).fingerprint()
    for name in ("Thumbs.db", "desktop.ini", ".DS_Store"):
        (class_folder / "cat" / name).write_bytes(b"not a picture")
        (class_folder / name).write_bytes(b"nor here")
    (class_folder / "README.md").write_text("cats and dogs")
    assert load_images(str(class_folder)).fingerprint() == before


def test_a_class_that_is_a_link_to_nowhere(class_folder: Path) -> None:
    (class_folder / "horse").symlink_to("gone")
    with pytest.raises(DataError, match="horse: a link that leads nowhere. Take it away."):
        load_images(str(class_folder))


def test_a_picture_that_a_link_puts_into_two_splits(class_folder: Path) -> None:
    for split in ("train", "valid", "test"):
        for animal in ("cat", "dog"):
            (class_folder / split / animal).mkdir(parents=True)
    for animal in ("cat", "dog"):
        for number, split in enumerate(("train", "valid", "test")):
            (class_folder / animal / f"{number:02d}.png").rename(class_folder / split / animal / "a.png")
    assert len(load_images(str(class_folder)).splits["test"].labels) == 2
    (class_folder / "test" / "dog" / "b.png").symlink_to(class_folder / "train" / "dog" / "a.png")
    (class_folder / "test" / "dog" / "c.png").hardlink_to(class_folder / "train" / "cat" / "a.png")
    with pytest.raises(DataError, match="animals: 2 pictures are in train and test, test/dog/b.png for instance"):
        load_images(str(class_folder))


def test_pictures_that_do_not_fit_into_memory(class_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="reading 32 pictures of 10000000 x 10000000 takes 5.96e"):
        load_images(str(class_folder), size=10_000_000)
    monkeypatch.setattr("porism.tasks.blocks.memory.available_bytes", lambda: 32 * 72.0)
    with pytest.raises(
        DataError, match=r"cat: reading 32 pictures of 9 x 8 takes .* Make them smaller with --set image_size"
    ):
        load_images(str(class_folder))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_a_damaged_picture_is_read_or_refused_in_a_line(tmp_path: Path, kind: str) -> None:
    draw = np.random.default_rng(5)
    content = io.BytesIO()
    Image.fromarray(draw.integers(0, 256, (9, 8), dtype=np.uint8)).save(content, kind)
    path, messages = tmp_path / "picture", []
    for _ in range(40):
        damaged = bytearray(content.getvalue())
        for position in draw.integers(0, len(damaged), 3):
            damaged[position] = draw.integers(256)
        path.write_bytes(damaged[: draw.integers(1, len(damaged) + 1)] if draw.random() < 0.3 else damaged)
        try:
            pixels_of(open_picture(path), colour=False)
        except DataError as error:
            messages.append(str(error))
    assert messages
    assert all(message.startswith(str(path)) and "\n" not in message for message in messages)
