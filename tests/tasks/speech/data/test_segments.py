"""Long recordings are cut at pauses, and no sample is lost."""

from itertools import accumulate
from pathlib import Path

import pytest
import soundfile
import torch

from porism.tasks.speech.data import audio
from porism.tasks.speech.data.audio import Sound
from porism.tasks.speech.data.segments import last_pause, read_segments, segments


def noise(seconds: float, rate: int = 1000, seed: int = 1) -> torch.Tensor:
    return 0.3 * torch.randn(int(seconds * rate), generator=torch.Generator().manual_seed(seed)).clamp(-3, 3)


@pytest.mark.parametrize("seconds", [0.001, 0.5, 2, 7, 63])
@pytest.mark.parametrize("longest", [0.01, 1, 2.5])
def test_the_segments_are_the_whole(seconds: float, longest: float) -> None:
    sound = Sound(noise(seconds), 1000, ("2 channels mixed down",))
    cut = segments(sound, longest)
    assert torch.equal(torch.cat([segment.samples for segment in cut]), sound.samples)
    assert all(0 < segment.seconds <= longest for segment in cut)
    assert all(segment.rate == 1000 and segment.notes[0] == "2 channels mixed down" for segment in cut)


def test_pauses_are_where_the_cuts_are() -> None:
    samples = noise(30)
    for second in (7.5, 16.0, 23.2):
        samples[int((second - 0.15) * 1000) : int((second + 0.15) * 1000)] *= 0.01
    cut = segments(Sound(samples, 1000), seconds=10)
    ends = [end / 1000 for end in accumulate(len(segment.samples) for segment in cut)]
    assert ends == pytest.approx([7.5, 16.0, 23.2, 30], abs=0.15)
    assert cut[1].notes == (f"from {ends[0]:.1f} s to {ends[1]:.1f} s",)


def test_a_short_closure_is_no_pause() -> None:
    samples = noise(10)
    samples[9000:9030] = 0
    samples[7000:7200] *= 0.1
    assert last_pause(samples, 1000) == pytest.approx(7100, abs=60)


def test_a_short_sound_is_the_only_piece_and_keeps_its_notes() -> None:
    sound = Sound(noise(3), 1000, ("resampled from 8000 Hz",))
    (only,) = segments(sound, seconds=3)
    assert only.notes == sound.notes


def test_an_hour_is_read_in_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rate, hour = 100, 3600
    path = tmp_path / "hour.wav"
    soundfile.write(path, noise(hour, rate).numpy(), rate)
    monkeypatch.setattr(audio, "BLOCK_FRAMES", 700)
    cut = list(read_segments(path, rate, seconds=20))
    assert 180 <= len(cut) <= 360
    assert all(segment.seconds <= 20 for segment in cut)
    whole = torch.from_numpy(soundfile.read(path, dtype="float32")[0])
    assert torch.equal(torch.cat([segment.samples for segment in cut]), whole)
    assert cut[-1].notes[-1].endswith("to 3600.0 s")


def test_a_file_and_a_sound_are_cut_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "talk.flac"
    soundfile.write(path, noise(9).numpy(), 1000)
    whole = segments(audio.read_sound(path, 1000), seconds=2)
    monkeypatch.setattr(audio, "BLOCK_FRAMES", 333)
    for one, other in zip(whole, read_segments(path, 1000, seconds=2), strict=True):
        assert torch.equal(one.samples, other.samples)
        assert one.notes == other.notes
