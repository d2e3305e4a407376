"""The contract of tasks passes what is right and finds what is wrong: each check has a mistake that it is for."""

import itertools
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
import torch
from examples.points.check import check
from examples.points.data import two_moons
from examples.points.model import Net
from examples.points.recipes import RECIPES, PointsRecipe
from examples.points.task import Points
from torch import Tensor, nn

from porism.costing.alphabet import D, H, V
from porism.costing.terms import Terms
from porism.errors import CheckError, RecipeError
from porism.runs.recipe import Recipe
from porism.testing import check_task, task_checks
from porism.testing.task_contract import TASK_CHECKS
from porism.training.task import Batch, Carry, Prediction


def test_a_task_of_your_own_passes_every_check() -> None:
    report = check()
    assert {result.name: result.verdict for result in report.results} == dict.fromkeys(TASK_CHECKS, "pass")


class Misnamed(Points):
    """A recipe under another name than its own."""

    recipes: ClassVar[Mapping[str, Recipe]] = {**RECIPES, "large": RECIPES["wide"]}


@dataclass(frozen=True, kw_only=True)
class Forgetful(PointsRecipe):
    """TOML has no word for nothing, and this field's default is another."""

    limit: int | None = 3


class LosesNone(Points):
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "small": Forgetful(name="small", description="without a limit", limit=None, batch_size=16)
    }


class Downloads(Points):
    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        if source is None:
            with socket.socket() as line:
                line.connect(("127.0.0.1", 9))
        return super().load(recipe, source)


class SharesExamples(Points):
    """The last training point is tested too."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.places:
            self.places["test"] = torch.cat([self.places["test"], self.places["train"][-1:]])


class SplitsByChance(Points):
    """Splits that another load draws anew."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.places:
            together = torch.cat(list(self.places.values()))
            sizes = [len(places) for places in self.places.values()]
            drawn = together[torch.randperm(len(together))]
            self.places = dict(zip(self.places, drawn.split(sizes), strict=True))


class NamesObject(Points):
    """An address is no fingerprint."""

    def fingerprint(self) -> str:
        return f"{id(self):064x}"


class PassesErrorsOn(Points):
    """A reader's own error says neither file nor line."""

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        if source is not None:
            rows = [line.split(",") for line in Path(source).read_text().splitlines()]
            torch.tensor([[float(x), float(y)] for x, y, _ in rows])
        return super().load(recipe, source)


class SeedsItself(Points):
    def build(self) -> Net:
        torch.manual_seed(7)
        return super().build()


class ShufflesAnew(Points):
    """The order of a pass from the global generator: no run could be taken up in its middle."""

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        order = self.places["train"][torch.randperm(len(self.places["train"]))]
        return [(self.data.points[some], self.data.labels[some]) for some in order.split(16)]


class CarriesGraph(Points):
    """What is handed on holds the graph of every step before."""

    def start(self, model: nn.Module) -> Carry:
        return {"last": torch.zeros(())}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        loss, _ = super().loss(model, batch, carry)
        return loss, {"last": loss}


class UnusedNet(Net):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.extra = nn.Parameter(torch.zeros(1))


class LeavesParameter(Points):
    def build(self) -> Net:
        return UnusedNet(2, self.recipe.hidden_size, len(self.classes))

    def cost(self) -> Terms:
        return super().cost() + Terms(parameters={"extra": 1})


class EvaluatesBySample(Points):
    """Evaluates on some points, drawn anew each time."""

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        torch.rand(1)
        return super().evaluate(model, split)


class EvaluatesInTraining(Points):
    """Leaves the model as the next epoch must not find it."""

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        assert isinstance(model, Net)
        model.hidden.bias.data.add_(1e-3)
        return super().evaluate(model, split)


class Chance(Points):
    """A loss that no seed reaches."""

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        loss, carry = super().loss(model, batch, carry)
        return loss * (1 + 1e-3 * int.from_bytes(os.urandom(1)) / 255), carry


class Remembers(Points):
    """Counts its steps in the task, where no checkpoint finds them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.steps = itertools.count()

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        loss, carry = super().loss(model, batch, carry)
        return loss / (1 + 0.1 * next(self.steps)), carry


class KeepsTensors(Points):
    def assets(self) -> dict[str, Any]:
        return {**super().assets(), "points": self._data}


class SkipsInputs(Points):
    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        return super().predict(model, inputs[:1], options)


class TakesAnyOption(Points):
    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        return super().predict(model, inputs, {})


class ForgetsBias(Points):
    def cost(self) -> Terms:
        terms = super().cost()
        return replace(terms, parameters={"hidden": D * H, "readout": H * V + V})


class CountsInputGradient(Points):
    def cost(self) -> Terms:
        terms = super().cost()
        return replace(terms, backward_flops={name: 2 * term for name, term in terms.flops.items()})


MISTAKES: dict[type[Points], tuple[str, str]] = {
    Misnamed: ("recipes", "recipe 'large' calls itself 'wide'"),
    LosesNone: ("toml", "recipe small: limit is None, and a file cannot hold it"),
    Downloads: ("embedded", "asks the network"),
    SharesExamples: ("splits", "1 example is in train and test"),
    SplitsByChance: ("splits", "has other examples when the data is loaded again"),
    NamesObject: ("fingerprint", "the fingerprint of the same data is another one"),
    PassesErrorsOn: ("bad_data", "missing raises FileNotFoundError, expected DataError"),
    SeedsItself: ("build", "models from two seeds are the same"),
    ShufflesAnew: ("batches", "is another one when it is read again"),
    CarriesGraph: ("learns", "the carried last has a gradient"),
    LeavesParameter: ("learns", "the loss does not depend on extra"),
    EvaluatesBySample: ("evaluate", "evaluating train draws from the random state of torch"),
    EvaluatesInTraining: ("evaluate", "evaluating train changes hidden.bias"),
    Chance: ("deterministic", "two trainings of small from one seed: hidden.weight differs"),
    Remembers: ("resume", "small broken off after step 6 and resumed: hidden.weight differs"),
    KeepsTensors: ("restore", "assets are no plain JSON"),
    SkipsInputs: ("predict", "2 inputs got answers to ['0,1']"),
    TakesAnyOption: ("predict", "predict takes an option that there is not"),
    ForgetsBias: ("parameters", "the model has 82"),
    CountsInputGradient: ("cost", "recipe small: 384 FLOPs of a step by formula, 320 counted"),
}


@pytest.mark.parametrize("kind", MISTAKES, ids=lambda kind: kind.__name__)
def test_a_mistake_is_found_by_its_check(kind: type[Points]) -> None:
    name, words = MISTAKES[kind]
    report = check_task(kind, inputs=["0,1", "1,-0.5"], checks=[name], on_fail=None)
    (failed,) = report.failed
    assert words in failed.reason


def test_every_check_has_a_mistake() -> None:
    assert {name for name, _ in MISTAKES.values()} == set(TASK_CHECKS)


def test_a_file_that_is_refused_without_its_line_fails(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("0,1,upper\n1,2\n")
    check_task(Points, checks=["bad_data"], bad_data={str(bad): "bad.csv, line 2"})
    with pytest.raises(CheckError, match=r"bad.csv is refused without 'line 3'"):
        check_task(Points, checks=["bad_data"], bad_data={str(bad): "line 3"})
    good = tmp_path / "good.csv"
    points_of = two_moons()
    rows = zip(points_of.points.tolist(), points_of.labels.tolist(), strict=True)
    good.write_text("".join(f"{x},{y},{label}\n" for (x, y), label in rows))
    with pytest.raises(CheckError, match=r"good.csv is taken for data"):
        check_task(Points, checks=["bad_data"], bad_data={str(good): "line 1"})
    report = check_task(Points, data=good, checks=["splits", "embedded"])
    assert [result.verdict for result in report.results] == ["skip", "pass"]


def test_what_is_not_given_is_skipped_and_what_is_expected_told_apart() -> None:
    assert check_task(Points, checks=["predict"]).skipped[0].reason == "no inputs were given"
    report = check_task(ForgetsBias, checks=["parameters"], expected_failed_checks={"parameters": "known"})
    assert [(result.verdict, result.reason) for result in report.results] == [("expected", "known")]
    with pytest.warns(UserWarning, match="the model has 82"):
        check_task(ForgetsBias, checks=["parameters"], on_fail="warn")


def test_unknown_checks_tasks_and_recipes_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"there is no check 'split'. Did you mean splits\?"):
        check_task(Points, checks=["split"])
    with pytest.raises(RecipeError, match=r"there is no check 'split'. Did you mean splits\?"):
        check_task(Points, checks=["splits"], expected_failed_checks={"split": "known"})
    with pytest.raises(RecipeError, match="on_fail is 'rise'. Choose 'raise', 'warn' or None."):
        check_task(Points, checks=["splits"], on_fail="rise")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="is no task"):
        check_task(Net)  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="points has no recipe 'smal'"):
        check_task(Points, recipes=["smal"])
    with pytest.raises(RecipeError, match="^check: recipes is empty, so that nothing is checked. Known: "):
        check_task(Points, recipes=[])
    with pytest.raises(RecipeError, match="^check: checks is empty, so that nothing is checked. Known: recipes, "):
        check_task(Points, checks=[])
    assert [name for name, _ in task_checks(Points)] == list(TASK_CHECKS)
