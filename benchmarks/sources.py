"""What a result was measured with: checksums of the code that it measures, and the settings of recipes that it trained.

    MEASURES = ("layers/recurrent/grid",)                    in a benchmark: files or folders of the package
    {"sources": checksums(MEASURES, "cuda"), ...}            in its result, when it is measured
    changes(result)                                          what of it is another today, a sentence each

Comments, formatting, docstrings and what is raised do not count. Of a folder, the oracle, the cases for tests, the
formulas and the kernels of another device do not count either. All are hashed file by file, so that a result says which
of them it is of; a file that is added counts once one of these uses it.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import porism
from porism.runs.recipe import settings
from porism.tasks import find

PACKAGE = Path(porism.__file__).parent
NOT_RUN = ("__init__", "naive", "check", "cost")
OF_OTHERS = {"cpu": ("triton", "cudnn"), "cuda": ("cpu", "numba")}
"""By device, the files and folders of kernels that do not run there."""
NAMED = 3
"""So many files are named, the others counted."""


def checksums(measures: Sequence[str], device: str, package: Path = PACKAGE) -> dict[str, str]:
    """By file, the checksum of its code."""
    files = {file for path in measures for file in _files(package / path, device)}
    return {file.relative_to(package).as_posix(): checksum(file.read_text()) for file in sorted(files)}


@cache
def checksum(code: str) -> str:
    """The same for all that Python reads alike, from one version of Python to the next.

    >>> checksum("f(1,2)  # why") == checksum("f(1, 2)") != checksum("f(2, 1)")
    True
    """
    return hashlib.sha256(_written(ast.parse(code)).encode()).hexdigest()[:16]


def recipe_settings(task: str, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By task and recipe, all of its settings as JSON has them."""
    recipes = find(task).recipes
    found = {f"{task}/{name}": settings(recipes[name]) for name in names}
    kept: dict[str, dict[str, Any]] = json.loads(json.dumps(found))
    return kept


def changes(result: dict[str, Any], package: Path = PACKAGE) -> list[str]:
    """What a result was measured with and is another today, a sentence each."""
    records = list(_records(result))
    if not records:
        return ["With which code this was measured is not on record."]
    sums = [item for record in records for item in record.get("sources", {}).items()]
    code = sorted({name for name, kept in sums if _today(package / name) != kept})
    sentences = [f"The code has changed since this was measured: {_files_named(code)}."] if code else []
    used = [item for record in records for item in record.get("recipes", {}).items()]
    recipes = sorted({name for name, kept in used if _differs(name, kept)})
    if recipes:
        listed = ", ".join(f"`{name}`" for name in recipes)
        sentences.append(f"Settings of recipes have changed since this was measured: {listed}.")
    return sentences


def _records(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The result, its parts and its rows: whichever say what they were measured with."""
    parts = result.get("parts", {}).values()
    for some in (result, *parts, *result.get("rows", ())):
        if isinstance(some, dict) and ("sources" in some or "recipes" in some):
            yield some


def _files(path: Path, device: str) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    found = [file for file in path.rglob("*.py") if file.stem not in NOT_RUN]
    if not found:
        raise SystemExit(f"{path} is no code: MEASURES names files and folders of the package.")
    for file in found:
        if not {*file.relative_to(path).with_suffix("").parts} & {*OF_OTHERS.get(device, ())}:
            yield file


def _today(file: Path) -> str | None:
    return checksum(file.read_text()) if file.exists() else None


def _differs(name: str, kept: dict[str, Any]) -> bool:
    """Fields that a recipe has got since then do not count: their defaults are what it was before."""
    task, _, recipe = name.partition("/")
    if recipe not in find(task).recipes:
        return True
    today = recipe_settings(task, [recipe])[name]
    return any(field not in today or today[field] != value for field, value in kept.items())


def _files_named(files: Sequence[str]) -> str:
    named, others = files[:NAMED], len(files) - NAMED
    text = ", ".join(f"`{file}`" for file in named)
    return text if others <= 0 else f"{text} and {others} more {'file' if others == 1 else 'files'}"


def _written(node: Any) -> str:
    """A tree as text. Not ast.dump: what that shows of empty fields differs between versions of Python."""
    if isinstance(node, list):
        return f"[{','.join(_written(one) for one in node if not _is_text_alone(one))}]"
    if not isinstance(node, ast.AST):
        return ascii(node)
    if isinstance(node, ast.Raise):
        return "Raise"
    if isinstance(node, ast.JoinedStr):
        # Python 3.12 ends the format of f"{x:>{width}}" with an empty text, other versions do not.
        node = ast.JoinedStr([one for one in node.values if getattr(one, "value", None) != ""])
    fields = [(name, value) for name, value in ast.iter_fields(node) if name != "kind" and value not in (None, [])]
    return f"{type(node).__name__}({','.join(f'{name}={_written(value)}' for name, value in fields)})"


def _is_text_alone(node: Any) -> bool:
    """A docstring, or a text below what it describes."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
