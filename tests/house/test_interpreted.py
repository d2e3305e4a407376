"""Triton's interpreter is chosen before anything that pytest loads can import Triton, and only where tests run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = """
import os, sys, pytest

class Probe:
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self):
        print("torch", "torch" in sys.modules, "interpreted", os.environ.get("TRITON_INTERPRET"))

pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[Probe()])
"""
HERE = "None" if torch.cuda.is_available() else "1"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # The conftest of this folder imports torch, and is loaded before the session starts.
        (["tests/costing/predicting/test_rates.py"], f"torch True interpreted {HERE}"),
        (["-n2", "tests/test_errors.py"], "torch False interpreted None"),
    ],
    ids=["a folder that imports torch", "where tests are handed out"],
)
def test_before_the_session_starts(repository: Path, options: list[str], expected: str) -> None:
    if "-n2" in options:
        pytest.importorskip("xdist")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "PYTEST_"))}
    program = [sys.executable, "-c", PROGRAM, *options]
    done = subprocess.run(program, env=environment, cwd=repository, capture_output=True, text=True, check=True)
    assert expected in done.stdout.splitlines()
