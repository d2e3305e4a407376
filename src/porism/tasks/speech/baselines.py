"""Transcripts by chance, without listening: what a recogniser must beat.

One transcript for every recording: of the most frequent ones of train the one with the lowest error rate on valid. And
characters drawn by their frequency in train, as many as a transcript of train has on average.
"""

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from porism.tasks.speech.metric import character_errors, measure

CANDIDATES = 50
"""Transcripts of train that are tried on valid, the most frequent first."""
MOST_TRIED = 500
"""Transcripts of valid that they are tried on."""
SEED = 0


def baseline_metrics(
    references: Mapping[str, Sequence[str]], vocabulary: Collection[str] = ()
) -> dict[str, dict[str, dict[str, float]]]:
    """The metrics of each baseline on the splits beside train: name, then split.

    references: the transcripts of train, valid and test, as they are scored.

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
    return {
        name: {
            split: measure(references[split], texts, vocabulary)
            for split, texts in by_split.items()
            if split != "train"
        }
        for name, by_split in guesses.items()
    }


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
