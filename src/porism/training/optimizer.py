"""The optimizer a recipe asks for, and its learning rate as a plain function of the step."""

import math
from collections.abc import Callable, Iterable
from functools import cache
from inspect import unwrap
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adam, AdamW, Optimizer

from porism.runs.recipe import Recipe

TOLD_TO_COMPILER = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")
"""Methods of an optimizer that torch wraps for its compiler."""


class ParameterGroup(NamedTuple):
    """Parameters that learn at `lr_scale` times the learning rate."""

    parameters: list[Parameter]
    lr_scale: float = 1.0


def make(
    recipe: Recipe, parameters: Iterable[Parameter | ParameterGroup], device: torch.device, *, in_shards: bool = False
) -> Optimizer:
    """A fresh optimizer. On CUDA its rates are tensors, so that a captured step sees them change.

    in_shards: of parameters of which each process holds a part. torch has no fused SGD for those.
    """
    on_gpu = device.type == "cuda"
    chosen = _groups(recipe, parameters, device)
    if recipe.optimizer == "sgd":
        return _uncompiled(SGD)(chosen, weight_decay=recipe.weight_decay, fused=not in_shards)
    kind = _uncompiled(Adam if recipe.optimizer == "adam" else AdamW)
    return kind(chosen, weight_decay=recipe.weight_decay, fused=True, capturable=on_gpu)


@cache
def _uncompiled(kind: Callable[..., Optimizer]) -> Callable[..., Optimizer]:
    """The same optimizer without what torch says of it to its compiler.

    To say it torch loads the compiler, as soon as an optimizer is made and as it steps: a second and more of every
    training, in which nothing is compiled.
    """
    methods = {name: unwrap(getattr(kind, name)) for name in TOLD_TO_COMPILER}
    # What wraps a step beside that is the mode it runs in.
    methods["step"] = torch.no_grad()(methods["step"])
    return type(kind.__name__, (kind,), methods)  # type: ignore[arg-type]


def _groups(
    recipe: Recipe, parameters: Iterable[Parameter | ParameterGroup], device: torch.device
) -> list[dict[str, Any]]:
    """What is trained, as torch takes it: single parameters in one group, and the groups as they are."""
    given = list(parameters)
    single = [p for p in given if isinstance(p, Parameter)]
    groups = [ParameterGroup(single)] * bool(single) + [group for group in given if isinstance(group, ParameterGroup)]
    made = []
    for group in groups:
        rate = group.lr_scale * recipe.learning_rate
        trained = [p for p in group.parameters if p.requires_grad]
        # Each group has a tensor of its own: one is changed without the others.
        lr = torch.tensor(rate, device=device) if device.type == "cuda" else rate
        made.append({"params": trained, "lr": lr, "lr_scale": group.lr_scale})
    return [group for group in made if group["params"]]


def rate_at(recipe: Recipe, step: int, steps: int) -> float:
    """The learning rate of one step (from 0) out of all the steps of all epochs.

    >>> rate_at(recipe, step=0, steps=1000)      # with warmup=10: a tenth of learning_rate
    """
    rise = min(1.0, (step + 1) / recipe.warmup_steps) if recipe.warmup_steps else 1.0
    done = min(1.0, max(0, step - recipe.warmup_steps) / max(1, steps - recipe.warmup_steps))
    fall = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[recipe.lr_scheduler]
    return recipe.learning_rate * rise * fall


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Change the learning rate in place, in each group by its own scale."""
    for group in optimizer.param_groups:
        own = group.get("lr_scale", 1.0) * rate
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def state_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's memory as named tensors."""
    states: dict[int, dict[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"{index}.{key}": value for index, state in states.items() for key, value in state.items() if value is not None
    }


def load_state(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give the optimizer its memory back. ValueError where it is that of other parameters: torch takes any."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    states: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, _, key = name.partition(".")
        if not 0 <= int(index) < len(parameters) or (value.dim() and value.shape != parameters[int(index)].shape):
            raise ValueError(f"{name} is {tuple(value.shape)}, which is the shape of no parameter there")
        states.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
