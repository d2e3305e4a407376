"""What the wheel says of itself: its version is the changelog's, and [all] brings every package that is imported."""

import ast
import re
import sys
import tomllib
from pathlib import Path

from tests.needs import SPELLED

from porism.version import __version__

HEADING = re.compile(r"^## (\d+\.\d+\.\d+)( \(unreleased\))?", re.MULTILINE)
BROUGHT_BY = {
    **dict.fromkeys(("anyio", "pydantic", "starlette"), "fastapi"),
    **dict.fromkeys(("scipy", "threadpoolctl"), "sklearn"),
    "huggingface_hub": "transformers",
    "llvmlite": "numba",
    "markupsafe": "jinja2",
    "sqlalchemy": "optuna",
    "triton": "torch",  # where it is for CUDA
}
"""What a package that is named brings without being named."""


def version_of(changelog: str) -> str:
    """That of the first heading; a version that is not released yet is a development one."""
    found = HEADING.search(changelog)
    assert found is not None
    return f"{found[1]}.dev0" if found[2] else found[1]


def test_the_version_is_that_of_the_changelog(repository: Path) -> None:
    assert __version__ == version_of((repository / "CHANGELOG.md").read_text(encoding="utf-8"))


def test_a_version_that_is_not_released_is_told_apart() -> None:
    assert version_of("# Changelog\n\n## 0.3.0 (unreleased)\n\n## 0.2.0\n") == "0.3.0.dev0"
    assert version_of("# Changelog\n\n## 0.2.0\n\n## 0.1.0\n") == "0.2.0"


def imported(code: str) -> set[str]:
    """The packages that code imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module or "")
    return {name.partition(".")[0] for name in found}


def brought(pyproject: str) -> set[str]:
    """The packages of `pip install "porism[all]"`, by the names they are imported under."""
    project = tomllib.loads(pyproject)["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    wanted, open_ = list(project["dependencies"]), list(extras["all"])
    while open_:
        package = open_.pop()
        named = re.match(r"porism\[(.*)\]", package)
        if named is None:
            wanted.append(package)
        else:
            open_ += [inner for extra in named[1].split(",") for inner in extras[extra]]
    names = {re.match(r"[\w-]+", package)[0].replace("-", "_") for package in wanted}  # type: ignore[index]
    return {SPELLED.get(name, name) for name in names}


def test_all_brings_every_package_that_is_imported(repository: Path) -> None:
    files = (repository / "src/porism").rglob("*.py")
    used = set[str]().union(*(imported(file.read_text(encoding="utf-8")) for file in files))
    own = {"porism", *sys.stdlib_module_names}
    found = brought((repository / "pyproject.toml").read_text(encoding="utf-8"))
    assert {"torch", "sklearn", "PIL"} < found & used
    assert {BROUGHT_BY.get(name, name) for name in used - own} - found == set()
