"""torch.compile told about a function, without loading the compiler."""

from collections.abc import Callable
from typing import TypeVar

Called = TypeVar("Called", bound=Callable[..., object])


def assume_constant_result(function: Called) -> Called:
    """torch.compiler.assume_constant_result: the compiler calls the function while it traces and keeps its answer.

    Torch's own, which leaves the same mark, imports the whole compiler to do so: seconds of every program that imports
    a layer and compiles nothing.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
