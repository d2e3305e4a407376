"""Transcripts in text files, a line each, with the place of every line for messages."""

from pathlib import Path
from typing import NamedTuple

from porism.errors import DataError
from porism.tasks.download import read_content
from porism.tasks.speech.utterances import Utterance
from porism.tasks.text_files import decoded

SOUND_SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".sph", ".raw")


class Line(NamedTuple):
    where: str
    text: str


def read_lines(path: Path) -> list[Line]:
    """The lines of a text file that are not blank."""
    text = decoded(read_content(path), str(path))
    lines = [
        Line(f"{path}, line {number}", line.rstrip("\r"))
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if not lines:
        raise DataError(f"{path}: empty, no transcript in it. Give a line for each recording.")
    return lines


def utterance(name: str, text: str, sound: Path | None, where: str) -> Utterance:
    """The utterance of a line, once its sound is there and its transcript says something."""
    if not text.strip():
        raise DataError(f"{where}: no transcript for {name}. Write what is said, or leave the line out.")
    if sound is None or not sound.is_file():
        raise DataError(f"{where}: no recording {sound or name}. Put the file there, or leave the line out.")
    return Utterance(name, " ".join(text.split()), sound, where)
