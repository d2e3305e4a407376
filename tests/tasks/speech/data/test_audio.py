"""Recordings of every kind are read to the same sound, and bad ones get one clear line."""

import math
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from porism.errors import DataError, MissingExtra
from porism.tasks.speech.data import audio
from porism.tasks.speech.data.audio import Sound, read_sound, resample, write_flac, write_wav

Write = Callable[..., Path]
KINDS = {"wav": "PCM_16", "flac": "PCM_16", "ogg": "VORBIS", "opus": "OPUS", "mp3": "MPEG_LAYER_III", "sph": "PCM_16"}
CONTAINERS = {"opus": "OGG", "sph": "NIST"}


def tone(seconds: float, rate: int) -> NDArray[np.float32]:
    """440 Hz, between -0.4 and 0.4."""
    return (0.4 * np.sin(2 * math.pi * 440 * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(samples: NDArray[np.float32], rate: int, kind: str = "wav", subtype: str | None = None) -> Path:
        path = tmp_path / f"sound.{kind}"
        container = CONTAINERS.get(kind, kind.upper())
        soundfile.write(path, samples, rate, format=container, subtype=subtype or KINDS[kind])
        return path

    return written


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [8_000, 16_000, 48_000])
def test_every_kind_and_rate_gives_the_same_sound(write: Write, kind: str, rate: int) -> None:
    sound = read_sound(write(tone(1.5, rate), rate, kind), 16_000)
    assert sound.rate == 16_000
    assert sound.samples.dtype == torch.float32
    # A codec may add a frame of silence.
    assert sound.seconds == pytest.approx(1.5, abs=0.06)
    assert sound.notes == (() if rate == 16_000 else (f"resampled from {rate} Hz",))
    middle = sound.samples[4000:12_000]
    spectrum = torch.fft.rfft(middle).abs()
    assert int(spectrum.argmax()) == 220  # 440 Hz in half a second
    assert float(middle.square().mean().sqrt()) == pytest.approx(0.4 / math.sqrt(2), abs=0.03)


def test_channels_are_mixed_down_and_noted(write: Write) -> None:
    left, right = tone(0.5, 16_000), np.zeros(8000, np.float32)
    sound = read_sound(write(np.stack([left, right], 1), 16_000))
    assert sound.notes == ("2 channels mixed down",)
    assert torch.allclose(sound.samples, torch.from_numpy(left / 2), atol=1e-4)


def test_both_notes(write: Write) -> None:
    sound = read_sound(write(np.stack([tone(0.5, 44_100)] * 3, 1), 44_100))
    assert sound.notes == ("3 channels mixed down", "resampled from 44100 Hz")


def test_eight_bits_are_fine(write: Write) -> None:
    sound = read_sound(write(tone(0.5, 16_000), 16_000, subtype="PCM_U8"))
    assert torch.allclose(sound.samples, torch.from_numpy(tone(0.5, 16_000)), atol=1 / 128)


@pytest.mark.parametrize("samples", [1, 2, 7, 63])
def test_very_short_sounds(write: Write, samples: int) -> None:
    assert len(read_sound(write(np.full(samples, 0.25, np.float32), 16_000)).samples) == samples


def test_blocks_do_not_show(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tone(2, 44_100), 44_100)
    whole = read_sound(path).samples
    monkeypatch.setattr(audio, "BLOCK_FRAMES", 1001)
    assert torch.equal(read_sound(path).samples, whole)
    assert torch.equal(resample(torch.from_numpy(soundfile.read(path, dtype="float32")[0]), 44_100, 16_000), whole)


@pytest.mark.parametrize("order", ["<i2", ">i2"])
def test_bare_samples_in_either_byte_order(tmp_path: Path, order: str) -> None:
    path = tmp_path / "an1-fash-b.raw"
    path.write_bytes((tone(0.5, 16_000) * 32_767).astype(order).tobytes())
    sound = read_sound(path)
    assert sound.notes == ("no header, read as 16 bits a sample, one channel, 16000 Hz",)
    assert torch.allclose(sound.samples, torch.from_numpy(tone(0.5, 16_000)), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.5, 0.97])
def test_a_recording_that_breaks_off(write: Write, kind: str, share: float) -> None:
    path = write(tone(3, 16_000), 16_000, kind)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"sound\.\w+: not a whole recording \(.*\)\. Copy it again\.$"):
        read_sound(path)


def test_a_stream_that_never_put_in_its_length(write: Write) -> None:
    path = write(tone(0.5, 16_000), 16_000)
    content = bytearray(path.read_bytes())
    offset = content.index(b"data") + 4
    content[offset : offset + 4] = struct.pack("<I", 0xFFFFFFFF)
    path.write_bytes(content)
    assert read_sound(path).seconds == 0.5


def test_an_mp3_that_does_not_tell_its_length(tmp_path: Path) -> None:
    path = tmp_path / "sound.mp3"
    soundfile.write(path, tone(2, 16_000), 16_000, compression_level=0.5, bitrate_mode="CONSTANT")
    content = path.read_bytes()
    assert b"Info" in content
    path.write_bytes(content.replace(b"Info", bytes(4)))
    assert read_sound(path).seconds == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("empty.wav", b"", r"empty\.wav: empty, 0 bytes\. Give a recording with sound\."),
        ("empty.mp3", b"", r"empty\.mp3: empty, 0 bytes\."),
        (
            "text.wav",
            b"hello world" * 9,
            r"text\.wav: not a recording that can be read\. Give a WAV, FLAC, OGG or MP3\.",
        ),
        ("page.mp3", b"<html>not found</html>", r"page\.mp3: not a recording that can be read\."),
        ("text.ogg", b"hello world" * 9, r"text\.ogg: not a recording"),
        ("short.sph", b"NIST_1A\n", r"short\.sph: not a recording"),
        ("short.ogg", b"OggS", r"short\.ogg: not a whole recording"),
        ("short.wav", b"RIFF\x24\0\0\0WAVEfmt ", r"short\.wav: not a recording"),
    ],
)
def test_what_is_no_recording(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, content: bytes, line: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=line) as raised:
        read_sound(tmp_path / name)
    assert "\n" not in str(raised.value)
    # The decoders print nothing of their own.
    assert capfd.readouterr() == ("", "")


def test_no_samples(write: Write) -> None:
    with pytest.raises(DataError, match=r"sound\.wav: no samples in it, 0 s\. Give a recording with sound\."):
        read_sound(write(np.zeros(0, np.float32), 16_000))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_sample_that_is_no_number(write: Write, bad: float) -> None:
    samples = tone(0.5, 16_000)
    samples[4000] = bad
    with pytest.raises(DataError, match=r"sound\.wav: a sample at 0\.250 s is not a number\."):
        read_sound(write(samples, 16_000, subtype="FLOAT"))


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.wav: no such file\. Check the path\."):
        read_sound(tmp_path / "none.wav")
    with pytest.raises(DataError, match="a folder, expected a recording"):
        read_sound(tmp_path)


def test_an_utterance_is_never_longer_than_the_limit(write: Write) -> None:
    path = write(np.zeros(8_000 * 3, np.float32), 8_000)
    assert read_sound(path, longest=3).seconds == 3
    with pytest.raises(DataError, match=r"longer than 2\.5 s, .*to predict, it is transcribed in segments"):
        read_sound(path, longest=2.5)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    sound = Sound(torch.from_numpy(tone(0.5, 16_000)), 16_000)
    for name, content in (("a.wav", write_wav(sound)), ("a.flac", write_flac(sound))):
        (tmp_path / name).write_bytes(content)
        assert torch.allclose(read_sound(tmp_path / name).samples, sound.samples, atol=1e-4)


def test_a_sound_too_loud_is_cut_off_and_not_turned_over(tmp_path: Path) -> None:
    (tmp_path / "loud.wav").write_bytes(write_wav(Sound(torch.tensor([1.5, -1.5]), 16_000)))
    assert read_sound(tmp_path / "loud.wav").samples.tolist() == pytest.approx([1, -1], abs=1e-3)


@pytest.mark.parametrize("package", ["soundfile", "soxr"])
def test_a_missing_package_is_named(write: Write, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    path = write(tone(0.1, 8_000), 8_000)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf'{package}, which is not installed: pip install "porism\[audio\]"'):
        read_sound(path)
