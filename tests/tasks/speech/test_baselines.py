"""Transcripts by chance: chosen without listening, and never by test."""

import pytest

from porism.tasks.speech.baselines import baseline_metrics, best_transcript, drawn

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
