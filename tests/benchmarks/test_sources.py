"""Results say with which code they were measured, and tables where that has changed since."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import tables
import trained
from porism.tasks.images.recipes import RECIPES
from sources import PACKAGE, _written, changes, checksum, checksums, recipe_settings

CODE = '''"""What it is for."""

LIMIT = 3
"""Of what."""


def double(x: int) -> str:
    """Twice."""
    if x > LIMIT:
        raise ValueError(f"{x} is more than {LIMIT}")
    return f"{2 * x!r:>4}"  # why
'''
GRID = {"parts": {}, "hardware": {"gpu": None, "threads": 1, "cpu": "c", "cores": 1}, "versions": {"torch": "2"}}


def planted(folder: Path) -> Path:
    """A package with a layer of a few files."""
    for name in ("layer", "naive", "check", "cost", "kernels/cpu", "kernels/triton/outputs"):
        file = folder / "layers" / "sum" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CODE)
    return folder


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# why", "# why not"),
        ("def double(x: int) -> str:", "def double(\n    x: int,\n) -> str:"),
        ('"""Twice."""', ""),
        ('"""Of what."""', '"""Of all."""'),
        ("is more than", "is above"),
    ],
)
def test_what_is_not_measured_does_not_count(before: str, after: str) -> None:
    assert before in CODE
    assert checksum(CODE.replace(before, after)) == checksum(CODE)


@pytest.mark.parametrize(
    ("before", "after"), [("2 * x", "3 * x"), ("LIMIT = 3", "LIMIT = 4"), (">4", ">5"), ("x: int", "x: float")]
)
def test_code_counts(before: str, after: str) -> None:
    assert checksum(CODE.replace(before, after)) != checksum(CODE)


def test_a_checksum_is_the_same_with_every_version_of_python() -> None:
    assert checksum(CODE) == "9c8fdfd7e29ff6bb"


def test_the_empty_text_with_which_python_3_12_ends_a_format_does_not_count() -> None:
    def formatted(*ending: str) -> ast.Expr:
        tree = ast.parse('f"{x:>{width}}"').body[0]
        assert isinstance(tree, ast.Expr)
        assert isinstance(tree.value, ast.JoinedStr)
        [value] = tree.value.values
        assert isinstance(value, ast.FormattedValue)
        assert isinstance(value.format_spec, ast.JoinedStr)
        start = [one for one in value.format_spec.values if getattr(one, "value", None) != ""]
        value.format_spec.values = [*start, *map(ast.Constant, ending)]
        return tree

    assert _written(formatted("")) == _written(formatted()) != _written(formatted("x"))
    assert checksum('f(x, "")') != checksum("f(x)")


def test_what_runs_on_a_device_is_measured(tmp_path: Path) -> None:
    package, measures = planted(tmp_path), ("layers/sum",)
    assert list(checksums(measures, "cpu", package)) == ["layers/sum/kernels/cpu.py", "layers/sum/layer.py"]
    on_gpu = ["layers/sum/kernels/triton/outputs.py", "layers/sum/layer.py"]
    assert list(checksums(measures, "cuda", package)) == on_gpu
    named = checksums((*measures, "layers/sum/naive.py"), "cuda", package)
    assert list(named) == [*on_gpu, "layers/sum/naive.py"]
    with pytest.raises(SystemExit, match="is no code"):
        checksums(("layers/product",), "cpu", package)


def test_a_change_is_told_with_its_file(tmp_path: Path) -> None:
    package = planted(tmp_path)
    result = {"sources": checksums(("layers/sum",), "cpu", package)}
    kernel = package / "layers" / "sum" / "kernels" / "cpu.py"
    for other in ("naive.py", "kernels/triton/outputs.py"):
        (package / "layers" / "sum" / other).write_text("pass")
    kernel.write_text(CODE.replace("# why", "# why not"))
    assert changes(result, package) == []
    told = ["The code has changed since this was measured: `layers/sum/kernels/cpu.py`."]
    kernel.write_text(CODE.replace("2 * x", "3 * x"))
    assert changes(result, package) == told
    kernel.unlink()
    assert changes(result, package) == told


def test_of_many_files_some_are_named() -> None:
    result = {"sources": {f"layers/gone/{name}.py": "0" for name in "abcde"}}
    assert changes(result)[0].endswith("`layers/gone/a.py`, `layers/gone/b.py`, `layers/gone/c.py` and 2 more files.")


def test_a_table_says_below_itself_that_the_code_has_changed(tmp_path: Path) -> None:
    file, sums = tmp_path / "grid.json", checksums(("layers/recurrent/grid",), "cpu")
    kernel = "layers/recurrent/grid/kernels/cpu.py"
    file.write_text(json.dumps({**GRID, "sources": sums}))
    today = tables.lines_of(lambda result: ["a table"], file)
    assert today == ["a table"]
    file.write_text(json.dumps({**GRID, "sources": {**sums, kernel: checksum("another = 1")}}))
    sentence = f"The code has changed since this was measured: `{kernel}`."
    assert tables.lines_of(lambda result: ["a table"], file) == ["a table", "", sentence]
    file.write_text(json.dumps(GRID))
    assert tables.lines_of(lambda result: ["a table"], file)[-1].endswith("is not on record.")


def test_a_recipe_that_has_other_settings_is_told_wherever_it_is_kept() -> None:
    kept = recipe_settings("images", ["grid-4", "pooled"])
    assert kept["images/grid-4"]["epochs"] == RECIPES["grid-4"].epochs
    assert changes({"recipes": kept}) == []
    before = {field: value for field, value in kept["images/grid-4"].items() if field != "skip_broken"}
    assert changes({"recipes": {"images/grid-4": before}}) == []
    other = {"recipes": {**kept, "images/grid-4": {**before, "epochs": 1}}}
    told = ["Settings of recipes have changed since this was measured: `images/grid-4`."]
    for result in (other, {"parts": {"one": other}}, {"rows": [{"recipe": "grid-4"}, other]}):
        assert changes(result) == told
    gone: dict[str, Any] = {"recipes": {"images/none": {}}}
    assert changes(gone) == ["Settings of recipes have changed since this was measured: `images/none`."]


def test_runs_of_other_code_are_not_mixed(tmp_path: Path) -> None:
    used, folders = tmp_path / "runs" / trained.USED, [tmp_path / "runs" / "a-seed-1"]
    first: dict[str, Any] = {"sources": {"a.py": "1"}, "recipes": {"images/a": {"epochs": 1}}}
    second = {**first, "recipes": {"images/b": {"epochs": 2}}}
    trained.check_same(first, used, folders)
    folders[0].mkdir()
    trained.check_same(second, used, folders)
    assert json.loads(used.read_text()) == {**first, "recipes": {**first["recipes"], **second["recipes"]}}
    others: tuple[dict[str, Any], ...] = ({"sources": {"a.py": "2"}}, {"recipes": {"images/a": {"epochs": 3}}})
    for other in others:
        with pytest.raises(SystemExit, match="has runs of other code or settings"):
            trained.check_same({**first, **other}, used, folders)
    used.unlink()
    with pytest.raises(SystemExit, match="not on record"):
        trained.check_same(first, used, folders)


@pytest.mark.parametrize("file", sorted((tables.HERE / "results").glob("*.json")), ids=lambda file: file.stem)
def test_every_result_that_is_kept_says_what_it_was_measured_with(file: Path) -> None:
    assert not any("not on record" in sentence for sentence in changes(json.loads(file.read_text())))


def test_every_benchmark_names_code_that_is_there() -> None:
    named = {}
    for file in tables.HERE.glob("*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MEASURES":
                named[file.stem] = ast.literal_eval(node.value)
    assert {"counters", "grid", "language_training", "roofline", "series_gpu"} <= named.keys()
    for measures in named.values():
        assert all((PACKAGE / path).exists() for path in measures)
        assert checksums(measures, "cpu")
