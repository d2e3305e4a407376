"""Every public name has an example in its docstring, and it gives what it shows."""

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.costing.test_examples import MODULES as RUN_THERE
from tests.house.test_guides import made_up_rates
from torch import nn

import porism
from porism.costing.predicting import calibration

PLACES = ("porism", "porism.functional", "porism.testing")
PUBLIC = {
    f"{place}.{name}": getattr(import_module(place), name)
    for place in PLACES
    for name in import_module(place).__all__
    if not inspect.ismodule(getattr(import_module(place), name))
}
# What stands in two places is run once.
ONCE = {id(thing): name for name, thing in reversed(PUBLIC.items())}
KNOWN: dict[str, Any] = {"torch": torch, "nn": nn, "porism": porism}
"""What an example may use without an import, beside the module it stands in and all public names."""


@pytest.fixture(autouse=True)
def _made_up_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is measured, and nothing is kept."""
    monkeypatch.delenv("PORISM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibration, "_known_rates", {})
    monkeypatch.setattr(calibration, "_measured_rates", made_up_rates)
    torch.manual_seed(0)


class Checker(doctest.OutputChecker):
    """Times are different ones on each machine, and on each day."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(self._timeless(want), self._timeless(got), optionflags)

    def _timeless(self, said: str) -> str:
        return re.sub(r"\b\d+(\.\d+)? (s|ms|µs)\b", "TIME", re.sub(r"\b20\d\d-\d\d-\d\d\b", "DAY", said))


def run(name: str, thing: Any, names: dict[str, Any]) -> doctest.TestResults:
    """Of the docstring alone: the methods of a class are examples of their own."""
    (test,) = doctest.DocTestFinder(recurse=False).find(thing, name, globs=names)
    return doctest.DocTestRunner(Checker(), optionflags=doctest.ELLIPSIS).run(test)


@pytest.mark.sweep(6)
# torch.compile itself calls what torch deprecates.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(ONCE.values()))
def test_the_example_of_a_public_name_gives_what_it_shows(name: str, tmp_path: Path) -> None:
    thing = PUBLIC[name]
    if thing.__module__ in RUN_THERE:
        assert ">>>" in (thing.__doc__ or ""), f"{name} has no example"
        return
    public = {key.rpartition(".")[2]: value for key, value in PUBLIC.items()}
    # Where an example trains, its run lies in a folder that is not kept.
    ran = run(name, thing, KNOWN | public | {"folder": tmp_path} | vars(inspect.getmodule(thing)))
    assert ran.attempted > 0, f"{name} has no example"
    assert ran.failed == 0


@pytest.mark.parametrize("place", PLACES)
def test_the_example_of_a_module_gives_what_it_shows(place: str) -> None:
    ran = run(place, import_module(place), dict(KNOWN))
    assert ran.attempted > 0
    assert ran.failed == 0
