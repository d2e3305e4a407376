"""What holds for every test: one thread, so that workers do not fight for cores, and examples that repeat.

Three files beside this one make the suite the same on every machine: selection.py (the order of tests, and the share
of each sweep that `make test` runs), without/sitecustomize.py (runs with packages hidden), needs.py (what a test needs
that a machine may lack, and the reason it gives where it skips).
"""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

# Before torch is imported: its libraries read this once. For the processes a test starts as well.
os.environ["OMP_NUM_THREADS"] = "1"
# Inductor would start processes of its own, each with torch, to compile on all cores: a fifth of its time.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

from tests.without.sitecustomize import HIDDEN

if HIDDEN:  # from the processes that tests start as well
    FOLDER = str(Path(__file__).parent / "without")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [FOLDER, os.environ.get("PYTHONPATH")]))

import pytest

pytest_plugins = ["tests.selection", "tests.needs"]


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """As soon as this file is loaded: next comes the conftest of a folder that is named, which may import Triton."""
    config: Any = pluginmanager.get_plugin("pytestconfig")
    # Of pytest-xdist, which need not be there.
    starts_workers = any(getattr(config.known_args_namespace, option, None) for option in ("numprocesses", "tx"))
    if "PYTEST_XDIST_WORKER" in os.environ or not starts_workers:
        interpret_without_gpu()


def interpret_without_gpu() -> None:
    """Without a GPU kernels run in Triton's interpreter. Triton reads this at its import, which parts of torch do."""
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Not where tests are only handed out, to workers that wait until that process is ready."""
    if session.config.pluginmanager.hasplugin("dsession"):
        return
    import torch
    from hypothesis import settings

    torch.set_num_threads(1)
    interpret_without_gpu()
    # A shared machine is no stopwatch, so no deadline. Where a change is judged, the same examples are drawn each time.
    settings.register_profile("porism", deadline=None)
    settings.register_profile("porism-ci", deadline=None, derandomize=True)
    settings.load_profile("porism-ci" if os.environ.get("CI") else "porism")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: the garbage collector goes through it neither then nor later.

    A forked process, too, would get a copy of every page that its collector touches.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # What tests import later stays as well: all of it is gone through a tenth as often as Python would.
        young, middle, old = gc.get_threshold()
        gc.set_threshold(young, middle, 10 * old)
        gc.enable()


def pytest_unconfigure() -> None:
    # Triton's bindings say at the end what nobody collected.
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _torch_keeps_its_kernels() -> Iterator[None]:
    """After a product in bfloat16 that this CPU does not have, torch turns oneDNN off for the rest of the process."""
    import torch

    enabled = torch.backends.mkldnn.enabled
    yield
    torch.backends.mkldnn.enabled = enabled


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """A training leaves torch with its threads, which the next command in this process would take as its default."""
    import torch

    # Before the test as well: what its fixtures have trained came first.
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
