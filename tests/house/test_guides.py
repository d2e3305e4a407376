"""What the guides show is what the program says: their examples are run."""

import doctest
import re
from pathlib import Path

import pytest

from porism.cli import main
from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import MethodRates
from porism.layers.attention.auto import MethodWorkload

DOCS = Path(__file__).parents[2] / "docs"
WRITTEN_BY_PROGRAM = {"ledger"}


def made_up_rates(workload: MethodWorkload, *_: object) -> MethodRates:
    rates = {"calls": 1e-3 if workload.method.name == "window" else 1.0}
    return MethodRates(rates, rates, "2026-01-02", 0.0)


@pytest.mark.parametrize(
    "guide",
    [guide for guide in sorted(DOCS.glob("*.md")) if guide.stem not in WRITTEN_BY_PROGRAM | {"command_line"}],
    ids=lambda path: path.stem,
)
def test_every_example_of_a_guide_gives_what_it_shows(
    guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PORISM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # what examples measure is not kept
    # A made-up machine: to measure this one takes seconds, and which mechanism is fastest here decides nothing.
    monkeypatch.setattr(calibration, "_measured_rates", made_up_rates)
    ran = doctest.testfile(str(guide), module_relative=False)
    assert ran.attempted > 0
    assert ran.failed == 0


def test_the_ledger_is_what_the_program_writes(tmp_path: Path) -> None:
    assert main(["check", "claims", "--out", str(tmp_path / "ledger.md")]) == 0
    written = (tmp_path / "ledger.md").read_text()
    assert written == (DOCS / "ledger.md").read_text(), "write it anew: porism check claims --out docs/ledger.md"
    counts = re.sub(r" \(.*?\)", "", next(line for line in written.splitlines() if " statements: " in line))
    readme = " ".join((DOCS.parent / "README.md").read_text().split())
    assert counts in readme, "README says other counts than the ledger"
