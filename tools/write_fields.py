"""Writes src/porism/api/typed.pyi: porism.train and porism.compare with the fields of each task's recipes.

python tools/write_fields.py            # writes it
python tools/write_fields.py --check    # ends with 1 where it is not what it would write
"""

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from porism.runs.recipe import Recipe
from porism.tasks import TASKS, find

API = Path(__file__).parents[1] / "src/porism/api"
TARGET = API / "typed.pyi"
ARGUMENTS = {"name", "description", "model", "loss"}
"""Fields that say what a recipe is, or that are arguments of their own."""
HEAD = """\
# Written by tools/write_fields.py from the recipes; tests/api/test_typed.py holds it equal.
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload

from torch import nn

from porism.api.compare import Comparison, Factory, Model
from porism.api.listeners import Callback
from porism.api.run import FilePath, Run
from porism.runs.recipe import Recipe
from porism.training.budget import Budget
from porism.training.own_model import DataInfo
from porism.training.task import Function
"""


def stub() -> str:
    """The whole file."""
    parts = [HEAD, _fields("RecipeFields", "TypedDict", Recipe, set())]
    base = {field.name for field in dataclasses.fields(Recipe)}
    for task in TASKS:
        kind = find(task)
        own = type(kind.recipes[kind.default_recipe])
        parts.append(_fields(_name(task), "RecipeFields", own, base))
    for function in ("train", "compare"):
        parts += _overloads(function)
    return "\n".join(parts)


def _name(task: str) -> str:
    return f"{task.capitalize()}Fields"


def _fields(name: str, base: str, kind: type[Recipe], known: set[str]) -> str:
    hints = get_type_hints(kind)
    new = [field.name for field in dataclasses.fields(kind) if field.name not in known | ARGUMENTS]
    lines = [f"    {field}: {_text(hints[field])}" for field in new]
    return "\n".join([f"class {name}({base}, total=False):", *(lines or ["    pass"]), ""])


def _text(hint: Any) -> str:
    """A type as it is written.

    >>> _text(int | None), _text(Literal["sum", "mean"])
    ('int | None', "Literal['sum', 'mean']")
    """
    if get_origin(hint) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(hint)))}]"
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(_text(part) for part in get_args(hint))
    if get_origin(hint) is not None:
        inside = ", ".join("..." if part is ... else _text(part) for part in get_args(hint))
        return f"{get_origin(hint).__name__}[{inside}]"
    return "None" if hint is NoneType else str(hint.__name__)


def _overloads(function: str) -> list[str]:
    """One for each task, one for modules of the user's own, and one for a task that is not known before it runs."""
    tree = ast.parse((API / f"{function}.py").read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    own = "nn.Module" if function == "train" else "Mapping[str, nn.Module | Factory]"
    tasks = [(f'Literal["{task}"]', _name(task)) for task in TASKS]
    return [_overload(found, *pair) for pair in [*tasks, (own, _name("supervised")), ("str", "RecipeFields")]]


def _overload(function: ast.FunctionDef, task: str, fields: str) -> str:
    arguments = function.args
    first, *positional = arguments.args
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + list(arguments.defaults)
    lines = [f"    {first.arg}: {task},"]
    lines += [_argument(one, default) for one, default in zip(positional, defaults[1:], strict=True)]
    lines.append("    *,")
    lines += [_argument(one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    assert function.returns is not None
    returned = ast.unparse(function.returns)
    return "\n".join(
        ["@overload", f"def {function.name}(", *lines, f"    **fields: Unpack[{fields}],", f") -> {returned}: ...", ""]
    )


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    assert one.annotation is not None
    shown = "" if default is None else f" = {ast.unparse(default)}"
    return f"    {one.arg}: {ast.unparse(one.annotation)}{shown},"


def main() -> int:
    if "--check" in sys.argv:
        return int(not is_written())
    TARGET.write_text(formatted(stub()), encoding="utf-8")
    return 0


def is_written() -> bool:
    """Whether the file says what the recipes do."""
    return ast.dump(ast.parse(TARGET.read_text(encoding="utf-8"))) == ast.dump(ast.parse(stub()))


def formatted(text: str) -> str:
    """As ruff writes it, whose settings are the repository's."""
    words = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
