"""The embedded recordings: sentences of a small grammar in several voices, speeds and pitches, with noise.

They are synthesised once by espeak-ng and kept in the data folder as FLAC files with lists, like a user's own, so that
one can listen to them and transcribe them. Train, valid and test share no sentence.
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
from porism.files import cached
from porism.tasks.speech.catalogue import NAME
from porism.tasks.speech.data.audio import RATE, Sound, resample, write_flac
from porism.tasks.speech.data.espeak import RATE as ESPEAK_RATE
from porism.tasks.speech.data.espeak import SynthesisInput, speak
from porism.tasks.speech.data.lists import read_lists
from porism.tasks.speech.data.recordings import SPLITS, Recordings

COUNTS = {"train": 1200, "valid": 100, "test": 200}
SEED = 1
VOICES = ("en-us", "en-us+f2", "en-us+m3", "en-us+f4", "en-us+m7", "en-gb-x-rp")
SPEEDS = (160, 220)
PITCHES = (35, 65)
NOISE_DECIBELS = (20.0, 40.0)
"""The signal-to-noise ratio."""
FINGERPRINT = "fingerprint.txt"

Plan = dict[str, list[SynthesisInput]]


def embedded_recordings() -> Recordings:
    """The recordings from the data folder, synthesised first where they are missing or changed."""
    planned = plan(COUNTS, SEED)
    folder = cached(Path(NAME) / _digest(planned))
    return read_cached(folder) or synthesize(planned, folder)


def plan(counts: dict[str, int], seed: int) -> Plan:
    """The sentences of each split, with voice, speed and pitch."""
    texts = iter(sentences(sum(counts.values()), seed))
    generator = random.Random(seed)

    def between(low: int, high: int) -> int:
        return low + int(generator.random() * (high - low + 1))

    return {
        split: [
            SynthesisInput(next(texts), VOICES[between(0, len(VOICES) - 1)], between(*SPEEDS), between(*PITCHES))
            for _ in range(counts[split])
        ]
        for split in SPLITS
    }


def read_cached(folder: Path) -> Recordings | None:
    """The recordings of a folder, if all of them are present and unchanged."""
    try:
        recordings = read_lists(folder)
        same = recordings.fingerprint() == (folder / FINGERPRINT).read_text()
    except (DataError, OSError):
        return None
    return _named(recordings) if same else None


def synthesize(planned: Plan, folder: Path) -> Recordings:
    """Synthesises a plan's recordings into a folder, written under another name and renamed when it is complete."""
    sounds = iter(speak([utterance for split in SPLITS for utterance in planned[split]]))
    generator = np.random.default_rng(SEED)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            part = Path(name) / folder.name
            for split in SPLITS:
                (part / split).mkdir(parents=True)
                lines = []
                for number, utterance in enumerate(planned[split], start=1):
                    file = Path(split) / f"{split}-{number:04d}.flac"
                    (part / file).write_bytes(write_flac(_with_noise(next(sounds), generator)))
                    lines.append(f"{file.as_posix()}\t{utterance.text}\n")
                (part / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
            (part / FINGERPRINT).write_text(read_lists(part).fingerprint())
            if read_cached(folder) is None:  # else another process was faster
                shutil.rmtree(folder, ignore_errors=True)
                part.rename(folder)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be written ({error.strerror or error}). Set PORISM_DATA to a folder of yours."
        ) from None
    return _named(read_lists(folder))


def _named(recordings: Recordings) -> Recordings:
    """Under its own name, not that of its folder."""
    how_split = f"no sentence in two splits; the same {len(VOICES)} voices in all"
    return replace(recordings, name=NAME, facts={**recordings.facts, "split": how_split})


def _with_noise(sound: bytes, generator: np.random.Generator) -> Sound:
    """At 16 kHz, with white noise."""
    speech = torch.from_numpy(np.frombuffer(sound, "<i2").astype(np.float32) / 32_768)
    samples = resample(speech, ESPEAK_RATE, RATE)
    loudness = samples.square().mean().sqrt() * 10 ** (-generator.uniform(*NOISE_DECIBELS) / 20)
    noise = torch.from_numpy(generator.standard_normal(len(samples), dtype=np.float32))
    return Sound((samples + loudness * noise).clamp(-1, 1), RATE)


def _digest(planned: Plan) -> str:
    """Of a plan: other plans have other folders."""
    utterances = {split: [asdict(utterance) for utterance in planned[split]] for split in SPLITS}
    return hashlib.sha256(json.dumps([utterances, NOISE_DECIBELS]).encode()).hexdigest()[:12]


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
    """Different sentences in random order."""
    generator = random.Random(seed)
    distinct: dict[str, None] = {}
    while len(distinct) < count:
        distinct[_expand("{sentence}", generator)] = None
    return list(distinct)


def words() -> set[str]:
    """All words that can occur."""
    ends = [option for options in RULES.values() for option in options]
    return {word for option in ends for word in re.findall(r"[a-z]+", REFERENCE.sub("", option))}


def _expand(text: str, generator: random.Random) -> str:
    while reference := REFERENCE.search(text):
        options = RULES[reference[1]]
        # Of random's methods, random() alone gives the same numbers in every version of Python.
        chosen = options[int(generator.random() * len(options))]
        text = text[: reference.start()] + chosen + text[reference.end() :]
    return text
