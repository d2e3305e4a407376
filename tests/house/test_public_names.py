"""What `porism` offers: each name loads on first use, from where the stub says, and stays what it is."""

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import porism
from porism import layers

STUB = Path(porism.__file__).with_suffix(".pyi")
EVERY_SUBMODULE = """
import importlib, pkgutil, porism
for found in pkgutil.walk_packages(porism.__path__, "porism."):
    if ".kernels" not in found.name and ".benchmarks" not in found.name and not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except ImportError:
            pass                                    # an extra that is not installed
"""


def stub_names(stub: Path = STUB) -> dict[str, str]:
    """Each name of the stub with the module that it comes from."""
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_the_stub_names_what_the_package_names() -> None:
    assert sorted(stub_names()) == sorted(porism.__all__)


def test_the_layers_are_those_of_their_stub() -> None:
    known = stub_names(Path(layers.__file__).with_suffix(".pyi"))
    assert sorted(known) == sorted(layers.__all__)
    for name, module in known.items():
        assert getattr(layers, name) is getattr(import_module(module), name), name
    assert [name for name in dir(layers) if not name.startswith("__")] == sorted(layers.__all__)
    with pytest.raises(AttributeError, match=r"module 'porism.layers' has no attribute 'Transformer'"):
        getattr(layers, "Transformer")  # noqa: B009  # the stub has no such name either


def test_a_list_of_what_there_is_has_public_names_alone() -> None:
    assert [name for name in dir(porism) if not name.startswith("__")] == sorted(porism.__all__)
    assert {"__doc__", "__version__"} < set(dir(porism))


@pytest.mark.sweep(1)
@pytest.mark.parametrize("after", ["", EVERY_SUBMODULE], ids=["at first", "after every submodule"])
def test_each_name_is_the_one_the_stub_names(after: str) -> None:
    pairs = {name: module for name, module in stub_names().items() if module != "porism"}
    code = f"""{after}
import porism
from importlib import import_module
for name, module in {pairs!r}.items():
    assert getattr(porism, name) is getattr(import_module(module), name), name
assert callable(porism.cost) and callable(porism.attention)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_modules_load_by_name() -> None:
    for name in ("errors", "functional", "layers", "testing"):
        assert getattr(porism, name) is import_module(f"porism.{name}")
    assert all(callable(getattr(porism.functional, name)) for name in porism.functional.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'porism' has no attribute 'Elmann'"):
        getattr(porism, "Elmann")  # noqa: B009  # a checker would refuse porism.Elmann


def test_an_editor_completes_the_names(repository: Path) -> None:
    jedi = pytest.importorskip("jedi", reason="jedi, of the dev extra, is not installed")
    project = jedi.Project(str(repository), added_sys_path=[str(repository / "src")])
    completed = jedi.Script("import porism\nporism.", project=project).complete(2, len("porism."))
    assert set(porism.__all__) <= {completion.name for completion in completed}
    (shown,) = jedi.Script("import porism\nporism.Elman", project=project).help(2, 8)
    assert "Elman recurrent layer" in shown.docstring()


LEAN = """
[mypy]
follow_imports = silent
ignore_errors = True
[mypy-torch.*,numpy.*,sympy.*,triton.*,numba.*,sklearn.*,transformers.*,torch_geometric.*,matplotlib.*,optuna.*,rich.*,tyro.*]
follow_imports = skip
"""
"""Of other packages only that they are there, since names and arguments of ours are compared: a quarter of the time."""


@pytest.mark.sweep(0)
def test_the_stub_agrees_with_what_is_there(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "lean.ini").write_text(LEAN)
    words = [sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-missing-stub", "porism"]
    words += ["--mypy-config-file", str(tmp_path / "lean.ini")]
    environment = {**os.environ, "MYPYPATH": str(repository / "src"), "PYTHONPATH": str(repository / "src")}
    done = subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert "porism" in done.stdout + done.stderr
    # Of the modules below, which are no stubs, it says that what is cached is another object than what is written.
    of_ours = re.compile(r"^porism(\.(?!__main__)\w+)?[: ]")
    assert [line for line in done.stdout.splitlines() if of_ours.match(line)] == []
    assert "not checked due to mypy build errors" not in done.stdout
