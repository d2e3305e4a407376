"""The layout in which CMU publishes AN4: transcripts and lists of files in `etc/`, recordings below `wav/`.

    etc/an4_train.transcription     <s> RUBOUT G M E F THREE NINE </s> (an406-fcaw-b)
    etc/an4_train.fileids           an4_clstk/fcaw/an406-fcaw-b
    wav/an4_clstk/fcaw/an406-fcaw-b.sph

Published at http://www.speech.cs.cmu.edu/databases/an4 as .sph or .raw; no digest of it is published there.
"""

import re
from pathlib import Path

from porism.errors import DataError
from porism.tasks.speech.data.recordings import (
    SOUND_SUFFIXES,
    Recordings,
    Utterance,
    hold_out,
    read_lines,
    recordings,
    utterance,
)

TRANSCRIPTS = {"train": "etc/an4_train.transcription", "test": "etc/an4_test.transcription"}
TRANSCRIPT = re.compile(r"(?:<s>)?\s*(?P<text>.*?)\s*(?:</s>)?\s*\((?P<name>[^()\s]+)\)\s*")


def read_an4(folder: Path) -> Recordings:
    """The published split, with valid held out from train."""
    sounds = {file.stem: file for file in (folder / "wav").rglob("*") if file.suffix.lower() in SOUND_SUFFIXES}
    train, test = (_read(folder / TRANSCRIPTS[split], sounds) for split in ("train", "test"))
    kept, held, how = hold_out(train)
    return recordings(folder.name, {"train": kept, "valid": held, "test": test}, f"as published, valid {how}")


def _read(path: Path, sounds: dict[str, Path]) -> list[Utterance]:
    utterances = []
    for where, line in read_lines(path):
        match = TRANSCRIPT.fullmatch(line)
        if match is None:
            raise DataError(
                f"{where}: {line[:40]!r}, expected a transcript with its name after it: <s> YES </s> (an1)."
            )
        utterances.append(utterance(match["name"], match["text"], sounds.get(match["name"]), where))
    return utterances
