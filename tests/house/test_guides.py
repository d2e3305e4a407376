"""What the guides show is what the program says: their examples are run."""

import doctest
from pathlib import Path

import pytest
import torch

from porism.costing import kept
from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import MethodRates
from porism.files import cache_folder
from porism.layers.attention.auto import MethodWorkload

DOCS = Path(__file__).parents[2] / "docs"
WRITTEN_BY_PROGRAM = {"ledger"}
LONG = {"cost"}
"""Twenty formulas are derived there, for half a minute. Examples of the same functions stand in docstrings, too."""


def made_up_rates(workload: MethodWorkload, *_: object) -> MethodRates:
    rates = {"calls": 1e-3 if workload.method.name == "window" else 1.0}
    return MethodRates(rates, rates, "2026-01-02", 0.0)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "guide",
    [
        pytest.param(guide, marks=pytest.mark.sweep(0)) if guide.stem in LONG else guide
        for guide in sorted(DOCS.glob("*.md"))
        if guide.stem not in WRITTEN_BY_PROGRAM | {"command_line"}
    ],
    ids=lambda path: path.stem,
)
def test_every_example_of_a_guide_gives_what_it_shows(
    guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if guide.stem == "cost" and torch.cuda.is_available():
        pytest.skip("its examples tell of a GPU from where there is none")
    # What examples measure is not kept; formulas are, as those of a run.
    folder = cache_folder()
    monkeypatch.setattr(kept, "cache_folder", lambda: folder)
    monkeypatch.delenv("PORISM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # A made-up machine: to measure this one takes seconds, and which mechanism is fastest here decides nothing.
    monkeypatch.setattr(calibration, "_measured_rates", made_up_rates)
    ran = doctest.testfile(str(guide), module_relative=False)
    assert ran.attempted > 0
    assert ran.failed == 0
