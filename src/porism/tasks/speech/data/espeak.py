"""Speech synthesis by espeak-ng.

The library keeps one state for a whole process, is not safe in threads and may crash the process, so it runs in
a process of its own: this file, run as a script, which imports nothing of porism. Every call starts from the same
state and so makes the same sounds.
"""

import ctypes
import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

RATE = 22_050
SYNCHRONOUS, CHARACTERS, UTF8 = 2, 1, 1
SPEED, PITCH = 1, 3
"""Numbers of espeak-ng's modes and parameters."""
SEED = 1


@dataclass(frozen=True)
class SynthesisInput:
    """A text to be synthesised: with a voice's name, words a minute, and a pitch from 0 to 99."""

    text: str
    voice: str
    speed: int
    pitch: int


def speak(utterances: Sequence[SynthesisInput]) -> list[bytes]:
    """Each text as samples of 16 bits, little-endian, one channel, at 22.05 kHz.

    >>> (hello,) = speak([SynthesisInput("hello", "en-us", speed=180, pitch=50)])
    """
    from porism.errors import DataError, MissingExtra, advise, option

    if find_spec("espeakng_loader") is None:
        raise MissingExtra(
            'the embedded recordings need espeakng-loader, which is not installed: pip install "porism[audio]".',
            advise("Or give recordings of your own with {}.", option("data")),
        )
    request = json.dumps([asdict(utterance) for utterance in utterances]).encode()
    # -P: no file beside this one may shadow a module of Python's.
    done = subprocess.run([sys.executable, "-P", __file__], input=request, capture_output=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise DataError(
            f"espeak-ng could not speak ({lines[-1]}).",
            advise("Install espeakng-loader anew, or give {}.", option("data")),
        )
    return _unpack(done.stdout)


def _unpack(stream: bytes) -> list[bytes]:
    """Each sound's length in bytes, then the sound."""
    sounds, offset = [], 0
    while offset < len(stream):
        (length,) = struct.unpack_from("<I", stream, offset)
        sounds.append(stream[offset + 4 : offset + 4 + length])
        offset += 4 + length
    return sounds


class _Espeak:
    """The functions of the library that are needed here."""

    def __init__(self) -> None:
        import espeakng_loader

        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        # It keeps the data's path in a short buffer, so the path is made short.
        data = Path(espeakng_loader.get_data_path())
        os.chdir(data.parent)
        rate = self._library.espeak_Initialize(SYNCHRONOUS, 0, data.name.encode(), 0)
        if rate != RATE:
            sys.exit(f"its rate is {rate} Hz, expected {RATE} Hz")
        self._samples: list[bytes] = []
        takes = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        # Kept, since the library calls it as long as it is loaded.
        self._callback = takes(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: int | None, count: int, _events: int | None) -> int:
        if samples and count > 0:
            self._samples.append(ctypes.string_at(samples, 2 * count))
        return 0

    def say(self, utterance: SynthesisInput) -> bytes:
        self._samples.clear()
        # Some voices breathe at random, and the seed is taken from the clock.
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(SEED))
        if self._library.espeak_SetVoiceByName(utterance.voice.encode()) != 0:
            sys.exit(f"no voice {utterance.voice}")
        self._library.espeak_SetParameter(SPEED, utterance.speed, 0)
        self._library.espeak_SetParameter(PITCH, utterance.pitch, 0)
        text = utterance.text.encode()
        failed = self._library.espeak_Synth(text, len(text) + 1, 0, CHARACTERS, 0, UTF8, None, None)
        if failed or self._library.espeak_Synchronize():
            sys.exit(f"no sound for {utterance.text!r}")
        return b"".join(self._samples)


def main() -> None:
    espeak = _Espeak()
    for utterance in json.load(sys.stdin):
        samples = espeak.say(SynthesisInput(**utterance))
        sys.stdout.buffer.write(struct.pack("<I", len(samples)) + samples)


if __name__ == "__main__":
    main()
