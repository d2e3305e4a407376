"""Factories of modules: functions whose arguments are letters, builders without arguments, classes."""

import inspect
from typing import Any

from torch import nn

from porism.errors import ShapeError


def made_of_class(target: Any) -> Any:
    """A class of modules that needs no arguments stands for its module."""
    if not (isinstance(target, type) and issubclass(target, nn.Module)) or factory_letters(target):
        return target
    try:
        return target()
    except TypeError as error:
        raise ShapeError(
            f"cost: {target.__name__} cannot be made without arguments: {error}. "
            "Give a module, or a function of letters that makes one."
        ) from error


def takes_nothing(target: Any) -> bool:
    """Whether it is a function of no arguments, which can only make what is counted."""
    return inspect.isfunction(target) and not inspect.signature(target).parameters


def factory_letters(target: Any) -> tuple[str, ...]:
    """The letters a factory of modules takes; none for a module or a function of tensors."""
    if isinstance(target, nn.Module):
        return ()
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return ()
    names = list(parameters)
    letters = [name for name in names if len(name) == 1 and name.isupper()]
    if all(parameters[name].default is not inspect.Parameter.empty for name in letters) and len(letters) < len(names):
        return ()  # a function of tensors, with a number among its arguments
    if letters and len(letters) < len(names):
        raise ShapeError(
            f"cost: {getattr(target, '__name__', target)} takes {', '.join(names)}: letters and other things. "
            "Wrap it in a function whose arguments are all letters."
        )
    return tuple(letters)
