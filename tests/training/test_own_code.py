"""Files of the user's own are run under names of their own, and what they raise is told."""

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from porism.claims.ledger import read_ledger
from porism.errors import ClaimError, PorismError, RecipeError
from porism.training.own_code import PREFIX, module_at, module_of_file
from porism.training.own_model import DataInfo, OwnModel, imported

DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass
from torch import nn

@dataclass
class Widths:
    inner: int = 4

class Net(nn.Linear):
    def __init__(self, widths: Widths = Widths()):
        super().__init__(widths.inner, 3)
"""


@pytest.fixture(autouse=True)
def _same_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def known() -> set[str]:
    return {name for name in sys.modules if name.startswith(PREFIX)}


def test_a_file_may_hold_dataclasses_whose_annotations_are_texts(tmp_path: Path) -> None:
    (tmp_path / "my-net.py").write_text(DATACLASS)
    model: Any = OwnModel.of("my-net.py:Net").build(DataInfo())
    assert model.weight.shape == (3, 4)
    assert torch.equal(pickle.loads(pickle.dumps(copy.deepcopy(model))).weight, model.weight)
    (tmp_path / "claims.py").write_text(f"{DATACLASS}\nCLAIMS = Widths()\n")
    with pytest.raises(ClaimError, match="holds no CLAIMS, expected a list"):
        read_ledger(tmp_path / "claims.py")


def test_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder, size in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.py").write_text(f"class Net: size = {size}\n")
    a, b = imported("a/net.py:Net"), imported("b/net.py:Net")
    assert (a.size, b.size) == (1, 2)
    assert a.__module__ != b.__module__
    assert sys.modules[a.__module__].Net is a
    assert sys.modules[b.__module__].Net is b


def test_a_file_is_run_anew(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    for size in (1, 22):  # by its length, too, it is another file: Python keeps what it compiled
        file.write_text(f"size = {size}\n")
        assert imported("net.py:size") == size


@pytest.mark.parametrize("name", ["json", "torch", "this"])
def test_a_file_named_like_a_package_leaves_that_to_others(tmp_path: Path, name: str) -> None:
    sys.modules.pop("this", None)
    before = sys.modules.get(name)
    (tmp_path / f"{name}.py").write_text("Net = 3\n")
    assert imported(f"{name}.py:Net") == 3
    assert sys.modules.get(name) is before
    assert not hasattr(__import__(name), "Net")


def test_what_it_imports_is_found_beside_the_user_at_once_and_later(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_net.py").write_text("size = 3\n")
    (tmp_path / "later_neighbour.py").write_text("size = 4\n")
    (tmp_path / "net.py").write_text(
        "from neighbour_of_net import size\ndef later():\n    import later_neighbour\n    return later_neighbour.size\n"
    )
    assert imported("net.py:size") == 3
    assert imported("net:later")() == 4
    assert imported("net.py:later")() == 4
    assert sys.path.count(str(tmp_path)) == 1


@pytest.mark.parametrize("code", ["raise ValueError", "raise SystemExit", "raise KeyboardInterrupt", "x = ="])
def test_a_file_that_fails_leaves_no_module(tmp_path: Path, code: str) -> None:
    file, before = tmp_path / "broken.py", known()
    file.write_text(code)
    with pytest.raises(BaseException):  # noqa: B017, PT011  # whatever the file raises
        module_of_file(file)
    assert known() == before
    file.write_text("size = 3")
    whole = module_of_file(file)
    file.write_text(code)
    with pytest.raises(BaseException):  # noqa: B017, PT011
        module_at("broken.py")
    assert sys.modules[whole.__name__] is whole


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit(0)", "it calls sys.exit(0), which would end porism without a word. Leave that out."),
        ("import sys; sys.exit()", "it calls sys.exit(), which"),
        ("import sys; sys.exit('bye')", "it calls sys.exit('bye'), which"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines. Put it right first."),
    ],
)
def test_why_a_file_cannot_be_run_is_one_line(tmp_path: Path, code: str, told: str) -> None:
    (tmp_path / "leaving.py").write_text(code)
    (tmp_path / "leaving_module.py").write_text(code)
    for reference in ("leaving.py:Net", "leaving_module:Net"):
        with pytest.raises(PorismError) as refused:
            imported(reference)
        place = reference.removesuffix(":Net")
        assert str(refused.value).startswith(f"{reference}: {place} cannot be run: {told}")
    with pytest.raises(ClaimError) as refused_claims:
        read_ledger(tmp_path / "leaving.py")
    assert str(refused_claims.value).startswith(f"{tmp_path}/leaving.py: cannot be run: {told}")


def test_a_function_that_leaves_makes_no_model() -> None:
    with pytest.raises(RecipeError, match=r"^model leave cannot be made: it calls sys\.exit\(0\), which"):
        OwnModel.of(leave).build(DataInfo())


def leave() -> torch.nn.Module:
    sys.exit(0)
