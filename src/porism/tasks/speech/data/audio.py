"""Sounds: read from files of any kind, rate and number of channels, and written for players.

>>> read_sound(Path("talk.mp3")).notes                                          # doctest: +SKIP
('2 channels mixed down', 'resampled from 44100 Hz')

Files are read a block at a time, so that memory holds what comes out and never the whole of what goes in.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.errors import DataError, MissingExtra
from porism.tasks.blocks.download import readable
from porism.tasks.speech.data.containers import bytes_missing, holds_mpeg, smoother_byte_order

RATE = 16_000
LONGEST_SECONDS = 600.0
"""What is held in memory as one sound. Longer ones are read in segments."""
BLOCK_FRAMES = 1 << 18
HEADERLESS = {"format": "RAW", "samplerate": 16_000, "channels": 1, "subtype": "PCM_16"}
"""The format of a .raw file, which has no header."""
LENGTH_UNKNOWN = 1 << 62
"""A number of frames beyond this means that it is unknown."""


@dataclass(frozen=True, eq=False)
class Sound:
    """One channel (T,) of float32 between -1 and 1, its rate, and what was done to it on the way."""

    samples: Tensor
    rate: int
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def read_sound(path: Path, rate: int = RATE, longest: float = LONGEST_SECONDS) -> Sound:
    """The sound of a WAV, FLAC, OGG, MP3 or the like, at the requested rate, all its channels mixed into one."""
    with open_blocks(path, rate) as (blocks, notes):
        kept: list[Tensor] = []
        for block in blocks:
            kept.append(block)
            if sum(map(len, kept)) > longest * rate:
                raise DataError(
                    f"{path}: longer than {longest:g} s, the most that is taken as one utterance. Cut it into "
                    "utterances to train on it; to predict, it is transcribed in segments."
                )
        return Sound(torch.cat(kept), rate, notes)


@contextmanager
def open_blocks(path: Path, rate: int) -> Iterator[tuple[Iterator[Tensor], tuple[str, ...]]]:
    """The sound of a file a block at a time, and what is done to it. Errors are reported in one line."""
    soundfile = import_audio("soundfile", "recordings")
    _check_file(path)
    try:
        with soundfile.SoundFile(path, **_format(path)) as file:
            yield _blocks(file, rate, path), _notes(file, rate, path)
    except soundfile.LibsndfileError as error:
        # A truncated FLAC fails in mid-stream, when its decoder loses sync.
        if "sync" in error.error_string:
            raise DataError(f"{path}: not a whole recording ({error.error_string}). Copy it again.") from None
        raise _unreadable(path) from None


def write_wav(sound: Sound) -> bytes:
    """A WAV file of 16 bits a sample, for a player in a page."""
    return _written(sound, "WAV")


def write_flac(sound: Sound) -> bytes:
    """The same in less space."""
    return _written(sound, "FLAC")


def _written(sound: Sound, kind: str) -> bytes:
    content = io.BytesIO()
    soundfile = import_audio("soundfile", "recordings")
    soundfile.write(content, sound.samples.numpy(), sound.rate, format=kind, subtype="PCM_16")
    return content.getvalue()


def resample(samples: Tensor, rate: int, new_rate: int) -> Tensor:
    """One channel (T,) at another rate: (T new_rate / rate,)."""
    if rate == new_rate:
        return samples
    return torch.from_numpy(_soxr().resample(samples.numpy(), rate, new_rate))


def _blocks(file: Any, rate: int, path: Path) -> Iterator[Tensor]:
    stream = None if file.samplerate == rate else _soxr().ResampleStream(file.samplerate, rate, 1, dtype="float32")
    frames = 0
    while len(block := file.read(BLOCK_FRAMES, dtype="float32", always_2d=True)):
        frames += len(block)
        if not np.isfinite(block).all():
            second = (frames - len(block) + int(np.flatnonzero(~np.isfinite(block).all(1))[0])) / file.samplerate
            raise DataError(f"{path}: a sample at {second:.3f} s is not a number. Write the recording again.")
        mono: NDArray[np.float32] = block.mean(axis=1)
        yield torch.from_numpy(mono if stream is None else stream.resample_chunk(mono))
    if frames == 0:
        raise DataError(f"{path}: no samples in it, 0 s. Give a recording with sound.")
    # An MP3's number of frames may be a guess from its size.
    if frames < file.frames < LENGTH_UNKNOWN and file.format != "MP3":
        raise DataError(f"{path}: not a whole recording ({frames} of {file.frames} frames). Copy it again.")
    if stream is not None:
        yield torch.from_numpy(stream.resample_chunk(mono[:0], last=True))


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path}: a folder, expected a recording. Give a file in it.")
    with readable(path):
        size, missing = path.stat().st_size, bytes_missing(path)
    if size == 0:
        raise DataError(f"{path}: empty, 0 bytes. Give a recording with sound.")
    if missing:
        raise DataError(f"{path}: not a whole recording ({missing} bytes are missing at its end). Copy it again.")
    # The decoder would print warnings of its own.
    if path.suffix.lower() == ".mp3" and not holds_mpeg(path):
        raise _unreadable(path)


def _unreadable(path: Path) -> DataError:
    return DataError(f"{path}: not a recording that can be read. Give a WAV, FLAC, OGG or MP3.")


def _format(path: Path) -> dict[str, Any]:
    return {**HEADERLESS, "endian": smoother_byte_order(path)} if path.suffix.lower() == ".raw" else {}


def _notes(file: Any, rate: int, path: Path) -> tuple[str, ...]:
    notes = []
    if path.suffix.lower() == ".raw":
        notes.append(f"no header, read as 16 bits a sample, one channel, {file.samplerate} Hz")
    if file.channels > 1:
        notes.append(f"{file.channels} channels mixed down")
    if file.samplerate != rate:
        notes.append(f"resampled from {file.samplerate} Hz")
    return tuple(notes)


def _soxr() -> ModuleType:
    return import_audio("soxr", "recordings of another rate")


def import_audio(name: str, what: str) -> ModuleType:
    """A package of the extra, or a message that names it.

    >>> import_audio("soundfile", "recordings").available_formats()["FLAC"]         # doctest: +SKIP
    'FLAC (Free Lossless Audio Codec)'
    """
    try:
        return import_module(name)
    except (ImportError, OSError):  # soundfile may be installed without the library it wraps
        package = name.partition(".")[0]
        raise MissingExtra(f'{what} need {package}, which is not installed: pip install "porism[audio]"') from None
