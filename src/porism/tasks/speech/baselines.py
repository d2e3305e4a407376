"""What a recogniser must beat: transcripts by chance, without listening, and the one of the nearest recording.

By chance: one transcript for every recording, of the most frequent ones of train the one with the lowest error rate on
valid; and characters drawn by their frequency in train, as many as a transcript of train has on average.

By dynamic time warping: the transcript of the recording of train whose features are nearest along the best alignment,

    D[i, j] = |x[i] - y[j]| + min(D[i-1, j], D[i, j-1], D[i-1, j-1]),    |i - j| <= BAND,

each recording averaged to `FRAMES` frames first. It was how isolated words were recognised, and does well where the
sentences of test are said in train; it cannot say a new one.
"""

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.tasks.speech.metric import character_errors, measure

CANDIDATES = 50
"""Transcripts of train that are tried on valid, the most frequent first."""
MOST_TRIED = 500
"""Transcripts of valid that they are tried on."""
SEED = 0
NEAREST = "nearest recording by time warping"
FRAMES = 60
"""Frames that a recording is averaged to."""
BAND = 12
"""Frames that an alignment may lie off the diagonal."""
MOST_TEMPLATES = 400
"""Recordings of train that are listened to, drawn by `SEED` where there are more."""
MOST_COMPARED = 1000
"""Recordings of another split, each some hundredths of a second, up to which it is transcribed."""

Frames = NDArray[np.float32]


def baseline_metrics(
    references: Mapping[str, Sequence[str]],
    vocabulary: Collection[str] = (),
    features: Mapping[str, Sequence[Any]] | None = None,
) -> dict[str, dict[str, dict[str, float]]]:
    """The metrics of each baseline on the splits beside train: name, then split.

    references: the transcripts of train, valid and test, as they are scored. features: of the same recordings, (X, C)
    each; left out, nothing is listened to.

    >>> texts = {"train": ["go up", "go on", "go on"], "valid": ["go in"], "test": ["go to"]}
    >>> baseline_metrics(texts)["chance: one transcript"]["test"]["wer"]
    0.5
    """
    train, valid = references["train"], references["valid"]
    constant = best_transcript(train, valid)
    guesses = {
        "chance: one transcript": {split: [constant] * len(texts) for split, texts in references.items()},
        "chance: characters by frequency": {split: drawn(train, len(texts)) for split, texts in references.items()},
    }
    if features is not None:
        guesses[NEAREST] = nearest_transcripts(references["train"], features)
    return {
        name: {
            split: measure(references[split], texts, vocabulary)
            for split, texts in by_split.items()
            if split != "train"
        }
        for name, by_split in guesses.items()
        if by_split
    }


def baseline_notes(sizes: Mapping[str, int]) -> list[str]:
    """What to know of them, by the number of recordings of each split: of what part one has heard, or none."""
    notes = []
    if sizes["train"] > MOST_TEMPLATES:
        notes.append(
            f"The nearest recording is one of {MOST_TEMPLATES} of the {sizes['train']:,} of train, drawn at random."
        )
    if left_out := [split for split, size in sizes.items() if split != "train" and size > MOST_COMPARED]:
        notes.append(
            f"No recording of {' and '.join(left_out)} is compared with those of train: there are more than "
            f"{MOST_COMPARED:,}."
        )
    return notes


def nearest_transcripts(texts: Sequence[str], features: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """For every split beside train, unless it has more than `MOST_COMPARED`: the transcripts of the nearest of train.

    texts: those of train. features: of every split, (X, C) each.
    """
    rows: Sequence[int] = range(len(texts))
    if len(texts) > MOST_TEMPLATES:
        rows = sorted(random.Random(SEED).sample(rows, MOST_TEMPLATES))
    templates = np.stack([averaged(np.asarray(features["train"][row], np.float32)) for row in rows])  # N, T, C
    return {
        split: [
            texts[rows[int(warping_distances(averaged(np.asarray(x, np.float32)), templates).argmin())]]
            for x in recordings
        ]
        for split, recordings in features.items()
        if split != "train" and len(recordings) <= MOST_COMPARED
    }


def averaged(x: Frames, frames: int = FRAMES) -> Frames:
    """A recording (X, C) at so many frames (T, C), each the mean of the part it stands for.

    >>> averaged(np.arange(6.0)[:, None], 3).ravel().tolist()
    [0.5, 2.5, 4.5]
    """
    starts = np.arange(frames) * len(x) // frames
    ends = np.maximum(starts + 1, np.arange(1, frames + 1) * len(x) // frames)
    sums = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(x, 0, dtype=np.float64)])
    means: Frames = ((sums[ends] - sums[starts]) / (ends - starts)[:, None]).astype(np.float32)
    return means


def warping_distances(x: Frames, templates: Frames, band: int = BAND) -> NDArray[np.float32]:
    """From x (T, C) to each of the templates (N, T, C) along the best alignment within the band: (N,)."""
    length = len(x)
    squares = (x**2).sum(1)[:, None] + (templates**2).sum(2)[:, None]  # N, T, T
    local = np.sqrt(np.maximum(squares - 2 * np.matmul(x, templates.transpose(0, 2, 1)), 0)).transpose(1, 2, 0)
    sums = np.full((length + 1, length + 1, len(templates)), np.inf, np.float32)  # D, with a border before it
    sums[0, 0] = 0
    for i in range(length):
        for j in range(max(0, i - band), min(length, i + band + 1)):
            before = np.minimum(np.minimum(sums[i, j + 1], sums[i + 1, j]), sums[i, j])
            sums[i + 1, j + 1] = local[i, j] + before
    found: NDArray[np.float32] = sums[length, length]
    return found


def best_transcript(train: Sequence[str], valid: Sequence[str]) -> str:
    """Of the most frequent transcripts of train the one that leaves the fewest character errors on valid.

    >>> best_transcript(["yes", "no", "no", "yes"], ["no", "no", "yes"])
    'no'
    """
    candidates = [text for text, _ in Counter(train).most_common(CANDIDATES)]
    tried = random.Random(SEED).sample(list(valid), min(len(valid), MOST_TRIED))
    return min(candidates, key=lambda text: sum(character_errors(tried, [text] * len(tried))))


def drawn(train: Sequence[str], count: int) -> list[str]:
    """So many texts of characters by their frequency in train, each as long as those are on average."""
    characters = "".join(train)
    generator, length = random.Random(SEED), round(len(characters) / len(train))
    # Spaces at the ends are no part of a transcript.
    return ["".join(generator.choices(characters, k=length)).strip() if characters else "" for _ in range(count)]
