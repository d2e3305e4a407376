"""The task as a whole: what is learned from, what counts, and what there is to see."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.tasks.images.conftest import Arrays
from torch import nn

from porism.errors import RecipeError
from porism.runs.exhibits import Matrix, Pictures, Table
from porism.runs.recipe import override
from porism.runs.record import read_run
from porism.tasks.images.data.augment import flipped, rotated, shifted
from porism.tasks.images.data.image_set import ImageSet, Labelled
from porism.tasks.images.recipes import RECIPES
from porism.tasks.images.task import Images
from porism.training.loop import answering
from porism.training.request import TrainingRequest
from porism.training.session import begin, complete

Make = Callable[[str], Images]


def test_a_shift_moves_whole_images_and_never_too_far() -> None:
    torch.manual_seed(1)
    image = torch.zeros(64, 1, 7, 9)
    image[:, :, 3, 4] = 1
    positions = shifted(image, 2).nonzero()[:, 2:]
    assert len(positions) == 64
    moves = {tuple(position) for position in (positions - torch.tensor([3, 4])).tolist()}
    assert {down for down, _ in moves} == {right for _, right in moves} == {-2, -1, 0, 1, 2}


def test_a_flip_mirrors_some_images_left_to_right() -> None:
    torch.manual_seed(1)
    image = torch.arange(12.0).view(1, 1, 3, 4).expand(40, -1, -1, -1)
    mirrored = [torch.equal(one, image[0].flip(2)) for one in flipped(image)]
    as_it_was = [torch.equal(one, image[0]) for one in flipped(image)]
    assert 0 < sum(mirrored) < 40
    assert 0 < sum(as_it_was) < 40


def test_a_turn_is_about_the_middle_and_a_zoom_changes_the_size() -> None:
    torch.manual_seed(1)
    image = torch.zeros(64, 1, 9, 9)
    image[:, :, 3:6, 3:6] = 1
    assert torch.allclose(rotated(image, 0, 0), image, atol=1e-5)
    about_the_middle = rotated(image, 45, 0)
    assert torch.allclose(about_the_middle[:, :, 4, 4], image[:, :, 4, 4], atol=1e-5)
    assert (about_the_middle - image).abs().flatten(1).max(1).values.max() > 0.2
    areas = rotated(image, 0, 0.5).sum((1, 2, 3))
    # What is found at half the distance is drawn twice as large, and the other way round.
    assert areas.max() > 15
    assert areas.min() < 6


def test_the_divisor_is_what_a_byte_is_divided_by(digits_task: Make) -> None:
    task = digits_task("pooled")
    seen: list[torch.Tensor] = []

    class Watch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x)
            return torch.zeros(len(x), 10)

    batch = task.batches(1, 1)[0]
    for divisor in (255, 256):
        task.recipe = override(task.recipe, [f"divisor={divisor}"])
        task.loss(Watch(), batch, {})
        assert torch.equal(seen[-1], batch[0].float() / divisor)


@pytest.mark.parametrize(("best", "counts"), [("true", 1), ("false", 3)])
def test_the_epoch_that_counts(best: str, counts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On valid every epoch is worse than the one before."""
    accuracies = iter([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    monkeypatch.setattr(Images, "evaluate", lambda self, model, split: {"accuracy": next(accuracies)})
    recipe = override(RECIPES["pooled"], ["epochs=3", "batch_size=500", f"restore_best_weights={best}", "patience=9"])
    training = begin(TrainingRequest(Images, recipe, device="cpu"), tmp_path / "run")
    assert complete(training)["best_epoch"] == counts


def test_the_report_has_the_confusion_and_the_worst_mistakes(digits_task: Make) -> None:
    task = digits_task("strided")
    torch.manual_seed(1)
    model = task.build()
    with answering(model):
        matrix, table, wrong = task.exhibits(model)
        right = task.outcomes(model, "test")
        accuracy = task.evaluate(model, "test")["accuracy"]
    assert isinstance(matrix, Matrix)
    assert isinstance(table, Table)
    assert isinstance(wrong, Pictures)
    assert [sum(row) for row in matrix.counts] == torch.bincount(task.images.splits["test"].labels).tolist()
    assert sum(matrix.counts[label][label] for label in range(10)) == sum(right)
    assert accuracy == pytest.approx(sum(right) / len(right))
    assert [row[0] for row in table.rows] == list(task.classes)
    assert len(wrong.pictures) == 16
    certainties = [float(one.caption.rpartition("(")[2].rstrip(")")) for one in wrong.pictures]
    assert certainties == sorted(certainties, reverse=True)
    taken = [one.caption.rpartition(" (")[0].split(", taken for ") for one in wrong.pictures]
    assert all(is_class != said_class for is_class, said_class in taken)


def test_completed_images_are_shown_beside_what_they_were(digits_task: Make) -> None:
    task = digits_task("complete")
    model = task.build()
    with answering(model):
        table, made = task.exhibits(model)
        measured = task.evaluate(model, "test")
    assert isinstance(table, Table)
    assert isinstance(made, Pictures)
    assert [row[1] for row in table.rows] == pytest.approx(list(measured.values()))
    assert len(made.pictures) == 16
    assert (made.pictures[0].width, made.pictures[0].height) == (3 * 8 + 2, 8)
    assert not task.outcomes(model, "test")


def test_a_wish_that_makes_no_sense() -> None:
    with pytest.raises(
        RecipeError, match="label_smoothing, translate, degrees, scale and horizontal_flip are for classes"
    ):
        override(RECIPES["complete"], ["translate=1"])
    with pytest.raises(RecipeError, match="divisor=7 cannot be"):
        override(RECIPES["pooled"], ["divisor=7"])


def test_published_numbers_stand_beside_the_data_they_were_measured_on(digits_task: Make) -> None:
    task = digits_task("pooled")
    assert task.published() == {}
    task.recipe = override(task.recipe, ["test_subset=as-train"])
    assert task.published() == {}
    sizes = {"train": 97_477, "valid": 10_832, "test": 529}
    splits = {split: Labelled(torch.empty(size, 0), torch.zeros(size)) for split, size in sizes.items()}
    task._images = ImageSet("scans", task.classes, splits)
    assert task.published()["test"]["accuracy"] == pytest.approx(438 / 529, abs=1e-4)


def test_the_published_protocol_runs_on_any_file_of_medmnist(
    write_npz: Callable[[Arrays], Path], tmp_path: Path
) -> None:
    """Of OCTMNIST's shape and classes, with the first test images of each class in the shares of train."""
    draw = np.random.default_rng(1)
    arrays: Arrays = {}
    for split, counts in (("train", [8, 4, 2, 10]), ("val", [2, 2, 2, 2]), ("test", [5, 5, 5, 5])):
        labels = np.repeat(np.arange(4), counts)[:, None]
        pixels = draw.integers(0, 256, (len(labels), 28, 28))
        arrays |= {f"{split}_images": pixels.astype(np.uint8), f"{split}_labels": labels.astype(np.uint8)}
    recipe = override(RECIPES["pooled"], ["test_subset=as-train", "divisor=256", "epochs=1"])
    result = complete(
        begin(TrainingRequest(Images, recipe, source=str(write_npz(arrays)), device="cpu"), tmp_path / "run")
    )
    assert result["parameters"] == 224_892
    assert result["published"] == {}
    (matrix, *_) = read_run(tmp_path / "run").exhibits
    assert isinstance(matrix, Matrix)
    assert [sum(row) for row in matrix.counts] == [4, 2, 1, 5]
