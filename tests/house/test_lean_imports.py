"""A layer can be lifted out alone, and what answers at once imports no heavy package."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import pytest
from tests.house.conftest import Plant

from porism.layers.cases import LAYERS

# What a layer has no use for: the packages above it, and their dependencies.
UPPER_PACKAGES = (
    *("porism.cli", "porism.web", "porism.api", "porism.report", "porism.sweep", "porism.claims"),
    *("porism.testing", "porism.tasks", "porism.training"),
    *("tyro", "rich", "matplotlib", "plotly", "fastapi", "uvicorn", "pandas", "IPython"),
)
# Formulas are for who asks what a layer costs: a layer runs without them, and without the sympy they are written in.
FORMULAS = tuple(f"porism.costing.{name}" for name in ("alphabet", "terms", "cost", "derive", "fitting", "predicting"))
HELP_SECONDS = 0.5


def python(source: Path, *arguments: str) -> str:
    """What a fresh interpreter that finds the package in `source` prints."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(source: Path, code: str, packages: Sequence[str]) -> list[str]:
    """Which of the packages, or modules inside them, a fresh interpreter holds after running `code`."""
    tell = "import json, sys\nprint()\nprint(json.dumps([*sys.modules]))"
    loaded = json.loads(python(source, "-c", f"{code}\n{tell}").splitlines()[-1])
    return sorted({package for package in packages for name in loaded if f"{name}.".startswith(f"{package}.")})


HELP = """
import runpy, sys
sys.argv = ["porism", "--help"]
try:
    runpy.run_module("porism", run_name="__main__")
except SystemExit as leaving:
    assert not leaving.code, leaving.code
"""


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_layer_stands_alone(repository: Path, layer: str) -> None:
    assert modules_after(repository / "src", f"import {layer}", (*UPPER_PACKAGES, *FORMULAS)) == []


def test_the_package_alone_is_light(repository: Path) -> None:
    assert modules_after(repository / "src", "import porism", ("torch", "numpy", "sympy", *UPPER_PACKAGES)) == []


def test_help_imports_no_torch(repository: Path) -> None:
    assert modules_after(repository / "src", HELP, ("torch", "numpy", "sympy", "matplotlib", "plotly")) == []


def test_help_answers_at_once(repository: Path) -> None:
    def seconds() -> float:
        began = perf_counter()
        assert "porism" in python(repository / "src", "-m", "porism", "--help")
        return perf_counter() - began

    # The best of a few: other work on the machine only ever adds.
    assert min(seconds() for _ in range(3)) < HELP_SECONDS


def test_a_stranger_is_noticed(plant: Plant) -> None:
    package = {"porism/__init__.py": "import porism.training.loop, plotly", "porism/training/loop.py": ""}
    source = plant({**package, "plotly.py": "print('a word on the way')"})
    assert modules_after(source, "import porism", UPPER_PACKAGES) == ["plotly", "porism.training"]
    assert modules_after(source, "import json", UPPER_PACKAGES) == []
