"""Recordings with transcripts in three splits: the type that every loader returns."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from porism.errors import DataError
from porism.tasks.blocks.download import read_content, readable
from porism.tasks.blocks.splits import check_disjoint, file_identity
from porism.tasks.blocks.texts import decoded
from porism.tasks.speech.data.audio import RATE, Sound, read_sound, resample
from porism.tasks.speech.data.symbols import unknown_characters

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Utterance:
    """A transcript and its sound: a file, or samples in memory.

    >>> utterance = Utterance("an406-fcaw-b", "RUBOUT G M E F THREE NINE", Path("test/an406-fcaw-b.ogg"))
    >>> utterance.sound(rate=16_000).samples                                    # (T,)     # doctest: +SKIP
    """

    name: str
    text: str
    source: Path | Sound
    where: str = ""
    """File and line of the transcript, for messages."""

    def sound(self, rate: int = RATE) -> Sound:
        if isinstance(self.source, Path):
            return read_sound(self.source, rate)
        sound = self.source
        return Sound(resample(sound.samples, sound.rate, rate), rate, sound.notes)

    def listed(self) -> str:
        """For messages: the file's name, and where it is listed."""
        return f"{self.source.name if isinstance(self.source, Path) else self.name} ({self.where})"

    def file(self) -> Hashable:
        """An identity that all paths to the same file share."""
        return file_identity(self.source) if isinstance(self.source, Path) else id(self.source)

    def digest(self) -> bytes:
        """The sha256 of the file, or of the samples, read once."""
        return self._digest

    @cached_property
    def _digest(self) -> bytes:
        if isinstance(self.source, Path):
            with readable(self.source), self.source.open("rb") as file:
                return hashlib.file_digest(file, "sha256").digest()
        return hashlib.sha256(self.source.samples.numpy().tobytes()).digest()


@dataclass(frozen=True, eq=False)
class Recordings:
    """Three splits of utterances, and facts about them."""

    name: str
    splits: Mapping[str, Sequence[Utterance]]
    facts: Mapping[str, int | float | str] = field(default_factory=dict)

    def fingerprint(self) -> str:
        """The sha256 of names, texts and sounds: all that a model is trained on, wherever the files are."""
        digest = hashlib.sha256()
        for split in SPLITS:
            digest.update(f"\n{split} {len(self.splits[split])}\n".encode())
            for utterance in self.splits[split]:
                digest.update(json.dumps([utterance.name, utterance.text]).encode() + utterance.digest())
        return digest.hexdigest()

    def unknown(self) -> dict[str, int]:
        """How often each character that is not in the alphabet occurs in the transcripts."""
        return unknown_characters([utterance.text for split in SPLITS for utterance in self.splits[split]])


def recordings(name: str, splits: Mapping[str, Sequence[Utterance]], how_split: str) -> Recordings:
    """The recordings, checked: no split is empty, and no recording is in two."""
    for split in SPLITS:
        if not splits[split]:
            raise DataError(f"{name}: no utterance for {split}. Give more recordings, or a list for each split.")
    _check_disjoint(name, splits)
    made = Recordings(name, splits)
    facts: dict[str, int | float | str] = {"split": how_split}
    facts |= {f"{split} utterances": len(splits[split]) for split in SPLITS}
    learned = {utterance.text.lower() for utterance in splits["train"]}
    if known := sum(utterance.text.lower() in learned for utterance in splits["test"]):
        facts["test sentences that are in train too"] = f"{known} of {len(splits['test'])}"
    if unknown := made.unknown():
        facts["unknown characters"] = ", ".join(f"{count} x {character}" for character, count in unknown.items())
    return Recordings(name, splits, facts)


def _check_disjoint(name: str, splits: Mapping[str, Sequence[Utterance]]) -> None:
    """No file is listed twice, under whatever name, and no copy of one is in another split."""
    everything = [utterance for split in SPLITS for utterance in splits[split]]
    by_file = {utterance.file(): utterance.listed() for utterance in everything}
    files = {split: [utterance.file() for utterance in splits[split]] for split in SPLITS}
    check_disjoint(name, files, "recording", by_file.__getitem__)
    by_content = {utterance.digest(): utterance.listed() for utterance in everything}
    # Each once, since copies within a split are no leak.
    contents = {split: dict.fromkeys(utterance.digest() for utterance in splits[split]) for split in SPLITS}
    check_disjoint(name, contents, "recording", by_content.__getitem__)


SOUND_SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".sph", ".raw")


class TextLine(NamedTuple):
    where: str
    text: str


def read_lines(path: Path) -> list[TextLine]:
    """The lines of a text file that are not empty."""
    text = decoded(read_content(path), str(path))
    lines = [
        TextLine(f"{path}, line {number}", line.rstrip("\r"))
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if not lines:
        raise DataError(f"{path}: empty, no transcript in it. Give a line for each recording.")
    return lines


def utterance(name: str, text: str, sound: Path | None, where: str) -> Utterance:
    """The utterance of a line, whose sound must exist and whose transcript must not be empty."""
    if not text.strip():
        raise DataError(f"{where}: no transcript for {name}. Write one, or leave the line out.")
    if sound is None or not sound.is_file():
        raise DataError(f"{where}: no recording {sound or name}. Put the file there, or leave the line out.")
    return Utterance(name, " ".join(text.split()), sound, where)


SEED = 0
"""Fixed: a list is split in the same way every time."""
SHARE = 0.1
SPEAKER = re.compile(r"[a-z]+\d+-(?P<an4>\w+)-b|(?P<librispeech>\d+)-\d+-\d+|(?P<vctk>[ps]\d+)_\d+\w*")
"""Names in AN4 (an251-fash-b), LibriSpeech (84-121123-0000) and VCTK (p225_001)."""


def hold_out(utterances: Sequence[Utterance]) -> tuple[list[Utterance], list[Utterance], str]:
    """Those kept, those held out (about a tenth, but one at least) and how, each in the order they came in.

    No speaker is in both: a known voice is transcribed better than an unknown one. Where names do not tell the speaker,
    recordings of one folder are kept together, since that is often one speaker's.
    """
    speakers = [speaker for utterance in utterances if (speaker := speaker_of(utterance.name))]
    folders = _folders(utterances)
    by_speaker = len(speakers) == len(utterances) and len(set(speakers)) > 1
    by_folder = not by_speaker and len(folders) == len(utterances) and _are_small(folders)
    each = [str(index) for index in range(len(utterances))]
    groups = speakers if by_speaker else folders if by_folder else each
    order = sorted(set(groups))
    held: set[str] = set()
    for index in np.random.default_rng(SEED).permutation(len(order)):
        if sum(group in held for group in groups) >= SHARE * len(groups):
            break
        held.add(order[index])
    kept = [utterance for utterance, group in zip(utterances, groups, strict=True) if group not in held]
    out = [utterance for utterance, group in zip(utterances, groups, strict=True) if group in held]
    if by_speaker or by_folder:
        return kept, out, f"{len(held)} {'speaker' if by_speaker else 'folder'}{'s' * (len(held) > 1)} held out"
    # Then voices that are tested may be known.
    apart = len(set(folders)) < 2 or set(_folders(kept)).isdisjoint(_folders(out))
    return kept, out, f"drawn at random{'' if apart else ', from folders that train has too'}"


def _folders(utterances: Sequence[Utterance]) -> list[str]:
    return [str(utterance.source.parent) for utterance in utterances if isinstance(utterance.source, Path)]


def _are_small(groups: Sequence[str]) -> bool:
    """Whether groups can be held out as a whole: none has more than a fifth of all."""
    return max(Counter(groups).values(), default=0) <= len(groups) / 5


def speaker_of(name: str) -> str | None:
    """
    >>> speaker_of("an251-fash-b"), speaker_of("84-121123-0000"), speaker_of("my recording 7")
    ('fash', '84', None)
    """
    match = SPEAKER.fullmatch(name)
    return match[match.lastgroup] if match and match.lastgroup else None
