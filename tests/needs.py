"""What a test needs that a machine may lack. Where it is lacking the test, or its file, skips and says why.

A test that imports a package that is not installed, or whose layer or task refuses with MissingExtra, is skipped with
that reason. An import of such a package inside the library is no reason but a mistake: the library works without its
extras, or refuses in one line of its own. Where all packages are installed none of this is looked at.
"""

import re
import tomllib
import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.interpreter import replace_names_once

from porism.errors import MissingExtra

ROOT = Path(__file__).parents[1]
NO_MODULE = re.compile(r"^E +ModuleNotFoundError: No module named '(\w+)", re.MULTILINE)
FRAME = re.compile(r"^(\S+\.py):\d+: in ", re.MULTILINE)
TOOLS = {"build", "hatchling", "hypothesis", "jedi", "mypy", "pytest", "pytest_xdist", "ruff"}
SPELLED = {"pillow": "PIL", "scikit_learn": "sklearn", "ultralytics_thop": "thop"}


@cache
def extras() -> frozenset[str]:
    """The modules of all packages that pyproject.toml names as optional, and scipy, which several of them bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = " ".join(package for extra in project["optional-dependencies"].values() for package in extra)
    names = {name.replace("-", "_") for name in re.findall(r"(?:^| )([a-z][\w-]*)(?=[\[>])", wanted)}
    return frozenset({SPELLED.get(name, name) for name in names} - {"porism", *TOOLS} | {"scipy"})


@cache
def missing() -> frozenset[str]:
    return frozenset(name for name in extras() if find_spec(name) is None)


def why_not(error: BaseException) -> str | None:
    """The reason to skip what ended so, or None where it is a failure."""
    if isinstance(error, MissingExtra) and missing():
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        frames, frame = [], error.__traceback__
        while frame is not None:
            frames.append(frame.tb_frame.f_code.co_filename)
            frame = frame.tb_next
        own = [file for file in frames if Path(file).is_relative_to(ROOT) and ".venv" not in file]
        return _reason(error.name or "", own[-1] if own else "")
    return None


def _reason(module: str, importer: str) -> str | None:
    package = module.partition(".")[0]
    # A file of the library that is named for a package is only imported where that is there.
    inside = "src/porism" in importer and package not in Path(importer).as_posix()
    return None if package not in missing() or inside else f"{package} is not installed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    yield from _skipping()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield from _skipping()


def _skipping() -> Iterator[None]:
    try:
        yield
    except ImportError as error:  # MissingExtra is one
        if reason := why_not(error):
            pytest.skip(reason)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    report = yield
    if report.outcome == "failed" and (found := NO_MODULE.search(text := str(report.longrepr))):
        frames = FRAME.findall(text)
        if reason := _reason(found[1], frames[-1] if frames else ""):
            report.outcome, report.longrepr = "skipped", (str(collector.path), 1, f"Skipped: {reason}")
    return report


class Lazy:
    """A package of which only some tests of a file have need, imported when one of them uses it."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for its own marks on all that stands in a file it collects
            raise AttributeError(name)
        with warnings.catch_warnings():  # of what a package does when it is imported
            warnings.simplefilter("ignore")
            module = import_module(self._module)
        return getattr(module, name)


def lazy(module: str) -> Any:
    return Lazy(module)


def package(module: str, reason: str | None = None) -> None:
    """At the top of a file that is about a package: skips it where that is not installed.

    pytest.importorskip would import it in every process that collects the file, whoever runs it.
    """
    if find_spec(module) is None:
        pytest.skip(reason or f"{module} is not installed", allow_module_level=True)


@cache
def no_triton() -> str | None:
    """Why Triton's kernels cannot run here, on a GPU or in the interpreter; None where they can."""
    if find_spec("triton") is None:
        return 'the kernels are written in Triton: pip install "porism[gpu]"'
    import torch  # here, as the process that hands out the tests has no use for it

    if torch.cuda.is_available():
        return None
    replace_names_once()
    fault: str | None = import_module("porism.testing.interpreter").fault()
    return fault


def triton() -> None:
    """At the top of a file, before it imports a kernel, or inside a test."""
    if reason := no_triton():
        pytest.skip(reason, allow_module_level=True)


@pytest.fixture
def triton_runs() -> None:
    """For single tests of a file."""
    triton()
