"""Derived formulas that are kept: read back as they were, for the same code only, and never a damaged file's."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sympy import Expr, Piecewise, Rational, ceiling, floor
from torch import nn

from porism.costing import code_version, kept
from porism.costing.alphabet import B, D, E, H, T, W, factored
from porism.costing.cost import Cost
from porism.costing.counting.fake import ShapeMode
from porism.costing.derive import derive
from porism.costing.formula_cache import cached, confirmed, formula_of, tree_of
from porism.costing.kept import file_of
from porism.costing.subject import CostSubject
from porism.costing.value_table import value_table
from porism.runs.recipe import Recipe, with_fields
from porism.tasks.graphs.recipes import RECIPES as GRAPHS
from porism.tasks.words.data.vocabulary import WordCounts
from porism.tasks.words.recipes import RECIPES
from porism.tasks.words.task import Words
from porism.training import cost_table as cost_tables
from porism.training import recipe_cost as recipe_costs
from porism.training import recipe_key
from porism.training.cost_table import COST_KEYS, cost_table
from porism.training.recipe_cost import recipe_cost, run_cost
from porism.training.recipe_key import is_kept, key_parts

PARTS = {"recipe": "two layers"}
KINDS = ("parameters", "flops", "backward_flops")


def two_layers(D: int) -> nn.Module:
    return nn.Sequential(nn.Linear(D, D), nn.Linear(D, 3))


SUBJECT = CostSubject(two_layers, ("B D",))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PORISM_DATA", str(tmp_path))
    code_version.source_checksum.cache_clear()
    yield tmp_path / kept.FORMULAS
    code_version.source_checksum.cache_clear()


@pytest.fixture(scope="module")
def derived() -> Cost:
    return derive(two_layers, "B D")


def never(*_: object, **options: object) -> Cost:
    raise AssertionError("derived again")


def count_as_own(monkeypatch: pytest.MonkeyPatch, is_own: bool) -> None:
    """Let a module of a test count as code of the package, or not."""
    for module in (recipe_key, recipe_costs):
        monkeypatch.setattr(module, "is_own", lambda _: is_own)


@pytest.mark.parametrize(
    "formula",
    [
        factored(2 * E * H + 2 * T),
        B * T * (D + 1) * Rational(3, 4),
        floor(T / 2 + Rational(1, 2)) ** 2 * B,
        ceiling(T / 4) + W,
        Piecewise((T**2, T <= W), (T * W, True)),
        Piecewise((2 * T, T < 5), (T * (W - 1), True)),
        B - B,
    ],
    ids=str,
)
def test_a_formula_is_written_as_it_stands(formula: Expr) -> None:
    again = formula_of(tree_of(formula))
    assert again == formula
    assert str(again) == str(formula)


def test_a_formula_is_no_code() -> None:
    with pytest.raises(ValueError, match="is no formula"):
        formula_of(["__import__", "os"])


def test_what_was_derived_once_is_read_back(derived: Cost) -> None:
    first = cached(PARTS, SUBJECT, lambda: derived)
    again = cached(PARTS, SUBJECT, never)
    assert first is derived
    assert str(again.table()) == str(derived.table())
    assert again.to_json() == derived.to_json()
    assert again.valid == derived.valid
    # It counts as the derived one does, far outside of the confirmed sizes.
    assert again.at(B=1000, D=999).flops == derived.at(B=1000, D=999).flops


@pytest.mark.parametrize("change", ["parts", "versions", "source"])
def test_other_recipes_versions_and_sources_are_derived(
    change: str, derived: Cost, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(PARTS, SUBJECT, lambda: derived)
    other = {"recipe": "three layers"} if change == "parts" else PARTS
    if change == "versions":
        monkeypatch.setattr(kept, "versions", lambda _: {"torch": "0.1"})
    if change == "source":
        monkeypatch.setattr(kept, "source_checksum", lambda: "0" * 64)
    with pytest.raises(AssertionError, match="derived again"):
        cached(other, SUBJECT, never)


def test_code_that_was_edited_since_it_was_loaded_keeps_nothing(
    derived: Cost, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_version, "_LOADED_AT", 0.0)
    code_version.source_checksum.cache_clear()
    assert file_of(PARTS) is None
    cached(PARTS, SUBJECT, lambda: derived)
    assert not folder.exists()


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _changed(content: bytes) -> bytes:
    return content.replace(b"flops", b"flopz")


@pytest.mark.parametrize(
    "damage", [_cut, _changed, lambda _: b"", lambda _: b"[1]"], ids=["cut", "changed", "empty", "list"]
)
def test_a_damaged_file_is_derived_again_and_replaced(damage: Callable[[bytes], bytes], derived: Cost) -> None:
    cached(PARTS, SUBJECT, lambda: derived)
    file = file_of(PARTS)
    assert file is not None
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(UserWarning, match="cannot be read .* and is derived again"):
        assert cached(PARTS, SUBJECT, lambda: derived) is derived
    assert str(cached(PARTS, SUBJECT, never).table()) == str(derived.table())


def test_a_folder_that_cannot_be_written_is_no_failure(derived: Cost, folder: Path) -> None:
    folder.write_text("a file, no folder")
    with pytest.warns(UserWarning, match="the formulas of Sequential cannot be kept in"):
        assert cached(PARTS, SUBJECT, lambda: derived) is derived


def test_the_oldest_files_are_forgotten(derived: Cost, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 2)
    files = []
    for number in range(4):
        cached({"number": number}, SUBJECT, lambda: derived)
        files.append(file_of({"number": number}))
        assert files[-1] is not None
        os.utime(files[-1], (number, number))
    assert set(folder.iterdir()) == set(files[-2:])


def test_a_model_of_your_own_package_is_derived_each_time(folder: Path) -> None:
    recipe: Any = RECIPES["small"]
    assert recipe_cost(recipe, SUBJECT).flops == 2 * B * D * (D + 3)
    assert not folder.exists()
    assert not is_kept(recipe, SUBJECT)


def test_a_later_run_of_the_same_sizes_counts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count_as_own(monkeypatch, True)
    monkeypatch.setattr(recipe_costs, "_COUNTED", {})
    sizes = {"B": 2, "D": 5}
    first = run_cost(RECIPES["small"], SUBJECT, sizes)
    (note,) = (folder / "confirmed").iterdir()
    monkeypatch.setattr(ShapeMode, "__init__", never)
    recipe_costs._COUNTED.clear()
    again = run_cost(RECIPES["small"], SUBJECT, sizes)
    assert [str(again.formula(kind)) for kind in KINDS] == [str(first.formula(kind)) for kind in KINDS]
    recipe_costs._COUNTED.clear()
    with pytest.raises(AssertionError, match="derived again"):
        run_cost(RECIPES["small"], SUBJECT, {"B": 2, "D": 6})
    note.write_bytes(b"{")
    with pytest.warns(UserWarning, match="cannot be read"), pytest.raises(AssertionError, match="derived again"):
        run_cost(RECIPES["small"], SUBJECT, sizes)


@pytest.mark.parametrize("holds", [True, False])
def test_what_a_count_found_is_kept(holds: bool) -> None:
    assert confirmed(PARTS, {"B": 2}, lambda: holds) is holds
    assert confirmed(PARTS, {"B": 2}, lambda: not holds) is holds
    assert confirmed(PARTS, {"B": 3}, lambda: not holds) is not holds


@pytest.mark.parametrize(
    ("one", "alike", "other"),
    [
        ({"sharpening_temperature": 1}, {"sharpening_temperature": 1.0}, {"sharpening_temperature": 2.0}),
        ({"dropout": 0.1}, {"dropout": 0.5}, {"dropout": 0.0}),
        ({"split_seed": 1}, {"check_val_every_n_epoch": 7}, {"num_layers": 3}),
        ({"power_iterations": 3}, {"teleport_probability": 1.0}, {"model": "appnp"}),
    ],
    ids=["equal", "probabilities", "no part of the model", "of no use to the model"],
)
def test_recipes_of_which_the_same_is_counted_share_their_formulas(
    one: dict[str, Any], alike: dict[str, Any], other: dict[str, Any]
) -> None:
    files = [file_of(key_parts(replace(GRAPHS["gcn"], **fields), SUBJECT)) for fields in (one, alike, other)]
    assert files[0] == files[1] != files[2]


@pytest.mark.parametrize(
    ("is_own", "most", "counted"),
    [(True, 100, "small large"), (True, 1, "small large small"), (False, 100, "small large small")],
)
def test_runs_of_one_model_and_of_one_size_are_counted_once(
    is_own: bool, most: int, counted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"small": {"B": 2, "D": 3}, "large": {"B": 2, "D": 50}}
    found: list[str] = []
    count = recipe_costs._seen_to_hold

    def noted(recipe: Recipe, subject: CostSubject, at: Mapping[str, int]) -> Cost:
        found.extend(name for name in sizes if sizes[name] == at)
        return count(recipe, subject, at)

    monkeypatch.setattr(recipe_costs, "_seen_to_hold", noted)
    count_as_own(monkeypatch, is_own)
    monkeypatch.setattr(recipe_costs, "MOST_COUNTED", most)
    monkeypatch.setattr(recipe_costs, "_COUNTED", {})
    for name in ("small", "large", "small"):
        assert run_cost(RECIPES["small"], SUBJECT, sizes[name]).at().flops == 4 * sizes[name]["D"] * (
            sizes[name]["D"] + 3
        )
    assert " ".join(found) == counted


@pytest.fixture
def words() -> Words:
    """A task without data: its letters are those of the vocabulary and the recipe."""
    recipe = with_fields(RECIPES["small"], {"vector_size": 8})
    return Words.restore(recipe, {"vocabulary": WordCounts(("a", "b", "c"), (4, 2, 1)).to_json()})


def test_the_table_of_a_recipe_is_kept_and_read_back(
    words: Words, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cost_table(words)
    assert made == {
        COST_KEYS.get(kind, kind): row for kind, row in value_table(words.cost(), words.letters(), 1).items()
    }
    monkeypatch.setattr(cost_tables, "_table", never)
    assert cost_table(words) == made
    (file,) = (folder / "tables").iterdir()
    file.write_text("{}")
    with pytest.warns(UserWarning, match="cannot be read"), pytest.raises(AssertionError, match="derived again"):
        cost_table(words)


@pytest.mark.parametrize("change", ["size", "vocabulary", "units", "source"])
def test_other_sizes_units_and_sources_have_a_table_of_their_own(
    change: str, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost_table(words)
    monkeypatch.setattr(cost_tables, "_table", never)
    if change == "size":
        words.recipe = with_fields(words.recipe, {"vector_size": 9})
    if change == "vocabulary":
        words.vocabulary = WordCounts(("a", "b"), (4, 2))
    if change == "units":
        monkeypatch.setattr(Words, "units", lambda _: 2)
    if change == "source":
        monkeypatch.setattr(kept, "source_checksum", lambda: "0" * 64)
    with pytest.raises(AssertionError, match="derived again"):
        cost_table(words)
