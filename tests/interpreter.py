"""Triton's interpreter without work that it does again and again.

At every call of one kernel function by another it goes through all names of triton.language to replace those that are
compiled, although the launch did so already: a third of the time of an interpreted kernel.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import ismodule
from typing import Any


@cache
def replace_names_once() -> None:
    """Leaves the names alone where they are replaced already. Does nothing where this Triton is built otherwise."""
    interpreter: Any = import_module("triton.runtime.interpreter")
    language: Any = import_module("triton.language")
    replace_names = getattr(interpreter, "_patch_lang", None)
    if replace_names is None or not hasattr(language.core, "is_builtin"):
        return

    @cache
    def languages(function: Callable[..., Any]) -> list[Any]:
        modules = [value for value in function.__globals__.values() if ismodule(value)]
        return [module for module in modules if module in (language, language.core)]

    def replaced_names(function: Callable[..., Any]) -> Any:
        compiled = [language.core.tensor.__add__, *(module.load for module in languages(function))]
        if any(map(language.core.is_builtin, compiled)):
            return replace_names(function)
        return interpreter._LangPatchScope()  # with nothing to put back

    interpreter._patch_lang = replaced_names
