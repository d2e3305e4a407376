"""Imports run downward only, and siblings leave each other alone."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.house.conftest import Plant

ORDER = (
    ("cli",),
    ("web",),
    ("api", "functional"),
    ("report", "sweep", "claims"),
    ("testing",),
    ("tasks",),
    ("training",),
    ("runs",),
    ("layers",),
    ("costing",),
    ("files",),
    ("errors", "version"),
)
HEIGHT = {room: -floor for floor, rooms in enumerate(ORDER) for room in rooms}

# The two files at the door stand outside the order: the package points at what people import, the program at its verbs.
DOORS = {"__init__": ("api", "costing", "functional", "layers", "testing", "version"), "__main__": ("cli",)}

# `import_module("porism.costing")` and f"porism.cli.{verb}" import as much as a statement does.
MODULE_IN_A_STRING = re.compile(r"(porism(?:\.\w+)+)\.?")


@cache
def _statements(text: str) -> tuple[ast.AST, ...]:
    """The imports of a Python file and its strings: each file is parsed once for all checks."""
    kept = (ast.Import, ast.ImportFrom, ast.Constant)
    return tuple(node for node in ast.walk(ast.parse(text)) if isinstance(node, kept))


def imported_names(file: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import of a file, wherever it stands, relative ones resolved.

    `from porism.costing import cost` yields `porism.costing.cost`, because what is imported may itself be a module.
    """
    here = ("porism", *file.relative_to(package).parent.parts)
    for node in _statements(file.read_text(encoding="utf-8")):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = here[: len(here) - level + 1] if level else ()
                base = [*above, *([module] if module else [])]
                yield from ((node.lineno, ".".join([*base, alias.name])) for alias in names)
            case ast.Constant(value=str(text)) if found := MODULE_IN_A_STRING.fullmatch(text):
                yield node.lineno, found[1]


def objection(here: tuple[str, ...], there: tuple[str, ...], tasks: set[str]) -> str | None:
    """Why the module `here` may not import `there`, both as the parts below `porism`; None where it may."""
    room, other = here[0], there[0] if there else "porism"
    if room in DOORS:
        return None if other in DOORS[room] else f"{room} may only point at {' and '.join(DOORS[room])}"
    if other not in HEIGHT:
        return f"{other} is no room: import a name from the room that defines it"
    if room not in HEIGHT:
        return f"{room} has no place in the order: give it one"
    if room == other:
        sisters = room == "tasks" and here[1] in tasks and there[1:] and there[1] in tasks - {here[1]}
        return f"the tasks {here[1]} and {there[1]} are sisters" if sisters else None
    if HEIGHT[room] == HEIGHT[other]:
        return f"{room} and {other} are siblings"
    return f"{room} stands below {other}" if HEIGHT[room] < HEIGHT[other] else None


def upward_imports(package: Path) -> list[str]:
    """Every import inside a package that the order forbids, as `file:line: name: why`."""
    tasks = {folder.name for folder in (package / "tasks").glob("*/")} - {"blocks"}
    complaints = []
    for file in sorted(package.rglob("*.py")):
        here = file.relative_to(package).with_suffix("").parts
        for line, name in imported_names(file, package):
            top, *there = name.split(".")
            if top == "porism" and (why := objection(here, tuple(there), tasks)):
                complaints.append(f"{file.relative_to(package)}:{line}: {name}: {why}")
    return complaints


def imported_modules(file: Path, package: Path) -> set[str]:
    """The modules of the package that a file imports by a statement, wherever it stands."""
    found: set[str] = set()
    for node in _statements(file.read_text(encoding="utf-8")):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names, level=0):
                below = {f"{module}.{alias.name}" for alias in names}
                found |= below if all(_file_of(name, package) for name in below) else {module, *below}
    return {name for name in found if _file_of(name, package)}


def _file_of(name: str, package: Path) -> Path | None:
    path = package.parent.joinpath(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _module_of(file: Path, package: Path) -> str:
    return ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")


def cycles(package: Path) -> list[list[str]]:
    """Modules that import each other, directly or through others: one list a knot."""
    arrows = {_module_of(file, package): imported_modules(file, package) for file in sorted(package.rglob("*.py"))}
    after = {name: _reached(name, arrows) for name in arrows}
    knots = {tuple(sorted(other for other in after[name] if name in after[other])) for name in arrows}
    return [list(knot) for knot in sorted(knots) if knot]


def _reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = arrows[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def imports_of_own_package(package: Path) -> list[str]:
    """Files that import the package they lie in, as `module: package`: its file runs before them, half of it or all."""
    found = []
    for file in sorted(package.rglob("*.py")):
        name = _module_of(file, package)
        if file.name != "__init__.py":
            found += [
                f"{name}: {above}" for above in sorted(imported_modules(file, package)) if name.startswith(f"{above}.")
            ]
    return found


def test_imports_run_downward(repository: Path) -> None:
    assert upward_imports(repository / "src/porism") == []


def test_no_modules_import_each_other(repository: Path) -> None:
    assert cycles(repository / "src/porism") == []


def test_no_file_imports_the_package_it_lies_in(repository: Path) -> None:
    assert imports_of_own_package(repository / "src/porism") == []


def test_a_cycle_is_found(plant: Plant) -> None:
    package = "porism/runs/__init__.py"
    files = {
        "a": "import porism.runs.b",
        "b": "from porism.runs.c import x",
        "c": "def f():\n    from porism.runs import a, y",
    }
    root = plant({package: "", **{f"porism/runs/{name}.py": text for name, text in files.items()}})
    assert cycles(root / "porism") == [["porism.runs.a", "porism.runs.b", "porism.runs.c"]]
    assert imports_of_own_package(root / "porism") == ["porism.runs.c: porism.runs"]


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("errors.py", "import porism.costing", "errors stands below costing"),
        ("costing/terms.py", "from porism.layers import Elman", "costing stands below layers"),
        ("costing/terms.py", "from ..layers.elman import layer", "costing stands below layers"),
        ("layers/elman/layer.py", "from porism.training import loop", "layers stands below training"),
        ("layers/elman/layer.py", "from ... import training", "layers stands below training"),
        ("layers/elman/layer.py", "def late():\n    import porism.runs", "layers stands below runs"),
        ("training/loop.py", "if TYPE_CHECKING:\n    import porism.tasks", "training stands below tasks"),
        ("training/loop.py", "import_module('porism.tasks.language.task')", "training stands below tasks"),
        ("training/loop.py", "import_module(f'porism.tasks.{name}')", "training stands below tasks"),
        (
            "tasks/words/data.py",
            "from porism.tasks.language import data",
            "the tasks words and language are sisters",
        ),
        ("tasks/words/data.py", "from ..language import data", "the tasks words and language are sisters"),
        ("tasks/words/data.py", "import porism.report", "tasks stands below report"),
        ("report/html.py", "import porism.sweep", "report and sweep are siblings"),
        ("report/html.py", "import porism.cli.train", "report stands below cli"),
        ("web/page.py", "import porism.cli", "web stands below cli"),
        ("cli/train.py", "import porism", "porism is no room"),
        ("cli/train.py", "from porism import Elman", "Elman is no room"),
        ("attic/trunk.py", "import porism.costing", "attic has no place in the order"),
        (
            "__init__.py",
            "from porism.training import loop",
            "__init__ may only point at api and costing and functional and layers and testing and version",
        ),
        (
            "__init__.py",
            "rooms = {'training': 'porism.training'}",
            "__init__ may only point at api and costing and functional and layers and testing and version",
        ),
        ("__main__.py", "import porism.training", "__main__ may only point at cli"),
    ],
)
def test_a_forbidden_import_is_found(plant: Plant, file: str, text: str, why: str) -> None:
    (complaint,) = upward_imports(plant({"tasks/language/data.py": "", file: text}))
    assert complaint.startswith(f"{file}:{text.count(chr(10)) + 1}: porism")
    assert why in complaint


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("costing/terms.py", "import torch\nfrom porism.errors import ShapeError"),
        (
            "layers/elman/layer.py",
            "from porism.layers.readout import Readout\nfrom porism.costing.alphabet import B, T",
        ),
        (
            "tasks/words/data.py",
            "from porism.layers import Elman\nfrom porism.training import loop\nfrom . import metric",
        ),
        ("tasks/__init__.py", "from porism.tasks.language import data"),
        ("cli/train.py", "from porism.version import __version__\nimport porism.tasks, porism.report"),
        ("__init__.py", "rooms = {'Cost': 'porism.costing'}"),
        ("__main__.py", "from porism.cli import main"),
    ],
)
def test_an_allowed_import_passes(plant: Plant, file: str, text: str) -> None:
    assert upward_imports(plant({"tasks/language/data.py": "", file: text})) == []
