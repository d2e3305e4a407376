"""Log-mel spectrograms: the energies of mel bands, a frame every ten milliseconds or so.

>>> FBANK(torch.randn(16_000)).shape            # a second at 16 kHz
torch.Size([98, 80])
>>> LJSPEECH(torch.randn(22_050)).shape         # a second at 22.05 kHz
torch.Size([138, 80])

Computed in the dtype of the samples. Sounds shorter than a window are padded with silence.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from porism.errors import RecipeError, nearest

LINEAR_BELOW = 1000.0
"""Slaney's scale is linear below, 3 mels for 200 Hz, and logarithmic above: 27 mels for a factor of 6.4."""
MELS_PER_HERTZ = 3 / 200
MELS_PER_LOG = 27 / math.log(6.4)


def slaney_mel(hertz: Tensor) -> Tensor:
    above = LINEAR_BELOW * MELS_PER_HERTZ + MELS_PER_LOG * (hertz.clamp(min=LINEAR_BELOW) / LINEAR_BELOW).log()
    return torch.where(hertz < LINEAR_BELOW, hertz * MELS_PER_HERTZ, above)


def slaney_hertz(mel: Tensor) -> Tensor:
    above = LINEAR_BELOW * ((mel - LINEAR_BELOW * MELS_PER_HERTZ) / MELS_PER_LOG).exp()
    return torch.where(mel < LINEAR_BELOW * MELS_PER_HERTZ, mel / MELS_PER_HERTZ, above)


def kaldi_mel(hertz: Tensor) -> Tensor:
    return 1127 * (1 + hertz / 700).log()


def slaney_filters(rate: int, n_fft: int, mels: int) -> Tensor:
    """(n_fft // 2 + 1, mels) in float64, from 0 to half the rate: straight in hertz, each of area 1 (in hertz)."""
    frequencies = torch.linspace(0, rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    low, high = slaney_mel(torch.tensor([0.0, rate / 2], dtype=torch.float64))
    corners = slaney_hertz(torch.linspace(low, high, mels + 2, dtype=torch.float64))
    return _triangles(frequencies, corners) * (2 / (corners[2:] - corners[:-2]))


def kaldi_filters(rate: int, n_fft: int, mels: int, lowest: float = 20.0) -> Tensor:
    """(n_fft // 2 + 1, mels) in float64, from `lowest` to half the rate: straight in mels, each of height 1."""
    frequencies = torch.linspace(0, rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    low, high = kaldi_mel(torch.tensor([lowest, rate / 2], dtype=torch.float64))
    corners = torch.linspace(low, high, mels + 2, dtype=torch.float64)
    filters = _triangles(kaldi_mel(frequencies), corners)
    # Kaldi leaves out the last frequency, half the rate itself.
    filters[-1] = 0
    return filters


def _triangles(frequencies: Tensor, corners: Tensor) -> Tensor:
    """(F, mels): up from each corner to the next, and down to the one after."""
    low, peak, high = corners[:-2], corners[1:-1], corners[2:]
    rising = (frequencies[:, None] - low) / (peak - low)
    falling = (high - frequencies[:, None]) / (high - peak)
    return torch.minimum(rising, falling).clamp(min=0)


@dataclass(frozen=True)
class Features(ABC):
    """Frames of `window` samples, `hop` apart, each as the energies of `mels` bands.

    Shapes: samples (T,) or (B, T) -> (frames, mels) or (B, frames, mels).
    """

    rate: int
    window: int
    hop: int
    mels: int

    def __call__(self, samples: Tensor) -> Tensor:
        short = self.window - samples.shape[-1]
        return self.compute(functional.pad(samples, (0, short)) if short > 0 else samples)

    @abstractmethod
    def compute(self, samples: Tensor) -> Tensor:
        """The features of at least a window of samples."""

    @abstractmethod
    def frames(self, samples: int) -> int:
        """How many frames so many samples give."""


@dataclass(frozen=True)
class LogMel(Features):
    """Energies as decimal logarithms, the lowest cut off.

    x = log10 max(E, 1e-10)        y = (max(x, max over all of x - 8) + 4) / 4

    Frames are centred on every `hop`-th sample, the sound being mirrored at its ends.
    """

    floor: float = 1e-10
    depth: float = 8.0

    def compute(self, samples: Tensor) -> Tensor:
        window = torch.hann_window(self.window, dtype=samples.dtype, device=samples.device)
        spectrum = torch.stft(samples, self.window, self.hop, window=window, pad_mode="reflect", return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square()  # (..., F, frames)
        energies = power.mT @ _slaney(self.rate, self.window, self.mels).to(samples)
        logs = energies.clamp(min=self.floor).log10()
        top = logs.amax(dim=(-2, -1), keepdim=True)
        return (torch.maximum(logs, top - self.depth) + 4) / 4

    def frames(self, samples: int) -> int:
        return 1 + max(samples, self.window) // self.hop


@dataclass(frozen=True)
class Fbank(Features):
    """Energies as natural logarithms, from frames and windows as in Kaldi; `evened`: bands of mean 0 and variance 1.

    Each frame lies wholly in the sound, loses its mean, has its high frequencies raised (x[t] - 0.97 x[t-1]) and is
    weighed by Povey's window, (1/2 - 1/2 cos)^0.85. Samples count as 16-bit numbers do.
    """

    evened: bool = True
    emphasis: float = 0.97
    scale: float = 32_768.0

    def compute(self, samples: Tensor) -> Tensor:
        frames = (samples * self.scale).unfold(-1, self.window, self.hop)  # (..., frames, window)
        frames = frames - frames.mean(-1, keepdim=True)
        # A frame's first sample counts as its own predecessor.
        previous = torch.cat([frames[..., :1], frames[..., :-1]], -1)
        weights = torch.hann_window(self.window, periodic=False, dtype=samples.dtype, device=samples.device) ** 0.85
        n_fft = 1 << (self.window - 1).bit_length()
        spectrum = torch.fft.rfft((frames - self.emphasis * previous) * weights, n_fft)
        power = spectrum.real.square() + spectrum.imag.square()  # (..., frames, F)
        energies = power @ _kaldi(self.rate, n_fft, self.mels).to(samples)
        logs = energies.clamp(min=torch.finfo(torch.float32).eps).log()
        return _even(logs) if self.evened else logs

    def frames(self, samples: int) -> int:
        return 1 + (max(samples, self.window) - self.window) // self.hop


LJSPEECH = LogMel(rate=22_050, window=400, hop=160, mels=80)
"""The features of the published experiment."""
FBANK = Fbank(rate=16_000, window=400, hop=160, mels=80)
FEATURES: Mapping[str, Features] = {"ljspeech": LJSPEECH, "fbank": FBANK}


def features_named(name: str) -> Features:
    """The features a recipe names."""
    if name not in FEATURES:
        raise RecipeError(f"features={name}: unknown name. {nearest(name, list(FEATURES))}")
    return FEATURES[name]


def _even(logs: Tensor) -> Tensor:
    centred = logs - logs.mean(-2, keepdim=True)
    # A band that never changes, as in silence, stays at 0.
    return centred / centred.square().mean(-2, keepdim=True).sqrt().clamp(min=1e-3)


# Computing the filters takes longer than applying them.
_slaney = lru_cache(slaney_filters)
_kaldi = lru_cache(kaldi_filters)
