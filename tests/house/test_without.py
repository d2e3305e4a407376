"""Runs with packages hidden: what is hidden is as good as not installed, and the library loads without any extra."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import needs

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


def test_without_any_extra_the_library_loads(repository: Path) -> None:
    hidden = set(needs.extras())
    assert {"numba", "triton", "PIL", "matplotlib", "espeakng_loader"} < hidden
    environment = {
        **os.environ,
        "PORISM_TESTS_WITHOUT": " ".join(hidden),
        "PYTHONPATH": os.pathsep.join([*map(str, (repository / "tests/without", repository / "src")), *sys.path]),
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


REFUSED = "from porism.errors import MissingExtra; raise MissingExtra('get it')"


def raised_in(file: Path, code: str) -> BaseException:
    """What comes of code as it stands in a file."""
    try:
        exec(compile(code, str(file), "exec"), {})
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_a_missing_extra_is_a_reason_to_skip_and_no_excuse_for_the_library(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "missing", lambda: frozenset({"nowhere"}))
    test = repository / "tests/layers/test_any.py"
    assert needs.why_not(raised_in(test, "import nowhere.sparse")) == "nowhere is not installed"
    assert needs.why_not(raised_in(test, "import nowhere_else")) is None
    assert needs.why_not(raised_in(test, REFUSED)) == "get it"
    # A layer that imports what need not be there, outside a file named for it, has no word for who has not got it.
    assert needs.why_not(raised_in(repository / "src/porism/layers/any.py", "import nowhere")) is None
    assert needs.why_not(raised_in(repository / "src/porism/layers/kernels/nowhere.py", "import nowhere"))
    monkeypatch.setattr(needs, "missing", lambda: frozenset())
    assert needs.why_not(raised_in(test, REFUSED)) is None
