"""A layer can be lifted out alone, and what answers at once imports no heavy package."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.house.conftest import Plant

from porism.layers.cases import LAYERS

# What a layer has no use for: the packages above it, and their dependencies.
UPPER_PACKAGES = (
    *("porism.cli", "porism.web", "porism.api", "porism.report", "porism.sweep", "porism.claims"),
    *("porism.testing", "porism.tasks", "porism.training"),
    *("tyro", "rich", "matplotlib", "plotly", "fastapi", "uvicorn", "pandas", "IPython"),
    # The compiler, which takes longer to import than the rest of torch.
    *("torch._dynamo", "torch._inductor"),
)
# Formulas are for who asks what a layer costs: a layer runs without them, and without the sympy they are written in.
FORMULAS = tuple(f"porism.costing.{name}" for name in ("alphabet", "terms", "cost", "derive", "fitting", "predicting"))
HELP_MODULES = 150
"""What takes the time of an answer, counted: a clock would count the neighbours too. They are about 100."""


def python(source: Path, *arguments: str) -> str:
    """What a fresh interpreter that finds the package in `source` prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(source: Path, code: str, packages: Sequence[str]) -> list[str]:
    """Which of the packages, or modules inside them, a fresh interpreter holds after running `code`."""
    tell = "import json, sys\nprint()\nprint(json.dumps([*sys.modules]))"
    return held(json.loads(python(source, "-c", f"{code}\n{tell}").splitlines()[-1]), packages)


def held(loaded: Sequence[str], packages: Sequence[str]) -> list[str]:
    return sorted({package for package in packages for name in loaded if f"{name}.".startswith(f"{package}.")})


# torch, which every layer needs, is imported once; each module then in a fork of its own.
EACH_ALONE = """
import json, os, sys
import torch
for module in sys.argv[1:]:
    if not (child := os.fork()):
        __import__(module)
        print(json.dumps([module, [*sys.modules]]), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{module} cannot be imported alone")
"""


@pytest.fixture(scope="module")
def modules_of(repository: Path, request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """What an interpreter holds that has imported one layer and nothing else, by layer: of those that are asked for."""
    cases = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    layers = [case.params["layer"] for case in cases if case is not None and "layer" in case.params]
    said = python(repository / "src", "-c", EACH_ALONE, *layers)
    return dict(json.loads(line) for line in said.splitlines())


TAKEN = {
    "graphs": {"gcn"},
    "images": {"elman", "grid", "lstm"},
    "speech": {"attention", "elman", "lstm"},
    "supervised": set(),
    "words": {"readout", "skipgram"},
}
"""The layers that a task's models and metrics are made of, of tasks that take few."""


REPORTED = ("porism.training.session", "porism.api.engine")
WITHOUT_FORMULAS = ("graphs", "images", "language", "sentiment", "speech", "words")
"""Tasks whose costs are derived from code, and so kept."""
TRAIN = """
import json, sys
from importlib import import_module
for module in sys.argv[1:]:
    import_module(module)
print(json.dumps([*sys.modules]))
"""


@pytest.fixture(scope="module")
def modules_of_tasks(repository: Path) -> dict[str, list[str]]:
    """What an interpreter holds that has imported one task and nothing else, by task."""
    tasks = sorted({*TAKEN, *WITHOUT_FORMULAS})
    said = python(repository / "src", "-c", EACH_ALONE, *(f"porism.tasks.{task}.task" for task in tasks))
    return {module.split(".")[2]: loaded for module, loaded in map(json.loads, said.splitlines())}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("task", TAKEN)
def test_a_task_loads_no_other_layers(modules_of_tasks: dict[str, list[str]], task: str) -> None:
    assert {name for name, layer in LAYERS.items() if held(modules_of_tasks[task], [layer])} <= TAKEN[task]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("task", WITHOUT_FORMULAS)
def test_a_task_loads_no_formulas(modules_of_tasks: dict[str, list[str]], task: str) -> None:
    assert held(modules_of_tasks[task], ("sympy", *FORMULAS)) == []


def test_training_loads_no_formulas_and_no_plots(repository: Path) -> None:
    """Formulas load where none are kept yet, and plots, maps and baselines where they are drawn or measured."""
    heavy = ("sympy", "matplotlib", "sklearn", "scipy", "gensim", "pandas", "transformers", "torch._dynamo", *FORMULAS)
    assert held(json.loads(python(repository / "src", "-c", TRAIN, *REPORTED)), heavy) == []


HELP = """
import runpy, sys
sys.argv = ["porism", "--help"]
try:
    runpy.run_module("porism", run_name="__main__")
except SystemExit as leaving:
    assert not leaving.code, leaving.code
"""


@pytest.mark.sweep(2)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_layer_stands_alone(modules_of: dict[str, list[str]], layer: str) -> None:
    assert layer in modules_of[layer]
    assert held(modules_of[layer], (*UPPER_PACKAGES, *FORMULAS)) == []


def test_the_package_alone_is_light(repository: Path) -> None:
    assert modules_after(repository / "src", "import porism", ("torch", "numpy", "sympy", *UPPER_PACKAGES)) == []


def test_runs_are_read_without_torch(repository: Path) -> None:
    """Only a checkpoint's tensors need it, which checkpoint.py alone reads and writes."""
    names = sorted(file.stem for file in (repository / "src/porism/runs").glob("*.py"))
    code = "\n".join(f"import porism.runs.{name}" for name in names if name not in ("__init__", "checkpoint"))
    assert modules_after(repository / "src", code, ("torch", "safetensors", "sympy")) == []


def test_help_imports_no_torch(repository: Path) -> None:
    assert modules_after(repository / "src", HELP, ("torch", "numpy", "sympy", "matplotlib", "plotly")) == []


def test_help_imports_little(repository: Path) -> None:
    tell = f"{HELP}\nprint()\nprint(len(sys.modules))"
    said = python(repository / "src", "-c", tell)
    assert "usage: porism" in said
    assert int(said.splitlines()[-1]) < HELP_MODULES


OPTIMIZE = """
import torch
from porism.tasks.language.recipes import RECIPES
from porism.training import optimizer
from dataclasses import replace
for name in ("adam", "adamw", "sgd"):
    x = torch.nn.Parameter(torch.ones(3))
    made = optimizer.make(replace(RECIPES["elman"], optimizer=name), [x], torch.device("cpu"))
    made.zero_grad()
    x.sum().backward()
    made.step()
    optimizer.load_state(made, optimizer.state_tensors(made))
"""


def test_an_optimizer_loads_no_compiler(repository: Path) -> None:
    assert modules_after(repository / "src", OPTIMIZE, ("torch._dynamo", "torch._inductor")) == []


def test_a_stranger_is_noticed(plant: Plant) -> None:
    package = {"porism/__init__.py": "import porism.training.loop, plotly", "porism/training/loop.py": ""}
    source = plant({**package, "plotly.py": "print('a word on the way')"})
    assert modules_after(source, "import porism", UPPER_PACKAGES) == ["plotly", "porism.training"]
    assert modules_after(source, "import json", UPPER_PACKAGES) == []
