"""Speech from text, by espeak-ng.

The library keeps one state for a whole process, is not safe in threads and crashes hard if it crashes, so it speaks in
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
"""What espeak-ng calls its modes and parameters by."""
SEED = 1


@dataclass(frozen=True)
class Spoken:
    """A text and how to say it: a voice's name, words a minute, and a pitch from 0 to 99."""

    text: str
    voice: str
    speed: int
    pitch: int


def speak(sayings: Sequence[Spoken]) -> list[bytes]:
    """Each text as samples of 16 bits, little-endian, one channel, at 22.05 kHz.

    >>> (hello,) = speak([Spoken("hello", "en-us", speed=180, pitch=50)])
    """
    from porism.errors import DataError, MissingExtra

    if find_spec("espeakng_loader") is None:
        raise MissingExtra(
            "the embedded recordings need espeakng-loader, which is not installed: "
            'pip install "porism[audio]". Or give recordings of your own with --data.'
        )
    asked = json.dumps([asdict(saying) for saying in sayings]).encode()
    # -P: what lies beside this file is not to be taken for a module of Python's.
    done = subprocess.run([sys.executable, "-P", __file__], input=asked, capture_output=True, check=False)
    if done.returncode != 0:
        told = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise DataError(f"espeak-ng could not speak ({told[-1]}). Install espeakng-loader anew, or give --data.")
    return _unpack(done.stdout)


def _unpack(stream: bytes) -> list[bytes]:
    """Each sound's length in bytes, then the sound."""
    found, place = [], 0
    while place < len(stream):
        (length,) = struct.unpack_from("<I", stream, place)
        found.append(stream[place + 4 : place + 4 + length])
        place += 4 + length
    return found


class _Espeak:
    """The library, as far as it is needed here."""

    def __init__(self) -> None:
        import espeakng_loader

        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        # It keeps the data's path in a short buffer, so the path is made short.
        data = Path(espeakng_loader.get_data_path())
        os.chdir(data.parent)
        rate = self._library.espeak_Initialize(SYNCHRONOUS, 0, data.name.encode(), 0)
        if rate != RATE:
            sys.exit(f"it starts with {rate}, wanted {RATE} Hz")
        self._heard: list[bytes] = []
        takes = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        # Kept, since the library calls it for as long as it lives.
        self._callback = takes(self._hear)
        self._library.espeak_SetSynthCallback(self._callback)

    def _hear(self, samples: int | None, count: int, _events: int | None) -> int:
        if samples and count > 0:
            self._heard.append(ctypes.string_at(samples, 2 * count))
        return 0

    def say(self, saying: Spoken) -> bytes:
        self._heard.clear()
        # Some voices breathe, by chance, and chance starts from the clock.
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(SEED))
        if self._library.espeak_SetVoiceByName(saying.voice.encode()) != 0:
            sys.exit(f"no voice {saying.voice}")
        self._library.espeak_SetParameter(SPEED, saying.speed, 0)
        self._library.espeak_SetParameter(PITCH, saying.pitch, 0)
        text = saying.text.encode()
        failed = self._library.espeak_Synth(text, len(text) + 1, 0, CHARACTERS, 0, UTF8, None, None)
        if failed or self._library.espeak_Synchronize():
            sys.exit(f"no sound for {saying.text!r}")
        return b"".join(self._heard)


def main() -> None:
    espeak = _Espeak()
    for asked in json.load(sys.stdin):
        samples = espeak.say(Spoken(**asked))
        sys.stdout.buffer.write(struct.pack("<I", len(samples)) + samples)


if __name__ == "__main__":
    main()
