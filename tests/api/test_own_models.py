"""Modules of one's own on data that is in memory: trained, loaded, resumed, refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.api.conftest import Data, best_bits
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

import porism
from porism.errors import DataError, PorismError, RecipeError, RunError, ShapeError
from porism.runs.run import IN_MEMORY, RunFacts
from porism.training.own_model import DataInfo


def make(info: DataInfo) -> nn.Module:
    assert info.num_features is not None
    assert info.num_classes is not None
    return nn.Linear(info.num_features, info.num_classes)


def fit(task: Any, data: Any, out: Path, **options: Any) -> porism.Run:
    given = {"loss": "cross_entropy", "epochs": 2, "learning_rate": 0.05, "threads": 1, "device": "cpu", **options}
    return porism.train(task, data=data, out=out, **given)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Linear(4, 3)


@pytest.fixture(scope="module")
def run(net: nn.Module, points: Data, tmp_path_factory: pytest.TempPathFactory) -> porism.Run:
    return fit(net, points, tmp_path_factory.mktemp("own") / "run", epochs=8)


def test_a_module_learns_and_stays_as_it_was(run: porism.Run, net: nn.Module, points: Data) -> None:
    torch.manual_seed(3)
    assert torch.equal(next(net.parameters()), next(nn.Linear(4, 3).parameters()))
    assert run.metrics["test"]["accuracy"] > 0.6
    assert isinstance(run.model, nn.Linear)
    assert run.model is not net
    X, y = points
    predictions = run.predict(X.numpy())
    right = [int(one.output) == label for one, label in zip(predictions, y.tolist(), strict=True)]
    assert np.mean(right) == pytest.approx(run.evaluate((X, y))["accuracy"])
    assert predictions[0].probabilities is not None
    assert sum(predictions[0].probabilities.values()) == pytest.approx(1)


def test_a_function_that_fails_is_told_what_was_known_of_the_data(points: Data, tmp_path: Path) -> None:
    """Without a loss the targets are no classes: a size of None is the first that goes wrong, far from its cause."""

    def sized(info: Any) -> nn.Module:
        return nn.Linear(4, info.num_classes)

    with pytest.raises(TypeError) as failed:
        porism.train("supervised", model=sized, data=points, out=tmp_path / "run")
    (note,) = failed.value.__notes__
    assert "num_classes=None" in note
    assert "loss='cross_entropy'" in note
    assert not (tmp_path / "run").exists()


def test_the_results_tell_cost_and_split(run: porism.Run) -> None:
    told = json.loads((run.path / "metrics.json").read_text())
    assert told["cost"]["flops"] == {"formula": "24*B", "value": 24, "sizes": {"B": 1}, "units": 1, "terms": {}}
    assert told["cost"]["parameters"]["value"] == 15
    assert "in each class" in told["facts"]["split"]
    assert str(run.cost.flops) == "24*B"
    assert run.command.startswith("porism.train('supervised', data=..., model=..., seed=1")
    assert "loss='cross_entropy'" in run.command
    assert "Linear" in (run.path / "report.html").read_text()


def test_one_seed_gives_one_result(run: porism.Run, net: nn.Module, points: Data, tmp_path: Path) -> None:
    assert best_bits(fit(net, points, tmp_path / "same", epochs=8).path) == best_bits(run.path)
    assert best_bits(fit(net, points, tmp_path / "other", epochs=8, seed=2).path) != best_bits(run.path)


def test_loading_asks_for_the_module(run: porism.Run, points: Data) -> None:
    bare = porism.load(run.path)
    assert bare.metrics == run.metrics
    with pytest.raises(RunError, match=r"Give it again, .*: porism\.load\('.*', model=\.\.\.\)$"):
        _ = bare.model
    again = porism.load(run.path, model=nn.Linear(4, 3))
    assert again.predict(points[0][:3]) == run.predict(points[0][:3])
    with pytest.raises(DataError, match="was given in Python"):
        again.evaluate()
    with pytest.raises(RunError, match="does not fit the model"):
        _ = porism.load(run.path, model=nn.Linear(4, 2)).model


def test_it_resumes_to_the_bits_of_one_run_through(
    run: porism.Run, net: nn.Module, points: Data, tmp_path: Path
) -> None:
    fit(net, points, tmp_path / "run", epochs=3)
    assert best_bits(fit(net, points, tmp_path / "run", epochs=8, resume=True).path) == best_bits(run.path)
    with pytest.raises(DataError, match="has changed since the run began"):
        fit(net, (points[0] + 1, points[1]), tmp_path / "run", epochs=8, resume=True)


def test_a_function_draws_from_the_seed_and_is_found_again(points: Data, tmp_path: Path) -> None:
    first = fit("supervised", points, tmp_path / "1", model=make, epochs=1)
    second = fit("supervised", points, tmp_path / "2", model=make, epochs=1, seed=2)
    assert best_bits(first.path) != best_bits(second.path)
    # By its name, in this process or another.
    assert porism.load(first.path).predict(points[0][:2]) == first.predict(points[0][:2])
    assert first.recipe.name == "make"


def test_what_repeats_a_run_is_python_where_python_brought_something() -> None:
    known: dict[str, Any] = {"task": "supervised", "recipe": "mlp", "seed": 0, "device": "cpu", "precision": "fp32"}
    facts = RunFacts(**known, threads=2, fingerprint="", overrides=["epochs=3", "loss=function"])
    command = "porism train supervised mlp --set epochs=3 --set loss=function"
    assert facts.repeat().startswith(command)
    end = "seed=0, device='cpu', threads=2, precision='fp32', epochs=3, loss=...)"
    in_memory = replace(facts, source=IN_MEMORY)
    assert in_memory.repeat() == f"porism.train('supervised', 'mlp', data=..., {end}"
    assert replace(in_memory, model=IN_MEMORY).repeat() == f"porism.train('supervised', data=..., model=..., {end}"
    named = replace(facts, model="nets:make", overrides=["loss=model"])
    told = "seed=0, device='cpu', threads=2, precision='fp32'"
    assert named.repeat() == f"porism.train('supervised', model='nets:make', {told})"
    # What was set to none or false is set to that again.
    unset = replace(named, overrides=["max_grad_norm=none", "restore_best_weights=false"])
    assert unset.call().endswith(f"{told}, max_grad_norm=None, restore_best_weights=False)")
    # From a file the command line finds it too.
    in_file = replace(named, model="/models/nets.py:make")
    assert in_file.repeat().startswith("porism train supervised --model /models/nets.py:make --set loss=model --pre")
    assert in_file.call() == named.call().replace("nets:make", "/models/nets.py:make")
    assert replace(in_file, overrides=["loss=function"]).repeat().endswith("loss=...)")


class Pairs(Dataset[tuple[Tensor, int]]):
    """Read one by one, and augmented at random."""

    def __init__(self, points: Data) -> None:
        self.points = points

    def __len__(self) -> int:
        return len(self.points[0])

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.points[0][index] + 0.01 * torch.randn(4), int(self.points[1][index])


class Columns:
    """What a datasets.Dataset is to us: columns by name, in torch's tensors when asked."""

    column_names = ("label", "x")

    def __init__(self, X: Tensor, y: Tensor, as_torch: bool = False) -> None:
        self.X, self.y, self.as_torch = X, y, as_torch

    def with_format(self, kind: str) -> "Columns":
        return Columns(self.X, self.y, kind == "torch")

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = {"label": self.y[index], "x": self.X[index]}
        return row if self.as_torch else {name: value.tolist() for name, value in row.items()}


FORMS: dict[str, Any] = {
    "arrays of numpy": lambda X, y: (X.double().numpy(), y.numpy()),
    "lists": lambda X, y: (X.tolist(), y.tolist()),
    "a TensorDataset": TensorDataset,
    "a Dataset": lambda X, y: Pairs((X, y)),
    "a DataLoader": lambda X, y: DataLoader(Pairs((X, y)), batch_size=16, shuffle=True),
    "a datasets.Dataset": Columns,
    "a list of pairs": lambda X, y: list(zip(X, y, strict=True)),
    "by split": lambda X, y: {
        split: (X[some], y[some])
        for split, some in {"train": slice(80), "validation": slice(80, 100), "test": slice(100, 120)}.items()
    },
    "without test": lambda X, y: {"train": TensorDataset(X[:80], y[:80]), "valid": DataLoader(Pairs((X[80:], y[80:])))},
}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("form", FORMS)
def test_data_comes_in_many_forms(form: str, net: nn.Module, points: Data, tmp_path: Path) -> None:
    run = fit(net, FORMS[form](*points), tmp_path / "run", epochs=1)
    assert set(run.metrics) == {"train", "valid"} | ({"test"} if form != "without test" else set())
    assert run.recipe.batch_size == (16 if form == "a DataLoader" else 32)
    # The same data again is the same to the fingerprint, random augmentation or not.
    again = fit(net, FORMS[form](*points), tmp_path / "run", epochs=2, resume=True)
    assert len(again.history) == 2


def test_classes_may_be_text(net: nn.Module, points: Data, tmp_path: Path) -> None:
    names = np.array(["pear", "apple", "fig"])[points[1].numpy()]
    data = {"train": (points[0][:80], names[:80]), "valid": (points[0][80:], names[80:])}
    run = fit(net, data, tmp_path / "run", epochs=1)
    (one,) = run.predict(points[0][0])
    assert one.probabilities is not None
    assert list(one.probabilities) == ["apple", "fig", "pear"]


LOSSES: dict[str, tuple[Any, Any, dict[str, Any], set[str]]] = {
    "mse": (nn.Linear(4, 1), lambda X, y: (X, y), {"loss": "mse"}, {"mse", "mae"}),
    "bce": (nn.Linear(4, 1), lambda X, y: (X, (y > 0).float()), {"loss": "bce"}, {"bce", "accuracy"}),
    "function": (
        nn.Linear(4, 3),
        lambda X, y: (X, y),
        {"loss": functional.cross_entropy, "metrics": {"hits": lambda output, y: (output.argmax(1) == y).sum()}},
        {"loss", "hits"},
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_losses(loss: str, points: Data, tmp_path: Path) -> None:
    model, data, options, expected = LOSSES[loss]
    run = fit(model, data(*points), tmp_path / "run", **options)
    assert set(run.metrics["test"]) == expected
    assert len(run.predict(points[0][:3])) == 3
    first, last = (line["train"][next(iter(line["train"]))] for line in (run.history[0], run.history[-1]))
    assert last < first


class WithLoss(nn.Module):
    """As models of transformers are called."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor, labels: Tensor) -> Any:
        logits = self.linear(x)
        return SimpleNamespace(loss=functional.cross_entropy(logits, labels), logits=logits)


def test_a_model_may_have_its_own_loss(points: Data, tmp_path: Path) -> None:
    items = [{"x": x, "labels": y} for x, y in zip(*points, strict=True)]
    run = fit(WithLoss(), items, tmp_path / "run", loss=None, epochs=3)
    assert run.history[-1]["train"]["loss"] < run.history[0]["train"]["loss"]
    assert set(run.metrics["test"]) == {"loss"}


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.Dropout(0.5), nn.LazyLinear(3))


@pytest.mark.parametrize("model", [lazy, nn.LazyLinear(3)], ids=["a function", "a module"])
def test_lazy_modules_take_their_sizes_from_the_data(model: Any, points: Data, tmp_path: Path) -> None:
    given: dict[str, Any] = {"model": model, "epochs": 4}
    whole = fit("supervised", points, tmp_path / "whole", **given)
    fit("supervised", points, tmp_path / "run", **{**given, "epochs": 2})
    assert best_bits(fit("supervised", points, tmp_path / "run", **given, resume=True).path) == best_bits(whole.path)
    bare = porism.load(whole.path, model=model)
    assert bare.predict(points[0][:3]) == whole.predict(points[0][:3])
    told = json.loads((whole.path / "metrics.json").read_text())
    parameters = 15 if model is not lazy else 25 + 10 + 18
    assert told["parameters"] == told["cost"]["parameters"]["value"] == parameters
    assert str(bare.cost.parameters) == str(parameters)


def test_a_lazy_module_that_takes_no_part_is_refused(points: Data, tmp_path: Path) -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(4, 3), nn.LazyLinear(3)

        def forward(self, x: Tensor) -> Any:
            return self.used(x)

    with pytest.raises(RecipeError, match=r"unused\.weight of the model has no shape after a batch"):
        fit(Unused(), points, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", [np.int64, np.uint8, torch.tensor])
def test_whole_numbers_of_other_libraries_are_numbers(kind: Any, points: Data, tmp_path: Path) -> None:
    run = fit("supervised", points, tmp_path / "run", seed=kind(3), threads=kind(1))
    assert (run.seed, type(run.seed), type(porism.load(run.path).seed)) == (3, int, int)


def test_numbers_of_numpy_set_fields(points: Data, tmp_path: Path) -> None:
    run = fit("supervised", points, tmp_path / "run", epochs=np.int64(1), learning_rate=np.float32(0.5))
    assert (run.recipe.epochs, run.recipe.learning_rate) == (1, 0.5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan"), torch.tensor(float("nan"))])
def test_a_metric_that_is_no_number_is_null_in_every_file(value: Any, points: Data, tmp_path: Path) -> None:
    """JSON has no NaN. A metric may be without a value on a split, as a score of a class that is not in it."""
    run = fit("supervised", points, tmp_path / "run", metrics={"score": lambda output, y: value})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    files = [file for file in run.path.rglob("*") if file.suffix in (".json", ".jsonl")]
    assert {"metrics.json", "events.jsonl", "state.json"} <= {file.name for file in files}
    for file in files:
        for text in file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]:
            json.loads(text, parse_constant=refuse)
    again = porism.load(run.path)
    assert [again.metrics["test"]["score"], again.history[-1]["valid"]["score"]] == [None, None]
    assert again.report(tmp_path / "page.html").is_file()


@pytest.mark.parametrize("value", ["high", "0.5", None, [1, 2], torch.zeros(2)])
def test_a_metric_that_gives_no_number_is_named(value: Any, points: Data, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"metrics: score gave .*, expected one number"):
        fit("supervised", points, tmp_path / "run", metrics={"score": lambda output, y: value})


class Wrong(NamedTuple):
    error: type[PorismError]
    words: str
    options: dict[str, Any]
    data: Callable[[Tensor, Tensor], Any] = lambda X, y: (X, y)
    task: Any = "a module"


WRONG: dict[str, Wrong] = {
    "no loss": Wrong(RecipeError, 'has none itself. Give loss="cross_entropy", "mse" or', {"loss": None}),
    "a loss that is none": Wrong(RecipeError, "loss is 'mae', expected", {"loss": "mae"}),
    "too few outputs": Wrong(ShapeError, "class 2, and the model has 2 outputs", {}, task=nn.Linear(4, 2)),
    "broadcasting": Wrong(ShapeError, "the output is (32, 3) and the target (32,)", {"loss": "mse"}),
    "numbers as classes": Wrong(
        DataError, 'whole numbers. For numbers use loss="mse", for', {}, lambda X, y: (X, y.float())
    ),
    "negative class": Wrong(DataError, "class -1", {}, lambda X, y: (X, y - 1)),
    "other lengths": Wrong(DataError, "expected as many rows in each", {}, lambda X, y: (X, y[1:])),
    "no data": Wrong(DataError, "a int is no data", {}, lambda X, y: 5),
    "no target": Wrong(DataError, "examples are dicts of x, expected", {}, lambda X, y: [{"x": one} for one in X]),
    "unknown split": Wrong(DataError, "there is no split 'dove'", {}, lambda X, y: {"dove": (X, y)}),
    "field of our models": Wrong(RecipeError, "hidden_size is of the recipes' models", {"hidden_size": 5}),
    "two models": Wrong(RecipeError, "two models", {"model": nn.Linear(4, 3)}),
    "no parameter": Wrong(
        PorismError, "does not depend on any parameter", {}, task=nn.Linear(4, 3).requires_grad_(False)
    ),
    "seed of True": Wrong(RecipeError, "seed takes a whole number from 0 to 4294967295, got True", {"seed": True}),
    "seed of 1.5": Wrong(RecipeError, "seed takes a whole number from 0 to 4294967295, got 1.5", {"seed": 1.5}),
    "threads": Wrong(RecipeError, "threads takes a whole number", {"threads": True}),
    "out": Wrong(RecipeError, "out is a int, expected the path of a folder", {"out": 3}),
    "device": Wrong(PorismError, "there is no device", {"device": "warp"}),
    "callbacks": Wrong(RecipeError, "callbacks is 3, expected a list of functions", {"callbacks": 3}),
    "one callback": Wrong(RecipeError, "Write callbacks=[f].", {"callbacks": print}),
    "tune": Wrong(RecipeError, "tuning takes minutes above 0, got True", {"tune": True}),
    "metrics": Wrong(RecipeError, "metrics is a int, expected a dict of functions by name", {"metrics": 3}),
    "a metric": Wrong(RecipeError, "metrics: f1 is 3, expected a function", {"metrics": {"f1": 3}}),
    "name of a metric": Wrong(RecipeError, "metrics: 1 is no name of a metric", {"metrics": {1: max}}),
    "metric of ours": Wrong(RecipeError, "metrics: accuracy is measured already", {"metrics": {"accuracy": max}}),
    "metric of a function": Wrong(
        RecipeError, "metrics: loss is measured already", {"metrics": {"loss": max}, "loss": functional.cross_entropy}
    ),
    "no model": Wrong(RecipeError, "expected a torch.nn.Module or a function", {"model": 5}, task="supervised"),
    "task without": Wrong(
        RecipeError,
        "sentiment takes no model of your own",
        {"model": nn.Linear(4, 3), "loss": None},
        lambda X, y: None,
        "sentiment",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_trained_is_refused_and_writes_nothing(wrong: str, points: Data, tmp_path: Path) -> None:
    error, words, options, data, task = WRONG[wrong]
    with pytest.raises(error) as raised:
        fit(nn.Linear(4, 3) if task == "a module" else task, data(*points), **{"out": tmp_path / "run", **options})
    assert words in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_numbers_that_are_none_are_named_by_their_place_and_not_as_a_learning_rate(tmp_path: Path) -> None:
    X, y = torch.randn(60, 4), torch.arange(60) % 3
    X[37, 2] = float("nan")
    named = r"the input at \[37, 2\] is nan, expected finite numbers. Remove or replace it: 1 of 240 are not finite"
    own: dict[str, Any] = {"data": (X, y), "loss": "cross_entropy", "epochs": 2, "progress": False}
    # Ours refuse it when it is read. A module of yours may know what to do with it: asked when its loss is none.
    with pytest.raises(DataError, match=f"data: {named}"):
        porism.train("supervised", "linear", out=tmp_path / "ours", **own)
    assert not (tmp_path / "ours").exists()
    with pytest.raises(DataError, match=f"data: {named}"):
        porism.train(nn.Linear(4, 3), out=tmp_path / "yours", **own)
    knows = nn.Sequential(Filled(), nn.Linear(4, 3))
    run = porism.train(knows, out=tmp_path / "knows", **own)
    assert run.status == "finished"
    items = [(x, int(label)) for x, label in zip(X, y, strict=True)]
    with pytest.raises(DataError, match=r"train, from example 0 on: the tensor 0 at \[\d+, 2\] is nan"):
        porism.train(nn.Linear(4, 3), out=tmp_path / "items", **{**own, "data": items})
    plain = porism.train(nn.Linear(4, 3), out=tmp_path / "plain", **{**own, "data": (X[:30], y[:30]), "epochs": 1})
    with pytest.raises(DataError, match=r"predict: the input at \[7, 2\] is nan"):
        plain.predict(X[30:])


class Filled(nn.Module):
    """Zeros for missing numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return x.nan_to_num()
