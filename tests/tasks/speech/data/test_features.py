"""Features against the libraries that others compute them with, and against the sums written out."""

import math

import kaldi_native_fbank as kaldi
import numpy as np
import pytest
import torch
from torch import Tensor
from transformers.audio_utils import mel_filter_bank

from porism.errors import RecipeError
from porism.tasks.speech.data.features import (
    FBANK,
    FEATURES,
    LJSPEECH,
    Fbank,
    Features,
    features_named,
    kaldi_filters,
    kaldi_mel,
    slaney_filters,
    slaney_hertz,
    slaney_mel,
)

BARE = Fbank(FBANK.rate, FBANK.window, FBANK.hop, FBANK.mels, evened=False)


def sound(samples: int, rate: int = 16_000, seed: int = 1) -> Tensor:
    """A gliding tone in noise, (samples,) in float64."""
    time = torch.arange(samples, dtype=torch.float64) / rate
    noise = torch.randn(samples, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return 0.3 * torch.sin(2 * math.pi * (200 + 400 * time) * time) + 0.05 * noise


@pytest.mark.parametrize("seconds", [0.025, 0.1, 1.7])
def test_fbank_is_what_kaldi_computes(seconds: float) -> None:
    samples = sound(int(seconds * 16_000)).float()
    options = kaldi.FbankOptions()
    options.frame_opts.dither = 0
    options.mel_opts.num_bins = 80
    theirs = kaldi.OnlineFbank(options)
    theirs.accept_waveform(16_000, (samples * 32_768).tolist())
    theirs.input_finished()
    rows = np.stack([theirs.get_frame(frame) for frame in range(theirs.num_frames_ready)])
    ours = BARE(samples)
    assert ours.shape == rows.shape
    # Logarithms of float32 energies that span fourteen decades; ours are the same in float64.
    assert torch.allclose(ours, torch.from_numpy(rows), atol=2e-3)
    assert torch.allclose(BARE(samples.double()).float(), torch.from_numpy(rows), atol=2e-3)


def test_the_published_features_from_the_sums_written_out() -> None:
    samples = sound(900, rate=22_050)
    mirrored = np.pad(samples.numpy(), 200, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(400), np.arange(201)) / 400)
    frames = np.stack([mirrored[start : start + 400] for start in range(0, 901, 160)])
    filters = mel_filter_bank(201, 80, 0.0, 22_050 / 2, 22_050, norm="slaney", mel_scale="slaney")
    logs = np.log10(np.maximum(np.abs((frames * window) @ waves) ** 2 @ filters, 1e-10))
    expected = (np.maximum(logs, logs.max() - 8) + 4) / 4
    assert LJSPEECH(samples).shape == (6, 80)
    assert torch.allclose(LJSPEECH(samples), torch.from_numpy(expected), rtol=1e-10, atol=1e-10)
    assert torch.allclose(LJSPEECH(samples.float()).double(), torch.from_numpy(expected), atol=1e-4)


def test_fbank_from_the_sums_written_out() -> None:
    samples = sound(1000)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85
    waves = np.exp(-2j * np.pi * np.outer(np.arange(400), np.arange(257)) / 512)
    rows = []
    for start in (0, 160, 320, 480):
        frame = samples.numpy()[start : start + 400] * 32_768
        frame = frame - frame.mean()
        raised = frame - 0.97 * np.concatenate([frame[:1], frame[:-1]])
        rows.append(np.log(np.abs((raised * window) @ waves) ** 2 @ kaldi_filters(16_000, 512, 80).numpy()))
    assert torch.allclose(BARE(samples), torch.from_numpy(np.stack(rows)), rtol=1e-9)


@pytest.mark.parametrize(("rate", "n_fft", "mels"), [(22_050, 400, 80), (16_000, 512, 40), (8_000, 256, 7)])
def test_slaney_filters_are_those_of_others(rate: int, n_fft: int, mels: int) -> None:
    theirs = mel_filter_bank(n_fft // 2 + 1, mels, 0.0, rate / 2, rate, norm="slaney", mel_scale="slaney")
    assert torch.allclose(slaney_filters(rate, n_fft, mels), torch.from_numpy(theirs), atol=1e-12)


def test_kaldi_filters_are_those_of_others() -> None:
    theirs = mel_filter_bank(257, 80, 20.0, 8_000.0, 16_000, mel_scale="kaldi", triangularize_in_mel_space=True)
    ours = kaldi_filters(16_000, 512, 80)
    assert torch.allclose(ours[:-1], torch.from_numpy(theirs)[:-1], atol=1e-12)
    assert not ours[-1].any()


def test_slaneys_scale_there_and_back() -> None:
    hertz = torch.tensor([0.0, 200.0, 999.0, 1000.0, 6400.0, 11_025.0], dtype=torch.float64)
    assert torch.allclose(slaney_hertz(slaney_mel(hertz)), hertz)
    assert slaney_mel(hertz)[[1, 3, 4]].tolist() == pytest.approx([3, 15, 42])
    assert float(kaldi_mel(torch.tensor(700.0))) == pytest.approx(1127 * math.log(2))


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys())
@pytest.mark.parametrize("samples", [1, 2, 7, 63, 399, 400, 401, 559, 560, 561, 4001])
def test_every_length_gives_the_frames_it_says(features: Features, samples: int) -> None:
    output = features(sound(samples))
    assert output.shape == (features.frames(samples), 80)
    assert output.isfinite().all()


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys())
def test_a_batch_is_its_sounds(features: Features) -> None:
    batch = torch.stack([sound(2000), 0.01 * sound(2000, seed=2)])
    for row, samples in zip(features(batch), batch, strict=True):
        assert torch.allclose(row, features(samples), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys())
def test_silence_has_no_infinite_depth(features: Features) -> None:
    assert features(torch.zeros(1600)).isfinite().all()


def test_loudness_does_not_show_when_bands_are_evened() -> None:
    output = FBANK(sound(8000))
    assert torch.allclose(output.mean(0), torch.zeros(80, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(output.square().mean(0), torch.ones(80, dtype=torch.float64))
    assert torch.allclose(FBANK(0.1 * sound(8000)), output, atol=1e-6)


def test_features_are_known_by_name() -> None:
    assert features_named("ljspeech") is LJSPEECH
    with pytest.raises(RecipeError, match=r"features=fbanks: .* Did you mean fbank\?"):
        features_named("fbanks")
