"""Packages named in PORISM_TESTS_WITHOUT are not there: as if an extra had not been installed.

    PORISM_TESTS_WITHOUT="numba triton" python -m pytest tests/layers

Python imports a module of this name when it starts, where it finds one on its path. tests/conftest.py imports it for
the tests, and puts this folder on the path of the processes that tests start.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, DistributionFinder
from typing import Any


class Hiding:
    """A finder of modules that does not find those of some packages, nor what is known of them as distributions.

    It answers None where it hides, as a finder does for what is not installed: `importlib.util.find_spec` then says
    None and an import raises ModuleNotFoundError in Python's own words.
    """

    def __init__(self, finder: Any, hidden: frozenset[str]) -> None:
        self.finder = finder
        self.hidden = hidden

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in self.hidden else self.finder.find_spec(name, path, target)

    def find_distributions(self, context: DistributionFinder.Context) -> Iterable[Distribution]:
        if _plain(context.name or "") in self.hidden:
            return
        for found in getattr(self.finder, "find_distributions", lambda _: ())(context):
            if _plain(found.name) not in self.hidden:
                yield found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


def _plain(name: str) -> str:
    """The name of a distribution as its module is mostly spelled."""
    return name.replace("-", "_").lower()


def hide(names: Iterable[str]) -> None:
    hidden = frozenset(names)
    there = sorted(hidden & {module.partition(".")[0] for module in sys.modules})
    if there:
        raise ImportError(f"PORISM_TESTS_WITHOUT: {', '.join(there)} was imported before it could be hidden")
    sys.meta_path[:] = [Hiding(finder, hidden) for finder in sys.meta_path]


HIDDEN = os.environ.get("PORISM_TESTS_WITHOUT", "").replace(",", " ").split()
if HIDDEN and not any(isinstance(finder, Hiding) for finder in sys.meta_path):
    hide(HIDDEN)
