"""Utterances held out from others by a fixed seed: whole speakers, where the names tell who speaks."""

import re
from collections.abc import Sequence

import numpy as np

from porism.tasks.speech.utterances import Utterance

SEED = 0
"""Fixed: a list is split in the same way every time."""
SHARE = 0.1
SPEAKER = re.compile(r"[a-z]+\d+-(?P<an4>\w+)-b|(?P<librispeech>\d+)-\d+-\d+|(?P<vctk>[ps]\d+)_\d+\w*")
"""Names in AN4 (an251-fash-b), LibriSpeech (84-121123-0000) and VCTK (p225_001)."""


def hold_out(utterances: Sequence[Utterance]) -> tuple[list[Utterance], list[Utterance], str]:
    """Those kept, those held out (about a tenth, but one at least) and how, each in the order they came in.

    A voice that is heard in training is written down better than one that is not, so no voice is in both.
    """
    speakers = [speaker for utterance in utterances if (speaker := speaker_of(utterance.name))]
    by_speaker = len(speakers) == len(utterances) and len(set(speakers)) > 1
    groups = speakers if by_speaker else [str(place) for place in range(len(utterances))]
    order = sorted(set(groups))
    held: set[str] = set()
    for place in np.random.default_rng(SEED).permutation(len(order)):
        if sum(group in held for group in groups) >= SHARE * len(groups):
            break
        held.add(order[place])
    kept = [utterance for utterance, group in zip(utterances, groups, strict=True) if group not in held]
    out = [utterance for utterance, group in zip(utterances, groups, strict=True) if group in held]
    return kept, out, f"{len(held)} speakers held out" if by_speaker else "drawn at random"


def speaker_of(name: str) -> str | None:
    """
    >>> speaker_of("an251-fash-b"), speaker_of("84-121123-0000"), speaker_of("my recording 7")
    ('fash', '84', None)
    """
    match = SPEAKER.fullmatch(name)
    return match[match.lastgroup] if match and match.lastgroup else None
