"""Majority class, nearest mean and logistic regression on images, where the right answer can be seen."""

import numpy as np
import pytest
import torch

from porism.tasks.blocks import logistic
from porism.tasks.images import baselines
from porism.tasks.images.baselines import baseline_metrics, baseline_notes, hog, pixels
from porism.tasks.images.data.embedded import digits
from porism.tasks.images.data.image_set import ImageSet, Labelled


def stripes(count: int, seed: int, classes: int = 2) -> Labelled:
    """Upright stripes (0) and level ones (1) at random offsets: their means are alike, their gradients are not."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=generator)
    offsets = torch.randint(4, (count,), generator=generator)
    place = torch.arange(8)
    wave = ((place + offsets[:, None]) // 2 % 2 * 200).to(torch.uint8)  # N 8
    upright = wave[:, None, None, :].expand(-1, 1, 8, -1)
    images = torch.where((labels == 0)[:, None, None, None], upright, upright.mT)
    return Labelled(images.contiguous(), labels)


@pytest.fixture(scope="module")
def striped() -> ImageSet:
    splits = {"train": stripes(60, 1), "valid": stripes(30, 2), "test": stripes(40, 3)}
    return ImageSet("stripes", ("upright", "level"), splits)


def test_gradients_tell_what_mean_pixels_cannot(striped: ImageSet) -> None:
    found = baseline_metrics(striped)
    assert found["logistic regression on HOG"]["test"]["accuracy"] == 1.0
    assert found["nearest mean"]["test"]["accuracy"] < 0.9
    most = striped.splits["train"].labels.bincount().argmax()
    expected = float((striped.splits["test"].labels == most).double().mean())
    assert found["majority class"]["test"]["accuracy"] == pytest.approx(expected)
    assert set(found["logistic regression on pixels"]) == {"valid", "test"}
    assert baseline_notes(striped) == []


def test_the_nearest_mean_of_the_digits_image_by_image() -> None:
    images = digits()
    (train, labels), (test, truth) = images.splits["train"], images.splits["test"]
    means = np.stack([pixels(train)[labels.numpy() == label].mean(0) for label in range(10)])
    right = [
        int(((image - means) ** 2).sum(1).argmin()) == label for image, label in zip(pixels(test), truth, strict=True)
    ]
    assert baseline_metrics(images)["nearest mean"]["test"]["accuracy"] == pytest.approx(np.mean(right))


def test_a_direction_of_the_gradient_has_its_own_bin() -> None:
    upright, level = (hog(stripes(1, seed).images) for seed in (0, 0))
    assert np.array_equal(upright, level)
    ramp = torch.arange(0, 160, 20, dtype=torch.uint8).expand(1, 1, 8, 8)
    across = hog(ramp.contiguous()).reshape(-1, baselines.BINS, 4).sum((0, 2))
    down = hog(ramp.mT.contiguous()).reshape(-1, baselines.BINS, 4).sum((0, 2))
    assert across.argmax() == 0
    assert np.flatnonzero(down > 1e-6).tolist() == [4, 5]  # 90 degrees lie between them


def test_labels_of_test_change_nothing_that_is_fitted(striped: ImageSet) -> None:
    test = striped.splits["test"]
    turned = ImageSet("turned", striped.classes, {**striped.splits, "test": Labelled(test.images, 1 - test.labels)})
    before, after = baseline_metrics(striped), baseline_metrics(turned)
    for name, found in before.items():
        assert after[name]["valid"] == found["valid"]
        assert after[name]["test"]["accuracy"] == pytest.approx(1 - found["test"]["accuracy"])


def test_a_part_of_many_images_is_fitted_on_and_told(striped: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_NUMBERS", 64 * 20)
    assert baseline_notes(striped) == [
        "Logistic regression on pixels is fitted on 20 of 60 images, drawn at random.",
        "Logistic regression on HOG is fitted on 3 of 60 images, drawn at random.",
    ]


def test_without_scikit_learn_the_others_are_left_and_a_line_says_so(
    striped: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logistic, "find_spec", lambda name: None)
    assert set(baseline_metrics(striped)) == {"majority class", "nearest mean"}
    (line,) = baseline_notes(striped)
    assert line.startswith("Without logistic regression on pixels and HOG: scikit-learn is not installed")


def test_a_class_that_train_has_not_is_never_named_and_has_a_finite_loss() -> None:
    splits = {"train": stripes(60, 1), "valid": stripes(30, 2), "test": stripes(40, 3, classes=3)}
    for name, found in baseline_metrics(ImageSet("stripes", ("a", "b", "c"), splits)).items():
        assert found["test"]["accuracy"] < 1, name
        assert np.isfinite(list(found["test"].values())).all(), name


def test_one_class_alone_has_no_regression() -> None:
    only = Labelled(stripes(10, 1).images, torch.zeros(10, dtype=torch.int64))
    found = baseline_metrics(ImageSet("one", ("a",), dict.fromkeys(("train", "valid", "test"), only)))
    assert {name: scores["test"]["accuracy"] for name, scores in found.items()} == {
        "majority class": 1.0,
        "nearest mean": 1.0,
    }
