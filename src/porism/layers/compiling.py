"""Marks on functions for torch.compile, made without loading the compiler."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

Called = TypeVar("Called", bound=Callable[..., object])
P = ParamSpec("P")
R = TypeVar("R")


def assume_constant_result(function: Called) -> Called:
    """torch.compiler.assume_constant_result: the compiler calls the function while it traces and keeps its answer.

    Torch's own, which leaves the same mark, imports the whole compiler to do so: seconds of every program that imports
    a layer and compiles nothing.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def uncompiled(function: Callable[P, R], reason: str) -> Callable[P, R]:
    """torch.compiler.disable: compiled code calls the function as it is, and refuses a full graph for the reason given.

    Torch's own imports the whole compiler at once, this one where compiled code calls.
    """

    @wraps(function)
    def as_it_is(*args: P.args, **kwargs: P.kwargs) -> R:
        disabled: Callable[P, R] = torch.compiler.disable(function, reason=reason)
        return disabled(*args, **kwargs)

    marked: Any = as_it_is
    marked._torchdynamo_disable, marked._torchdynamo_disable_msg = True, reason
    return as_it_is
