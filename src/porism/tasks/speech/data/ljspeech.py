"""The layout of LJ Speech: `metadata.csv` with three fields split by a bar, and a recording for each in `wavs/`.

    LJ001-0007|the earliest book printed ..., the "42-line Bible" of about 1455|... the "forty-two line Bible" ...

The last field spells numbers out, and is the transcript.
"""

from collections.abc import Sequence
from pathlib import Path

from porism.errors import DataError
from porism.files import cached
from porism.tasks.blocks.archives import unpack_folder
from porism.tasks.blocks.download import fetch
from porism.tasks.speech.catalogue import PUBLIC
from porism.tasks.speech.data.recordings import SOUND_SUFFIXES, Recordings, Utterance, read_lines, recordings, utterance

METADATA, SOUNDS = "metadata.csv", "wavs"
UTTERANCES = 13_100
TRAIN_END, VALID_END = 9_825, 9_825 + 655
"""The published split, by position in the list; lists of other lengths are split in proportion."""
MOST_BYTES = 8 * 2**30
"""Unpacked it has 3.8 GB."""


def read_ljspeech(folder: Path) -> Recordings:
    """The recordings of a folder with metadata.csv and wavs/, whose files may be of any kind."""
    if not (folder / SOUNDS).is_dir():
        raise DataError(f"{folder}: {METADATA}, but no folder {SOUNDS}. Put the recordings there.")
    sounds = {file.stem: file for file in (folder / SOUNDS).iterdir() if file.suffix.lower() in SOUND_SUFFIXES}
    utterances = []
    for where, line in read_lines(folder / METADATA):
        fields = line.split("|")
        if len(fields) != 3:
            raise DataError(f"{where}: {len(fields)} fields, expected three: name|transcript|spelled out.")
        name, as_printed, spelled_out = fields
        utterances.append(utterance(name, spelled_out or as_printed, sounds.get(name), where))
    return recordings(folder.name, split_by_position(utterances), "by position in the list")


def split_by_position(utterances: Sequence[Utterance]) -> dict[str, Sequence[Utterance]]:
    """The first 75 %, the next 5 % and the last 20 %."""
    first, second = (round(len(utterances) * end / UTTERANCES) for end in (TRAIN_END, VALID_END))
    return {"train": utterances[:first], "valid": utterances[first:second], "test": utterances[second:]}


def read_public_ljspeech() -> Recordings:
    """LJ Speech in the data folder, fetched and unpacked first where it is missing."""
    folder = cached("ljspeech/LJSpeech-1.1")
    if not folder.is_dir():
        unpack_folder(fetch(PUBLIC["ljspeech"].files["all"]), folder, MOST_BYTES)
    return read_ljspeech(folder)
