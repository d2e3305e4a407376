"""The catalogue is what would be derived now, and its numbers are labelled as `porism cost` labels them."""

import json
import platform
import random
from pathlib import Path
from typing import Any

import pytest

from porism.api.cost import cost_of, resolve
from porism.costing.cost import Cost
from porism.costing.module_row import KINDS
from porism.costing.reading import CostReading
from porism.errors import RecipeError
from porism.web.catalogue import catalogue
from porism.web.processes import make_catalogue
from porism.web.processes.cost_json import cost_json
from porism.web.values import sizes_of, value_at

LAYERS = [cost["target"] for cost in catalogue().layers]
RECIPES = [cost["target"] for cost in catalogue().recipes]
MADE_WITH = json.loads(make_catalogue.FILE.read_text(encoding="utf-8"))["made_with"]


def comparable(entry: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the machine: which bytes kernels keep differs between kinds of processors."""
    if MADE_WITH["processor"] == platform.machine():
        return entry
    dropped = ("activation_bytes", "memory", "verdict")
    held_out = {kind: known for kind, known in entry["held_out"].items() if kind not in dropped}
    return {key: value for key, value in entry.items() if key not in dropped} | {"held_out": held_out}


def test_it_has_every_layer_and_every_recipe() -> None:
    assert list(catalogue().costs) == make_catalogue.names()


def test_it_has_every_claim_as_it_is_now() -> None:
    assert catalogue().claims == make_catalogue.claims()


def test_claims_written_anew_leave_the_costs_and_where_they_were_derived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept bytes of one kind of processor would be compared on another, otherwise."""
    file = tmp_path / "catalogue.json"
    file.write_text(
        make_catalogue.FILE.read_text(encoding="utf-8").replace(MADE_WITH["processor"], "other", 1), encoding="utf-8"
    )
    monkeypatch.setattr(make_catalogue, "FILE", file)
    make_catalogue.make(["claims"])
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["made_with"] == MADE_WITH | {"processor": "other"}
    assert written["costs"] == catalogue().costs
    assert written["claims"] == catalogue().claims


def test_one_entry_alone_is_not_derived_on_another_kind_of_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others would pass for derived there, too."""
    file = tmp_path / "catalogue.json"
    before = make_catalogue.FILE.read_text(encoding="utf-8").replace(MADE_WITH["processor"], "other", 1)
    file.write_text(before, encoding="utf-8")
    monkeypatch.setattr(make_catalogue, "FILE", file)
    with pytest.raises(RecipeError, match="on other, here is torch .* Derive all of them"):
        make_catalogue.make(["elman"])
    assert file.read_text(encoding="utf-8") == before


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_as_it_is_derived_now(name: str) -> None:
    assert_derived(name)


@pytest.mark.sweep(0)
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_as_it_is_derived_now(name: str) -> None:
    assert_derived(name)


def assert_derived(name: str) -> None:
    assert comparable(json.loads(json.dumps(make_catalogue.derived(name)))) == comparable(catalogue().costs[name])


@pytest.fixture(scope="module", params=["attention", "gcn"])
def derived(request: pytest.FixtureRequest) -> tuple[Cost, dict[str, Any]]:
    cost = cost_of(resolve(request.param))
    return cost, cost_json(cost, "layer")


@pytest.mark.sweep(1)
def test_numbers_and_labels_are_those_of_the_command_line(derived: tuple[Cost, dict[str, Any]]) -> None:
    cost, entry = derived
    draw = random.Random(3)
    for _ in range(25):
        given = {
            letter["letter"]: letter["multiple"] * draw.choice([1, 2, 7, 40, 150, 3_000, 10**8])
            for letter in entry["letters"]
        }
        sizes = sizes_of(entry, given)
        reading = CostReading(cost, sizes, recount=False)
        for kind in KINDS:
            expected, found = reading.quantity(kind), value_at(entry, kind, sizes)
            assert (found.number, found.label, found.why) == (expected.value, expected.label, expected.why)
        memory = sum(int(part) for part in cost._memory_at("adamw", sizes, recount=False).values())
        assert value_at(entry, "memory", sizes).number == memory


def test_a_size_that_is_no_multiple_has_no_number() -> None:
    found = value_at(catalogue().costs["window"], "flops", {"T": 33})
    assert (found.number, found.label) == (None, "unknown")
    assert "T in multiples of 32" in found.why


def test_twenty_digits_are_exact() -> None:
    sizes = {"B": 1, "T": 3 * 10**9, "A": 8, "D": 64}
    found = value_at(catalogue().costs["attention"], "flops", sizes)
    assert found.number == 4 * 8 * 64 * 3 * 10**9 * (2 * 8 * 64 + 3 * 10**9)
    assert found.label == "extrapolated"
