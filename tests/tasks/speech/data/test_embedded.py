"""The embedded recordings: made once, the same every time, and of sentences that no two splits share."""

from pathlib import Path
from time import sleep

import pytest

from porism.errors import DataError, MissingExtra
from porism.tasks.speech.data import embedded as embedded_recordings
from porism.tasks.speech.data import espeak, load_recordings
from porism.tasks.speech.data.embedded import COUNTS, SEED, VOICES, plan, synthesize
from porism.tasks.speech.data.espeak import SynthesisInput, speak
from porism.tasks.speech.data.lists import read_lists
from porism.tasks.speech.data.recordings import SPLITS, Recordings

FEW = {"train": 5, "valid": 2, "test": 3}


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of the test's own, and only a few sentences to say."""
    monkeypatch.setenv("PORISM_DATA", str(tmp_path))
    monkeypatch.setattr(embedded_recordings, "COUNTS", FEW)
    return tmp_path


def of(recordings: Recordings) -> dict[str, list[str]]:
    return {split: [utterance.text for utterance in recordings.splits[split]] for split in SPLITS}


def test_the_splits_share_no_sentence() -> None:
    planned = plan(COUNTS, SEED)
    texts = [utterance.text for split in SPLITS for utterance in planned[split]]
    assert len(texts) == len(set(texts)) == sum(COUNTS.values())
    for split in SPLITS:
        assert {saying.voice for saying in planned[split]} == set(VOICES)


def test_they_are_made_once_and_kept(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = load_recordings()
    assert {split: len(texts) for split, texts in of(made).items()} == FEW
    assert made.name == "spoken"
    assert made.facts["split"] == "no sentence in two splits; the same 6 voices in all"
    assert all(0.5 < u.sound(16_000).seconds < 3 and not u.sound(16_000).notes for u in made.splits["train"])
    (folder,) = (few / "spoken").iterdir()
    assert made.splits["train"][0].source == folder / "train" / "train-0001.flac"
    monkeypatch.setattr(embedded_recordings, "speak", None)
    again = load_recordings("spoken")
    assert again.fingerprint() == made.fingerprint()
    assert of(again) == of(made)


def test_they_are_the_same_every_time(tmp_path: Path) -> None:
    planned = plan(FEW, SEED)
    one, other = (synthesize(planned, tmp_path / name) for name in ("one", "other"))
    assert one.fingerprint() == other.fingerprint()
    assert synthesize(plan(FEW, SEED + 1), tmp_path / "third").fingerprint() != one.fingerprint()


def test_what_was_changed_is_made_anew(few: Path) -> None:
    made = load_recordings()
    fingerprint, first = made.fingerprint(), made.splits["train"][0].source
    assert isinstance(first, Path)
    first.write_bytes(b"spoiled")
    assert read_lists(first.parent.parent).fingerprint() != fingerprint
    assert load_recordings().fingerprint() == fingerprint
    first.unlink()
    assert load_recordings().fingerprint() == fingerprint


def test_another_voice_is_another_sound() -> None:
    sounds = speak([SynthesisInput("hello there", voice, 180, 50) for voice in VOICES])
    assert len(set(sounds)) == len(VOICES)
    assert all(0.4 < len(sound) / 2 / espeak.RATE < 1.5 for sound in sounds)
    slow, fast = speak([SynthesisInput("hello there", VOICES[0], speed, 50) for speed in (120, 240)])
    assert len(slow) > 1.4 * len(fast)


def test_the_clock_has_no_say() -> None:
    """Some voices breathe at random, seeded by the library from the clock."""
    sayings = [SynthesisInput("hello there", voice, 180, 50) for voice in VOICES]
    first = speak(sayings)
    sleep(1.1)
    assert speak(sayings) == first


def test_a_missing_package_is_named(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(espeak, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match=r'espeakng-loader, which is not installed: pip install "porism\[audio\]"'):
        load_recordings()


def test_what_espeak_says_is_passed_on() -> None:
    with pytest.raises(DataError, match=r"espeak-ng could not speak \(no voice nobody\)"):
        speak([SynthesisInput("hello", "nobody", 180, 50)])


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written .* Set PORISM_DATA to a folder of yours"):
        synthesize(plan(FEW, SEED), tmp_path / "file" / "spoken")
