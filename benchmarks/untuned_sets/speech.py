"""Recordings that are made: digits by espeak-ng, Morse code, tones of a telephone."""

import random
import wave
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from untuned_sets.data_set import DataSet

RATE = 16_000
"""Samples of a recording a second."""

Samples = NDArray[np.float64]


def spoken_digits(path: Path) -> None:
    """One or two digits by six voices, several speeds and pitches."""
    from porism.tasks.speech.data.espeak import RATE as ESPEAK_RATE
    from porism.tasks.speech.data.espeak import SynthesisInput, speak

    draw = random.Random(8)
    digits = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    voices = ("en-us", "en-us+f3", "en-us+m1", "en-us+f1", "en-us+m5", "en-gb-x-rp")
    texts = [" ".join(draw.choices(digits, k=1 + number % 2)) for number in range(300)]
    spoken = speak(
        [SynthesisInput(text, draw.choice(voices), draw.randint(150, 210), draw.randint(30, 70)) for text in texts]
    )
    sounds = [np.frombuffer(sound, dtype="<i2").astype(np.float64) / 2**15 for sound in spoken]
    _write_recordings(path, zip(texts, sounds, strict=True), ESPEAK_RATE)


MORSE = {
    "a": ".-", "e": ".", "i": "..", "n": "-.", "o": "---", "r": ".-.", "s": "...", "t": "-", "d": "-..", "h": "....",
    "l": ".-..", "u": "..-",
}  # fmt: skip


def morse(path: Path) -> None:
    """Words of two to four letters out of twelve, dots of 40 to 60 ms, one of several pitches, with noise."""
    draw, noise = random.Random(9), np.random.default_rng(9)
    texts = ["".join(draw.choices(sorted(MORSE), k=draw.randint(2, 4))) for _ in range(300)]
    sounds = []
    for text in texts:
        dot, pitch = draw.uniform(0.04, 0.06), draw.uniform(400, 900)
        parts = []
        for letter in text:
            for sign in MORSE[letter]:
                parts += [_tone((pitch,), dot if sign == "." else 3 * dot), np.zeros(int(RATE * dot))]
            parts.append(np.zeros(int(RATE * 2 * dot)))
        sound = np.concatenate(parts)
        sounds.append(sound + 0.01 * noise.standard_normal(len(sound)))
    _write_recordings(path, zip(texts, sounds, strict=True), RATE)


KEYS = {
    "one": (697, 1209), "two": (697, 1336), "three": (697, 1477), "four": (770, 1209), "five": (770, 1336),
    "six": (770, 1477), "seven": (852, 1209), "eight": (852, 1336), "nine": (852, 1477), "zero": (941, 1336),
}  # fmt: skip
"""The two frequencies of each key, in Hz."""


def telephone(path: Path) -> None:
    """Two or three keys of a telephone, each two tones for 80 to 150 ms, with noise; transcribed in words."""
    draw, noise = random.Random(10), np.random.default_rng(10)
    rows = []
    for _ in range(300):
        keys = draw.choices(sorted(KEYS), k=draw.randint(2, 3))
        gap = np.zeros(int(RATE * draw.uniform(0.05, 0.1)))
        sound = np.concatenate([part for key in keys for part in (_tone(KEYS[key], draw.uniform(0.08, 0.15)), gap)])
        rows.append((" ".join(keys), sound + 0.01 * noise.standard_normal(len(sound))))
    _write_recordings(path, rows, RATE)


def _tone(frequencies: Sequence[float], seconds: float) -> Samples:
    time = np.arange(int(RATE * seconds)) / RATE
    return np.asarray(sum(0.3 * np.sin(2 * np.pi * frequency * time) for frequency in frequencies))


def _write_recordings(path: Path, recordings: Iterable[tuple[str, Samples]], rate: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for number, (text, sound) in enumerate(recordings):
        with wave.open(str(path / f"{number:03}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
        (path / f"{number:03}.txt").write_text(text)


SETS = [
    DataSet("speech", "spoken-digits", "digits spoken by espeak-ng", spoken_digits),
    DataSet("speech", "morse", "words in Morse code", morse),
    DataSet("speech", "telephone", "numbers as tones of a telephone", telephone),
]
