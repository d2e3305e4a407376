"""Predictions for a user's picture, and the notes on how it was converted."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from porism.errors import DataError, RecipeError
from porism.tasks.images.data import Shape
from porism.tasks.images.data.image_files import fitting_picture
from porism.tasks.images.task import Images

SEVEN = str(Path(__file__).parent / "seven.pgm")
Make = Callable[[str], Images]


def test_the_chances_of_all_classes(digits_task: Make) -> None:
    task = digits_task("pooled")
    model = task.build().eval()
    (answer,) = task.predict(model, [SEVEN], {})
    probs = answer.details["probabilities"]
    assert answer.details["chances"] == probs
    assert list(probs) == list(task.classes)
    assert sum(probs.values()) == pytest.approx(1)
    best = max(probs, key=probs.__getitem__)
    assert answer.output.startswith(f"{best} ({probs[best]:.3f}), ")
    assert answer.notes == ()


def test_a_picture_is_read_as_the_training_images_are(digits_task: Make, tmp_path: Path) -> None:
    task = digits_task("pooled")
    image = task.images.splits["test"].images[0]
    Image.fromarray(image[0].numpy()).save(tmp_path / "digit.png")
    assert torch.equal(fitting_picture(tmp_path / "digit.png", task.shape).pixels, image)


def test_what_is_changed_is_said(tmp_path: Path) -> None:
    Image.new("RGB", (20, 30), (200, 200, 200)).save(tmp_path / "large.png")
    pixels, notes = fitting_picture(tmp_path / "large.png", Shape(1, 8, 9))
    assert notes == ("read as grey", "resized from 30 x 20 to 8 x 9")
    assert pixels.shape == (1, 8, 9)
    assert (pixels == 200).all()
    Image.new("L", (9, 8), 7).save(tmp_path / "grey.png")
    pixels, notes = fitting_picture(tmp_path / "grey.png", Shape(3, 8, 9))
    assert notes == ("grey, read as colour",)
    assert pixels.shape == (3, 8, 9)


@pytest.mark.parametrize(
    ("picture", "value"),
    [
        (Image.new("RGBA", (4, 4), (0, 0, 0, 0)), 255),
        (Image.new("1", (4, 4), 1), 255),
        (Image.new("P", (4, 4), 0), 0),
        (Image.fromarray(np.full((4, 4), 65535 // 2, np.uint16)), 127),
    ],
    ids=["transparent", "black and white", "palette", "16 bits"],
)
def test_pictures_of_every_kind(picture: Image.Image, value: int, tmp_path: Path) -> None:
    picture.save(tmp_path / "odd.png")
    assert (fitting_picture(tmp_path / "odd.png", Shape(1, 4, 4)).pixels == value).all()


def test_a_file_that_is_no_picture(digits_task: Make, tmp_path: Path) -> None:
    task = digits_task("pooled")
    model = task.build().eval()
    (tmp_path / "notes.txt").write_text("hello")
    for name, message in (("nowhere.png", "no such file"), ("notes.txt", "not a picture"), ("", "a folder")):
        path = tmp_path / name
        with pytest.raises(DataError, match=f"{path}: {message}"):
            task.predict(model, [str(path)], {})


def test_a_completed_picture_is_written_when_asked(digits_task: Make, tmp_path: Path) -> None:
    task = digits_task("complete")
    torch.manual_seed(1)
    model = task.build().eval()
    (prediction,) = task.predict(model, [SEVEN], {})
    assert prediction.output.endswith(" bits per dimension")
    assert "--picture FILE.png" in prediction.notes[-1]
    out = tmp_path / "made.png"
    (made,) = task.predict(model, [SEVEN], {"out": str(out), "rows": 3})
    assert made.notes[-1] == f"completed from its first 3 rows: {out}"
    pixels = np.asarray(Image.open(out))
    given = np.asarray(Image.open(SEVEN)).astype(int) * 16 // 256 * 17
    assert np.array_equal(pixels[:3], given[:3])


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        ("pooled", {"rows": 3}, "classifying an image has no option 'rows'. It takes none."),
        ("complete", {"row": 3}, "completing an image has no option 'row'. Did you mean rows?"),
        ("complete", {"rows": "x"}, "rows takes a whole number, got 'x'"),
        ("complete", {"seed": -1}, "--seed takes a whole number from 0 to 4294967295, got -1."),
        ("complete", {"rows": 9}, "rows is 9, expected 0 to 8"),
    ],
)
def test_options_that_there_are_not(digits_task: Make, recipe: str, options: dict[str, int], message: str) -> None:
    task = digits_task(recipe)
    with pytest.raises(RecipeError) as caught:
        task.predict(task.build().eval(), [SEVEN], options)
    assert message in str(caught.value)


def test_a_picture_that_cannot_be_written(digits_task: Make, tmp_path: Path) -> None:
    task = digits_task("complete")
    model = task.build().eval()
    with pytest.raises(DataError, match="made.xyz: cannot be written"):
        task.predict(model, [SEVEN], {"out": str(tmp_path / "made.xyz"), "rows": 7})
    with pytest.raises(DataError, match="one file is written, and 2 pictures came"):
        task.predict(model, [SEVEN, SEVEN], {"out": "made.png"})


def test_arrays_tensors_and_images_of_pillow_are_answered_as_their_files(digits_task: Make, tmp_path: Path) -> None:
    task = digits_task("pooled")
    model = task.build().eval()
    images = task.images.splits["test"].images[:3]  # N 1 Y X
    files = [str(tmp_path / f"{index}.png") for index in range(3)]
    for file, image in zip(files, images, strict=True):
        Image.fromarray(image[0].numpy()).save(file)
    expected = [answer.details for answer in task.predict(model, files, {})]
    for given in (
        images,
        images.numpy(),
        images[:, 0],
        [image[0] for image in images],
        [Image.open(file) for file in files],
        images.double() / 255,
        [files[0], images[1], Image.fromarray(images[2, 0].numpy())],
        images.permute(0, 2, 3, 1),
    ):
        assert [answer.details for answer in task.predict(model, given, {})] == expected
    assert task.predict(model, images[0, 0], {})[0].details == expected[0]
    assert task.predict(model, Image.fromarray(images[0, 0].numpy()), {})[0].input == "image 0"


def test_an_array_of_another_size_is_resized_with_a_note_and_what_is_no_picture_refused(digits_task: Make) -> None:
    task = digits_task("pooled")
    model = task.build().eval()
    (answer,) = task.predict(model, [np.zeros((30, 20, 3), np.uint8)], {})
    assert answer.notes == ("read as grey", "resized from 30 x 20 to 8 x 8")
    nan = np.full((8, 8), 0.5, np.float32)
    nan[2, 5] = np.nan
    for wrong, message in (
        (nan, r"image 0: the pixel at \[0, 2, 5\] is nan, expected finite numbers"),
        ([np.zeros((3, 9, 3))], r"which are its channels is not clear"),
        ([np.zeros(5)], r"image 0 is an array of \(5,\)"),
        (np.zeros(5), r"an array of \(5,\), expected pictures of"),
        (5, "a int is no picture"),
    ):
        with pytest.raises(DataError, match=message):
            task.predict(model, wrong, {})
