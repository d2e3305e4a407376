"""Transcripts by a pattern of file names, in a folder of recordings and those below it.

    *.trans.txt        as in LibriSpeech: a line for each recording, its name, a space and the text
    metadata.csv       as in LJ Speech: the name, a bar and the text; of more fields the last that is not empty
    {name}.lab         a file for each recording, with its name; ../text/{name}.txt lies in another folder

A recording lies in the folder of its transcript or below it. Folders named train, valid (or val, dev) and test, also
with more after it as in train-clean-100, are the splits; what is missing is held out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from porism.errors import DataError, advise, fields, shown
from porism.tasks.blocks.download import readable
from porism.tasks.speech.data.pairs import sounds_in
from porism.tasks.speech.data.recordings import (
    SOUND_SUFFIXES,
    Recordings,
    Utterance,
    hold_out,
    read_lines,
    recordings,
    utterance,
)

LIBRISPEECH = "*.trans.txt"
NAME = "{name}"
SPLIT = re.compile(r"(?:(?P<train>train)|(?P<valid>valid|val|dev)|(?P<test>test))(?:[-_.].*)?", re.IGNORECASE)


def holds_librispeech(folder: Path) -> bool:
    """Whether a list of LibriSpeech lies somewhere in the folder."""
    with readable(folder):
        return any(folder.rglob(LIBRISPEECH))


def read_by_pattern(folder: Path, pattern: str) -> Recordings:
    """The recordings of a folder whose transcripts are in the files of a pattern."""
    if not pattern or Path(pattern).is_absolute():
        raise DataError(
            f"transcripts={shown(pattern)} cannot be: expected names of files below {folder}.",
            advise("Give for instance {}.", fields(transcripts=LIBRISPEECH)),
        )
    found = list(_one_each(folder, pattern) if NAME in pattern else _in_lists(folder, pattern))
    by_split: dict[str, list[Utterance]] = {}
    for one in found:
        by_split.setdefault(_split_of(one, folder), []).append(one)
    if "train" not in by_split:
        by_split = {"train": found}
    elif outside := by_split.pop("", []):
        raise DataError(
            f"{outside[0].where}: beside the folders of the splits. Put it into one of them, or take it away."
        )
    how = ["by folder"] if len(by_split) > 1 else []
    for split in ("test", "valid"):
        if split not in by_split:
            by_split["train"], by_split[split], drawn = hold_out(by_split["train"])
            how.append(f"{split} {drawn}")
    return recordings(folder.name, by_split, ", ".join(how))


def _one_each(folder: Path, pattern: str) -> Iterator[Utterance]:
    """A file for each recording."""
    for sound in _sounds(folder):
        file = sound.parent / pattern.replace(NAME, sound.stem)
        if not file.is_file():
            raise DataError(
                f"{sound}: no transcript {file}.",
                advise("Write it there, take the recording away, or give another {}.", fields(transcripts=pattern)),
            )
        lines = read_lines(file)
        yield utterance(sound.stem, " ".join(line.text for line in lines), sound, lines[0].where)


def _in_lists(folder: Path, pattern: str) -> Iterator[Utterance]:
    """A line for each recording, which lies beside its list or below it."""
    with readable(folder):
        lists = sorted(file for file in folder.rglob(pattern) if file.is_file())
    if not lists:
        raise DataError(
            f"{folder}: no file {pattern} in it or below it.",
            advise("Give the pattern of the files that hold the transcripts: {}", fields(transcripts=LIBRISPEECH)),
        )
    below: dict[Path, list[Path]] = {}
    for sound in _sounds(folder):
        for parent in sound.parents:
            below.setdefault(parent, []).append(sound)
            if parent == folder:
                break
    for file in lists:
        named: dict[str, Path] = {}
        for sound in below.get(file.parent, []):
            if named.setdefault(sound.stem, sound) != sound:
                raise DataError(
                    f"{sound} and {named[sound.stem]}: two recordings of one name, of which {file} can mean either. "
                    "Rename one, or put the list into the folder of its recordings."
                )
        for where, line in read_lines(file):
            name, text = _fields(where, line)
            yield utterance(name, text, named.get(name), where)


def _fields(where: str, line: str) -> tuple[str, str]:
    """The name of a recording, without its suffix, and its text."""
    mark = next((mark for mark in "|\t" if mark in line), None)
    name, *texts = line.split(mark) if mark else line.split(maxsplit=1)
    filled = [text for text in texts if text.strip()]
    if not filled:
        raise DataError(
            f"{where}: {shown(line.strip())} has no transcript. Expected a name, a space or a bar, and a text."
        )
    bare = Path(name.strip())
    return bare.stem if bare.suffix.lower() in SOUND_SUFFIXES else bare.name, filled[-1]


def _sounds(folder: Path) -> list[Path]:
    if not (found := sounds_in(folder)):
        raise DataError(f"{folder}: no recording in it or below it. Expected files such as NAME.wav or NAME.flac.")
    return found


def _split_of(one: Utterance, folder: Path) -> str:
    """The split that the first folder on the way to a recording names; empty where it names none."""
    assert isinstance(one.source, Path)
    match = SPLIT.fullmatch(one.source.relative_to(folder).parts[0])
    return match.lastgroup or "" if match else ""
