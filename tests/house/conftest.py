"""The checkers of this folder read a tree of files: the repository's own, or a tiny bad one planted by a test."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Plant = Callable[[Mapping[str, str]], Path]


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Write a tree of files and return its root: `plant({"layers/elman/layer.py": "import porism.training"})`."""

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return tmp_path

    return write
