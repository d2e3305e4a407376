"""Runs with packages hidden: what is hidden is as good as not installed, and the library loads without any extra."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SPELLED = {"pillow": "PIL", "scikit_learn": "sklearn", "ultralytics_thop": "thop"}
CODE = """
import importlib.metadata, importlib.util, sys
assert importlib.util.find_spec("numba") is None
assert importlib.util.find_spec("msgspec") is not None
assert not any(found.name == "numba" for found in importlib.metadata.distributions())
try:
    import numba.core
except ModuleNotFoundError as error:
    assert error.name == "numba", error
else:
    raise SystemExit("numba was imported")
import porism
for name in porism.__all__:
    getattr(porism, name)
assert not HIDDEN & {module.partition(".")[0] for module in sys.modules}
import torch
answer = porism.attention(*torch.randn(3, 1, 2, 5, 4), mechanism="softmax")
assert answer.isfinite().all()
print(porism.cost(torch.nn.Linear(3, 4), "B 3").flops)
"""


def extras(repository: Path) -> set[str]:
    """The modules of all that pyproject.toml names as optional."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = [package for extra in project["optional-dependencies"].values() for package in extra]
    found = {re.match(r"[\w-]+", package) for package in packages}
    names = {name[0].replace("-", "_") for name in found if name is not None}
    return {SPELLED.get(name, name) for name in names} - {"porism"}


def test_without_any_extra_the_library_loads(repository: Path) -> None:
    hidden = extras(repository)
    assert {"numba", "triton", "PIL", "matplotlib"} < hidden
    environment = {
        **os.environ,
        "PORISM_TESTS_WITHOUT": " ".join(hidden),
        "PYTHONPATH": os.pathsep.join([str(repository / "tests" / "without"), str(repository / "src")]),
    }
    words = [sys.executable, "-c", f"HIDDEN = {hidden}\n{CODE}"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["24*B"]


def test_what_was_imported_cannot_be_hidden() -> None:
    # Else a test would find in one module what another cannot import.
    from tests.without.sitecustomize import hide

    with pytest.raises(ImportError, match="PORISM_TESTS_WITHOUT: torch was imported before it could be hidden"):
        hide(["torch"])
