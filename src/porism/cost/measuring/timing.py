"""The time of one pass forward and backward on a device: predicted from the counts, and measured beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from porism.cost.counting import count, tensors_of
from porism.cost.measuring import peaks
from porism.cost.measuring.clock import Timing, measure
from porism.cost.measuring.roofline import Prediction, predict, readable


@dataclass(frozen=True)
class Timed:
    """What was predicted of a device, and what it took."""

    device: str
    predicted: Prediction
    measured: Timing

    @property
    def ratio(self) -> float:
        return self.predicted.seconds / self.measured.median

    @property
    def text(self) -> str:
        measured = readable(self.measured.median)
        return (
            f"time on {self.device}: predicted {self.predicted.text}; measured {measured} "
            f"(median of {self.measured.repeats}), predicted over measured {self.ratio:.2f}"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "predicted_seconds": self.predicted.seconds,
            "measured_seconds": self.measured.median,
            "ratio": self.ratio,
            "bound": self.predicted.bound,
            "shares": dict(self.predicted.shares),
        }


def timed(
    called: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device, dtype: torch.dtype
) -> Timed:
    """Count, predict and measure a call whose tensors are on the device."""
    constants = peaks.of(device, dtype)
    predicted = predict(count(called, *args, **kwargs), constants)
    leaves: list[Tensor] = list(called.parameters()) if isinstance(called, nn.Module) else []
    leaves += [leaf for leaf in tensors_of([list(args), kwargs]) if leaf.requires_grad]

    def ends() -> list[Tensor]:
        return [end for end in tensors_of(called(*args, **kwargs)) if end.requires_grad]

    seeds = [torch.ones_like(end) for end in ends()]

    def step() -> None:
        reached = ends()
        for leaf in leaves:
            leaf.grad = None
        if reached:
            torch.autograd.backward(reached, seeds)

    return Timed(constants.device, predicted, measure(step, device))
