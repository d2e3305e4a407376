"""Python files and modules of the user's own: how they are run, and why one cannot be."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from porism.errors import one_line, shown

PREFIX = "porism_file_"
"""How the names of modules begin that are made from files: no package has such a name."""


def module_of_file(file: Path) -> ModuleType:
    """Run a Python file, each time anew, as a module with a name that no other file and no package has.

    It is known by that name while it runs: dataclasses look there for what annotations mean, and pickle for classes.
    """
    file = file.resolve()
    stem, place = re.sub(r"\W", "_", file.stem), sha256(str(file).encode(errors="surrogateescape")).hexdigest()
    name = f"{PREFIX}{stem}_{place[:12]}"
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module, before = module_from_spec(spec), sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before
        raise
    return module


def module_at(place: str) -> ModuleType:
    """A module by its name, or by its file. What it imports is looked for in the working folder first."""
    with _working_folder_first():
        return module_of_file(Path(place)) if place.endswith(".py") else import_module(place)


@contextmanager
def _working_folder_first() -> Iterator[None]:
    """Import from the folder the user stands in, as `python -m` does.

    It stays, for what is imported in a function, but at the end: a sklearn.py there is not what others mean.
    """
    folder = str(Path.cwd())
    if folder in sys.path[: len(sys.path) - 1]:
        yield
        return
    sys.path[:] = [folder, *(path for path in sys.path if path != folder)]
    try:
        yield
    finally:
        sys.path[:] = [*(path for path in sys.path if path != folder), folder]


def why_not(error: BaseException) -> str:
    """Why code of the user's cannot be run, with what to do.

    >>> why_not(SystemExit(0))
    'it calls sys.exit(0), which would end porism without a word. Leave that out.'
    >>> why_not(KeyError("x"))
    "KeyError: 'x'. Put it right first."
    """
    if isinstance(error, SystemExit):
        code = "" if error.code is None else shown(error.code)
        return f"it calls sys.exit({code}), which would end porism without a word. Leave that out."
    return f"{type(error).__name__}: {one_line(error)}. Put it right first."
