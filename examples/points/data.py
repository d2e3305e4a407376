"""Points of two classes: from a CSV file with `x,y,label` in each line, or two moons drawn here."""

import math
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from porism.errors import DataError

SPLITS = {"train": 0.7, "valid": 0.15, "test": 0.15}


class LabelledPoints(NamedTuple):
    """Points (N, 2), their labels (N,) and the classes' names."""

    points: Tensor
    labels: Tensor
    classes: tuple[str, ...]


def two_moons(count: int = 240) -> LabelledPoints:
    """The embedded default: two half circles that reach into each other, the same on every machine."""
    generator = torch.Generator().manual_seed(0)
    angles = math.pi * torch.rand(count, generator=generator)
    labels = torch.arange(count) % 2
    upper = torch.stack([angles.cos(), angles.sin()], dim=1)  # N 2
    lower = torch.stack([1 - angles.cos(), 0.5 - angles.sin()], dim=1)
    noise = 0.1 * torch.randn(count, 2, generator=generator)
    return LabelledPoints(torch.where(labels[:, None] == 0, upper, lower) + noise, labels, ("upper", "lower"))


def read_points(path: Path) -> LabelledPoints:
    """A CSV file. The first line that is no point is named."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {line}: no UTF-8. Give a text file with x,y,label in each line.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Give a CSV file.") from None
    rows = [_point(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    classes = tuple(dict.fromkeys(label for _, _, label in rows))
    if len(rows) < 20 or len(classes) < 2:
        raise DataError(f"{path} has {len(rows)} points of {len(classes)} classes, expected 20 of 2 or more.")
    points = torch.tensor([row[:2] for row in rows])
    return LabelledPoints(points, torch.tensor([classes.index(label) for *_, label in rows]), classes)


def _point(line: str, where: str) -> tuple[float, float, str]:
    parts = [part.strip() for part in line.split(",")]
    try:
        x, y, label = float(parts[0]), float(parts[1]), parts[2]
        if len(parts) != 3 or not label or not math.isfinite(x + y):
            raise ValueError
    except (ValueError, IndexError):
        raise DataError(f"{where}: {line[:40]!r} is no point. Write x,y,label, for instance 0.5,-1,upper.") from None
    return x, y, label


def split_places(count: int) -> dict[str, Tensor]:
    """Which points are in which split: shuffled once, the same for every seed of a training."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    sizes = [int(share * count) for share in SPLITS.values()]
    sizes[0] += count - sum(sizes)
    return dict(zip(SPLITS, order.split(sizes), strict=True))
