"""The embedded recordings: sentences of a small grammar in several voices, speeds and pitches, with noise.

They are made once by espeak-ng and kept in the data folder as FLAC files with lists, as any user's would be, so they
can be listened to and transcribed. Train, valid and test share no sentence.
"""

import hashlib
import json
import random
import re
import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from porism.errors import DataError
from porism.tasks.blocks.download import data_folder
from porism.tasks.speech.data.audio import RATE, Sound, resample, write_flac
from porism.tasks.speech.data.espeak import RATE as ESPEAK_RATE
from porism.tasks.speech.data.espeak import Spoken, speak
from porism.tasks.speech.data.lists import read_lists
from porism.tasks.speech.data.recordings import SPLITS, Recordings

NAME = "spoken"
COUNTS = {"train": 1200, "valid": 100, "test": 200}
SEED = 1
VOICES = ("en-us", "en-us+f2", "en-us+m3", "en-us+f4", "en-us+m7", "en-gb-x-rp")
SPEEDS = (160, 220)
PITCHES = (35, 65)
NOISE_DECIBELS = (20.0, 40.0)
"""How far the noise lies below the speech."""
FINGERPRINT = "fingerprint.txt"

Plan = dict[str, list[Spoken]]


def spoken() -> Recordings:
    """The recordings from the data folder, made first where they are not there or not as they were made."""
    planned = plan(COUNTS, SEED)
    folder = data_folder() / NAME / _digest(planned)
    return kept(folder) or make(planned, folder)


def plan(counts: dict[str, int], seed: int) -> Plan:
    """What is said in each split, and how."""
    said = iter(sentences(sum(counts.values()), seed))
    draw = random.Random(seed)

    def between(low: int, high: int) -> int:
        return low + int(draw.random() * (high - low + 1))

    return {
        split: [
            Spoken(next(said), VOICES[between(0, len(VOICES) - 1)], between(*SPEEDS), between(*PITCHES))
            for _ in range(counts[split])
        ]
        for split in SPLITS
    }


def kept(folder: Path) -> Recordings | None:
    """The recordings of a folder, if all of them are there and unchanged."""
    try:
        found = read_lists(folder)
        same = found.fingerprint() == (folder / FINGERPRINT).read_text()
    except (DataError, OSError):
        return None
    return _named(found) if same else None


def make(planned: Plan, folder: Path) -> Recordings:
    """Speaks what is planned into a folder. It is written under another name first: half of it never looks whole."""
    said = iter(speak([saying for split in SPLITS for saying in planned[split]]))
    draw = np.random.default_rng(SEED)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            part = Path(name) / folder.name
            for split in SPLITS:
                (part / split).mkdir(parents=True)
                lines = []
                for number, saying in enumerate(planned[split], start=1):
                    file = Path(split) / f"{split}-{number:04d}.flac"
                    (part / file).write_bytes(write_flac(_with_noise(next(said), draw)))
                    lines.append(f"{file.as_posix()}\t{saying.text}\n")
                (part / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
            (part / FINGERPRINT).write_text(read_lists(part).fingerprint())
            if kept(folder) is None:  # else another process was faster
                shutil.rmtree(folder, ignore_errors=True)
                part.rename(folder)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be written ({error.strerror or error}). Set PORISM_DATA to a folder of yours."
        ) from None
    return _named(read_lists(folder))


def _named(found: Recordings) -> Recordings:
    """Called by what it is, not by the folder it lies in."""
    return replace(found, name=NAME, facts={**found.facts, "split": "no sentence in two splits"})


def _with_noise(sound: bytes, draw: np.random.Generator) -> Sound:
    """At 16 kHz, with white noise."""
    speech = torch.from_numpy(np.frombuffer(sound, "<i2").astype(np.float32) / 32_768)
    samples = resample(speech, ESPEAK_RATE, RATE)
    loudness = samples.square().mean().sqrt() * 10 ** (-draw.uniform(*NOISE_DECIBELS) / 20)
    noise = torch.from_numpy(draw.standard_normal(len(samples), dtype=np.float32))
    return Sound((samples + loudness * noise).clamp(-1, 1), RATE)


def _digest(planned: Plan) -> str:
    """So that another plan is kept apart."""
    told = {split: [asdict(saying) for saying in planned[split]] for split in SPLITS}
    return hashlib.sha256(json.dumps([told, NOISE_DECIBELS]).encode()).hexdigest()[:12]


RULES: dict[str, tuple[str, ...]] = {
    "sentence": ("{order}", "{order}", "{question}", "{report}", "{count}"),
    "order": ("{do} {one} {thing} {place}", "{do} {one} {colour} {thing}", "{do} it {place} {when}"),
    "question": ("where is {one} {colour} {thing}?", "who can {do} {one} {thing}?", "is {one} {animal} {place}?"),
    "report": ("{one} {animal} {does} {place}", "{one} {colour} {animal} {does} {when}"),
    "count": ("{number} {animals} {act} {place}", "we saw {number} {animals} {when}"),
    "do": ("bring", "find", "hide", "move", "wash", "keep", "drop"),
    "one": ("the", "my", "your", "her"),
    "colour": ("red", "blue", "green", "yellow", "black", "white", "old", "small"),
    "thing": ("box", "cup", "coat", "letter", "lamp", "basket", "spoon", "picture", "hammer"),
    "animal": ("dog", "cat", "horse", "bird", "rabbit"),
    "animals": ("dogs", "cats", "horses", "birds", "rabbits"),
    "does": ("sleeps", "waits", "runs", "eats"),
    "act": ("sleep", "wait", "run", "eat"),
    "place": ("under the table", "behind the door", "near the river", "in the garden", "on the roof", "at home"),
    "when": ("today", "tomorrow", "at night", "on monday", "on friday", "every morning"),
    "number": ("two", "three", "four", "five", "six", "seven", "eight", "nine"),
}
REFERENCE = re.compile(r"\{(\w+)\}")


def sentences(count: int, seed: int) -> list[str]:
    """So many different sentences, in an order that the seed decides."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[_expand("{sentence}", draw)] = None
    return list(found)


def words() -> set[str]:
    """All words that can occur."""
    ends = [option for options in RULES.values() for option in options]
    return {word for option in ends for word in re.findall(r"[a-z]+", REFERENCE.sub("", option))}


def _expand(text: str, draw: random.Random) -> str:
    while reference := REFERENCE.search(text):
        options = RULES[reference[1]]
        # random() alone is promised to draw the same from one Python to the next.
        chosen = options[int(draw.random() * len(options))]
        text = text[: reference.start()] + chosen + text[reference.end() :]
    return text
