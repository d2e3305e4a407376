"""Transcripts by chance, chosen without listening and never by test; and that of the nearest recording of train."""

import numpy as np
import pytest
from numpy.typing import NDArray

from porism.tasks.speech import baselines
from porism.tasks.speech.baselines import (
    FRAMES,
    NEAREST,
    averaged,
    baseline_metrics,
    baseline_notes,
    best_transcript,
    drawn,
    warping_distances,
)

TEXTS = {
    "train": ["go left", "go left", "stop", "go right"],
    "valid": ["go right", "go right", "stop"],
    "test": ["go right", "go down"],
}


def test_the_transcript_is_of_train_and_the_best_on_valid() -> None:
    # `go left` is more frequent; `go right` leaves fewer errors on valid.
    assert best_transcript(TEXTS["train"], TEXTS["valid"]) == "go right"
    found = baseline_metrics(TEXTS)["chance: one transcript"]
    assert found["test"]["exact"] == 0.5
    assert found["test"]["wer"] == pytest.approx(1 / 4)  # one word of four
    assert found["valid"]["exact"] == pytest.approx(2 / 3)
    assert "train" not in found


def test_what_test_says_does_not_matter() -> None:
    other = baseline_metrics({**TEXTS, "test": ["stop", "stop"]})
    assert other["chance: one transcript"]["valid"] == baseline_metrics(TEXTS)["chance: one transcript"]["valid"]


def test_characters_are_drawn_by_their_frequency_and_the_same_again() -> None:
    texts = drawn(["aaab"] * 9, 200)
    assert texts == drawn(["aaab"] * 9, 200)
    assert all(len(text) == 4 for text in texts)
    assert 0.7 < "".join(texts).count("a") / 800 < 0.8
    assert drawn([""], 2) == ["", ""]


def glide(word: int, length: int, bend: float = 1.0) -> NDArray[np.float32]:
    """A made-up recording (X, C) of a word: a path of its own through the features, said evenly or not."""
    at = np.linspace(0, 1, length) ** bend
    return np.stack([np.sin(3 * at + word), np.cos(5 * at * (word + 1)), at * word], 1).astype(np.float32)


def test_the_nearest_recording_is_that_of_the_same_words_however_fast() -> None:
    texts = {"train": ["go left", "go right", "stop"], "valid": ["stop"], "test": ["go right", "go left", "stop"]}
    features = {
        "train": [glide(0, 90), glide(1, 90), glide(2, 90)],
        "valid": [glide(2, 140, bend=1.3)],
        "test": [glide(1, 200, bend=1.3), glide(0, 47, bend=0.8), glide(2, 33)],
    }
    found = baseline_metrics(texts, features=features)[NEAREST]
    assert found["test"]["wer"] == found["valid"]["wer"] == 0
    # It has heard them: with the recordings of train in another order it takes the transcripts of those.
    moved = {**features, "train": features["train"][::-1]}
    assert baseline_metrics(texts, features=moved)[NEAREST]["test"]["exact"] < 1


@pytest.mark.parametrize("band", [0, 2, 9])
def test_the_distance_is_that_of_the_best_path_of_all(band: int) -> None:
    draw = np.random.default_rng(1)
    x, templates = (draw.normal(size=size).astype(np.float32) for size in ((5, 3), (4, 5, 3)))

    def best(template: NDArray[np.float32], i: int, j: int) -> float:
        if abs(i - j) > band or min(i, j) < 0:
            return np.inf
        here = float(np.linalg.norm(x[i] - template[j]))
        if i == j == 0:
            return here
        return here + min(best(template, i - a, j - b) for a, b in ((1, 0), (0, 1), (1, 1)))

    expected = [best(template, 4, 4) for template in templates]
    np.testing.assert_allclose(warping_distances(x, templates, band), expected, rtol=1e-5)


@pytest.mark.parametrize("length", [1, 7, 59, 60, 61, 500])
def test_any_length_becomes_as_many_frames_with_the_same_range(length: int) -> None:
    x = np.arange(length, dtype=np.float32)[:, None]
    found = averaged(x)
    assert found.shape == (FRAMES, 1)
    assert (np.diff(found[:, 0]) >= 0).all()
    assert 0 <= found.min() <= found.max() <= length - 1


def test_of_many_recordings_some_are_drawn_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_TEMPLATES", 2)
    monkeypatch.setattr(baselines, "MOST_COMPARED", 1)
    texts = {"train": ["go left", "go right", "stop"], "valid": ["stop"], "test": ["go right", "go left"]}
    features = {split: [glide(number, 60) for number in range(len(some))] for split, some in texts.items()}
    found = baseline_metrics(texts, features=features)
    assert set(found[NEAREST]) == {"valid"}
    assert found == baseline_metrics(texts, features=features)
    assert baseline_notes({split: len(some) for split, some in texts.items()}) == [
        "The nearest recording is one of 2 of the 3 of train, drawn at random.",
        "No recording of test is compared with those of train: there are more than 1.",
    ]
    assert baseline_notes({"train": 2, "valid": 1, "test": 1}) == []
