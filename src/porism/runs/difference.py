"""What a run on the disk holds, against what is requested of it now."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from porism.runs.run import RunFolder

EMBEDDED = "the embedded data"


def facts_of(run: "RunFolder") -> dict[str, Any]:
    """What a run holds beside its recipe's fields."""
    facts = run.facts
    return {
        "task": facts.task,
        "recipe": facts.recipe,
        "data": facts.source or EMBEDDED,
        "seed": facts.seed,
        "device": facts.device,
        "precision": facts.precision,
        "threads": facts.threads,
    }


def differences(held: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    """Each thing that is requested otherwise than the run holds it, in words.

    >>> differences({"seed": 1, "threads": 2, "max_grad_norm": None}, {"seed": 7, "max_grad_norm": 0.5})
    ['seed is 1, requested 7', 'max_grad_norm is none, requested 0.5']
    """
    return [
        f"{name} is {_shown(held[name])}, requested {_shown(value)}"
        for name, value in requested.items()
        if not (held[name] == value or (name == "device" and _first(held[name]) == _first(value)))
    ]


def _first(device: str) -> str:
    """`cuda` is `cuda:0`."""
    return device.removesuffix(":0")


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
