"""Short recordings for tests."""

from pathlib import Path

import numpy as np
import soundfile


def sound(path: Path, seed: int = 1) -> Path:
    """A tenth of a second of noise, in the format that the file's name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    container = "NIST" if path.suffix == ".sph" else None
    samples = 0.1 * np.random.default_rng(seed).standard_normal(1600)
    soundfile.write(path, samples, 16_000, subtype="PCM_16", format=container)
    return path
