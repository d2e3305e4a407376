"""The recordings of the speech task, from all their sources.

>>> load_recordings().splits["train"][0].text                     # the embedded ones
'keep it behind the door at night'
"""

from pathlib import Path

from porism.errors import DataError, advise, fields, nearest
from porism.tasks.speech.catalogue import CATALOGUE, NAME
from porism.tasks.speech.data.an4 import TRANSCRIPTS, read_an4
from porism.tasks.speech.data.embedded import embedded_recordings
from porism.tasks.speech.data.lists import list_of, read_lists, read_single_list
from porism.tasks.speech.data.ljspeech import METADATA, read_ljspeech, read_public_ljspeech
from porism.tasks.speech.data.pairs import holds_pairs, read_pairs
from porism.tasks.speech.data.recordings import SPLITS, Recordings, Utterance
from porism.tasks.speech.data.symbols import check_characters
from porism.tasks.speech.data.transcripts import LIBRISPEECH, holds_librispeech, read_by_pattern

__all__ = ["SPLITS", "Recordings", "Utterance", "load_recordings"]


def load_recordings(source: str | None = None, *, strict: bool = False, transcripts: str | None = None) -> Recordings:
    """The recordings of a name (`spoken`, `ljspeech`) or of a path; None is `spoken`.

    A path is a folder laid out as LJ Speech, LibriSpeech or CMU's AN4, with lists (train.tsv, test.tsv) or with a text
    beside each recording, or one list. `transcripts` is a pattern of the files that hold them, where none of these
    fits: see `transcripts.py`. `strict` refuses a transcript with a character that is not in the alphabet, which
    otherwise counts as unknown.
    """
    recordings = _read(NAME if source is None else source, transcripts)
    if strict:
        for split in SPLITS:
            for utterance in recordings.splits[split]:
                check_characters(utterance.text, utterance.where or utterance.name)
    return recordings


def _read(source: str, transcripts: str | None) -> Recordings:
    if transcripts is not None:
        folder = Path(source).expanduser()
        if source in CATALOGUE or not folder.is_dir():
            raise DataError(f"transcripts={transcripts} is for a folder of recordings, and {source} is none.")
        return read_by_pattern(folder, transcripts)
    if source == NAME:
        return embedded_recordings()
    if source == "ljspeech":
        return read_public_ljspeech()
    path = Path(source).expanduser()
    if path.is_dir():
        return _read_folder(path)
    if path.suffix.lower() in (".tsv", ".txt") and path.exists():
        return read_single_list(path)
    if path.exists():
        raise DataError(f"{path}: a single file, expected a folder of recordings, or a .tsv of paths and transcripts.")
    raise DataError(
        f"{source}: no such file or folder, and no recordings of that name. {nearest(source.lower(), list(CATALOGUE))}"
    )


def _read_folder(folder: Path) -> Recordings:
    if (folder / METADATA).is_file():
        return read_ljspeech(folder)
    if (folder / TRANSCRIPTS["train"]).is_file():
        return read_an4(folder)
    if list_of(folder, "train"):
        return read_lists(folder)
    if holds_pairs(folder):
        return read_pairs(folder)
    if holds_librispeech(folder):
        return read_by_pattern(folder, LIBRISPEECH)
    raise DataError(
        f"{folder}: no transcripts in this folder. Put a NAME.txt beside each NAME.wav, {METADATA} and wavs/ as in LJ "
        f"Speech, {TRANSCRIPTS['train']} as in AN4, {LIBRISPEECH} as in LibriSpeech, or train.tsv and test.tsv with a "
        "path, a tab and a transcript a line;",
        advise("or name the files that have them: {}.", fields(transcripts="{name}.lab")),
    )
