"""The supervised task: a module of the user's own, or a net of ours, from inputs to targets."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from porism.costing.terms import Terms
from porism.errors import DataError, RecipeError
from porism.runs.exhibits import AnyExhibit
from porism.runs.recipe import Recipe
from porism.runs.tuning import Space
from porism.tasks.blocks.batches import LazyBatches
from porism.tasks.blocks.finite import check_finite
from porism.tasks.blocks.in_memory import Chosen, Examples, inputs_in_memory, rows_digests
from porism.tasks.supervised.baselines import baseline_metrics, baseline_notes
from porism.tasks.supervised.data import OWN, SupervisedData, check_inputs, load_data, mean_and_deviation, own_data
from porism.tasks.supervised.exhibits.confusion import confusion_matrix
from porism.tasks.supervised.metric import (
    IGNORED,
    LOSSES,
    METRICS,
    loss_name,
    loss_of,
    measure,
    own_metrics,
    selection_metric,
)
from porism.tasks.supervised.model import build
from porism.tasks.supervised.model.base import MLP, MLPWithLoss, model_cost
from porism.tasks.supervised.predict import answers, check_options, read_inputs, shown_numbers
from porism.tasks.supervised.recipes import DEFAULT, RECIPES, SupervisedRecipe
from porism.tasks.supervised.tuning import SPACE
from porism.training.own_model import DataInfo
from porism.training.task import Batch, Carry, OwnInputs, Prediction, Task, loaded

EVALUATION_BATCH = 256
SHOWN = 5


class Supervised(Task):
    """Inputs to targets: classes, numbers, or whatever a loss of the user's own takes.

    >>> task = Supervised.load(RECIPES["mlp"], None)      # three rings
    >>> model = task.build()
    """

    name: ClassVar[str] = "supervised"
    unit: ClassVar[str] = "examples"
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    default_recipe: ClassVar[str] = DEFAULT
    trains_in_shards: ClassVar[bool] = True
    tunable: ClassVar[Space] = SPACE
    fields_beside_model = ("loss", "validation_split", "test_split", "split_seed")

    def __init__(self, recipe: Recipe, assets: Mapping[str, Any], data: SupervisedData | None = None) -> None:
        assert isinstance(recipe, SupervisedRecipe)
        self.recipe: SupervisedRecipe = recipe
        self.classes: tuple[str, ...] = tuple(assets["classes"])
        self._assets, self._data = dict(assets), data
        self.metric, self.lower_is_better = selection_metric(recipe.loss)
        # Of few examples the accuracy is soon as high as it gets, while the net still learns.
        self.metric_between_equals = None if self.lower_is_better else loss_name(recipe.loss)
        if data is not None:
            # Data that comes without a test split is trained and validated all the same.
            self.splits = tuple(data.splits)  # type: ignore[misc]  # a ClassVar where all tasks have the three

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        return cls._of(recipe, load_data(source, _own(recipe)))

    @classmethod
    def from_data(cls, recipe: Recipe, data: Any) -> Self:
        return cls._of(recipe, own_data(data, _own(recipe)))

    @classmethod
    def _of(cls, recipe: Recipe, data: SupervisedData) -> Self:
        return cls(recipe, {"classes": list(data.classes), **_described(data, _own(recipe))}, data)

    @classmethod
    def restore(cls, recipe: Recipe, assets: Mapping[str, Any]) -> Self:
        return cls(recipe, assets)

    @classmethod
    def for_own_model(cls, recipe: Recipe) -> Recipe:
        return replace(_own(recipe), model=OWN)

    @property
    def data(self) -> SupervisedData:
        return loaded(self._data)

    def on_other_data(self, source: str | None, data: Any) -> Self:
        other = self.load(self.recipe, source) if data is None else self.from_data(self.recipe, data)
        # The same names under the same numbers; of classes that are numbers the last ones may be missing.
        if self.classes[: len(other.classes)] != other.classes:
            raise DataError(f"data: classes are {', '.join(other.classes)}, and the run's {', '.join(self.classes)}.")
        whole = {
            split: examples.whole if isinstance(examples, Chosen) else examples
            for split, examples in other.data.splits.items()
        }
        # All of it where it has no split of its own: nothing of it was trained on.
        splits = whole if other.data.facts.get("split") == "as it came" else dict.fromkeys(whole, whole["train"])
        return type(self)(self.recipe, self._assets, SupervisedData(splits, self.classes))

    def check_finite(self) -> None:
        for split, examples in self.data.splits.items():
            check_inputs(examples, split)

    def assets(self) -> dict[str, Any]:
        return self._assets

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    def example_ids(self, split: str) -> Sequence[Hashable]:
        examples = self.data.splits[split]
        if (inputs := inputs_in_memory(examples)) is not None:
            return rows_digests(inputs)
        if isinstance(examples, Chosen):
            positions: list[int] = examples.positions.tolist()
            return positions
        return [(split, index) for index in range(len(examples))]

    def build(self) -> nn.Module:
        model = build(self.recipe, self._width(), self._outputs())
        # Of a run that is loaded without its data they come with its checkpoint.
        if isinstance(model, MLP) and model.standardize is not None and self._data is not None:
            model.standardize.fit(*mean_and_deviation(self._data.splits["train"]))
        return model

    def data_info(self) -> DataInfo:
        first = self._assets["inputs"][0]
        shape = first["shape"]
        return DataInfo(
            vocab_size=first["bound"],
            num_classes=len(self.classes) or None,
            num_features=shape[-1] if shape else None,
            in_channels=shape[0] if len(shape) == 3 else None,
        )

    def adapt(self, module: nn.Module) -> nn.Module:
        return module

    def own_inputs(self) -> OwnInputs:
        texts = [
            " ".join(["B", *map(str, one["shape"])]) + (f" : int < {one['bound']}" if one["bound"] else "")
            for one in self._assets["inputs"]
        ]
        names = self._assets["names"]
        return OwnInputs(tuple(texts) if names is None else (dict(zip(names, texts, strict=True)),), {"B": 1})

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        return ExampleBatches(self.data.splits["train"], self.recipe.batch_size, seed, epoch)

    def start(self, model: nn.Module) -> Carry:
        return {}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        output, target = self._answered(model, batch)
        return self._loss_of(output, target), carry

    def example_dim(self) -> int:
        if self.recipe.loss not in METRICS:
            raise RecipeError(
                f"supervised trains loss={self.recipe.loss} in one process: what it is a mean over is not known. Leave "
                f"torchrun out, or choose a loss from {', '.join(METRICS)}."
            )
        return 0

    def loss_weight(self, batch: Batch) -> float:
        # cross_entropy leaves such targets out of its mean.
        return int((batch[-1] != IGNORED).sum()) if self.recipe.loss == "cross_entropy" else self.count(batch)

    def count(self, batch: Batch) -> int:
        return len(batch[0])

    def training_metrics(self, loss: float) -> dict[str, float]:
        return {loss_name(self.recipe.loss): loss}

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        examples, device = self.data.splits[split], _device(model)
        total, outputs, targets = 0.0, [], []
        for positions in torch.arange(len(examples)).split(EVALUATION_BATCH):
            batch = tuple(x.to(device) for x in examples.batch(positions))
            output, target = self._answered(model, batch)
            total += float(self._loss_of(output, target).double()) * len(positions)
            outputs.append(_plain(output))
            targets.append(batch[-1].cpu() if target is None else target.cpu())
        found = {loss_name(self.recipe.loss): total / len(examples)}
        if all(isinstance(output, Tensor) for output in outputs):
            whole, of_whole = torch.cat([x.cpu() for x in outputs if isinstance(x, Tensor)]), torch.cat(targets)
            if self.recipe.loss in ("cross_entropy", "mse", "bce"):
                found = measure(whole, of_whole, self.recipe.loss)
            return found | own_metrics(self.user_objects.metrics, whole, of_whole)
        if self.user_objects.metrics:
            raise DataError("metrics= takes outputs that are tensors, or have .logits. This model's have neither.")
        return found

    def predict(self, model: nn.Module, inputs: Any, options: Mapping[str, Any]) -> list[Prediction]:
        check_options(options)
        if len(self._assets["inputs"]) > 1 or self._assets["names"] is not None:
            raise DataError("predict: this model takes several tensors. Call run.model on them.")
        known = self._assets["inputs"][0]
        x, names = read_inputs(inputs, known["shape"])
        x = x.to(getattr(torch, known["dtype"])) if not (known["bound"] is None and x.is_floating_point()) else x
        with torch.no_grad():
            outputs = [_plain(model(part.to(_device(model)))) for part in x.split(EVALUATION_BATCH)]
        if not all(isinstance(output, Tensor) for output in outputs):
            raise DataError("predict: the model's output is no tensor. Call run.model on the inputs.")
        found = torch.cat([y for y in outputs if isinstance(y, Tensor)])
        if not found.isfinite().all():
            check_finite(x, "predict", "input at")
        return answers(found, names, self.classes, self.recipe.loss)

    def show(self, model: nn.Module) -> list[Prediction]:
        """Answers to the first examples of the last split, each with its target."""
        if len(self._assets["inputs"]) > 1 or self._assets["names"] is not None:
            return []
        examples = self.data.splits[self.splits[-1]]
        x, target = examples.batch(torch.arange(min(SHOWN, len(examples))))[:2]
        try:
            shown = self.predict(model, x, {})
        except DataError:
            return []
        targets = [self.classes[int(y)] if self.classes and y.dim() == 0 else shown_numbers(y) for y in target]
        return [
            replace(one, notes=(*one.notes, f"the target is {known}"))
            for one, known in zip(shown, targets, strict=True)
        ]

    def exhibits(self, model: nn.Module) -> list[AnyExhibit]:
        right = self._predicted(model, self.splits[-1])
        return [] if right is None else [confusion_matrix(*right, self.classes, self.splits[-1])]

    def outcomes(self, model: nn.Module, split: str) -> list[bool]:
        found = self._predicted(model, split)
        if found is None:
            return []
        right: list[bool] = (found[0] == found[1]).tolist()
        return right

    def facts(self) -> dict[str, int | float | str]:
        sizes = ", ".join(f"{len(examples)} {split}" for split, examples in self.data.splits.items())
        return {"examples": sizes, **self.data.facts}

    def notes(self) -> Sequence[str]:
        header = self.data.facts.get("header")
        return [] if header is None else [f"the first row is read as a header, and not as an example: {header}"]

    def cost(self) -> Terms:
        return model_cost(self.recipe)

    def letters(self) -> dict[str, int]:
        sizes = {"B": 1, "D": self._width(), "V": self._outputs()}
        return sizes if self.recipe.model == "linear" else sizes | {"H": self.recipe.hidden_size}

    def baselines(self) -> dict[str, dict[str, dict[str, float]]]:
        if self.recipe.loss not in ("cross_entropy", "mse"):
            return {}
        return baseline_metrics(self.data.splits, self.recipe.loss, len(self.classes))

    def baseline_notes(self) -> Sequence[str]:
        return baseline_notes(self.data.splits, self.recipe.loss)

    def baselines_key(self) -> Hashable:
        return super().baselines_key(), self.recipe.loss

    @classmethod
    def subject(cls, recipe: Recipe) -> tuple[Callable[..., nn.Module], tuple[str, ...], dict[str, int]]:
        own, inputs = _own(recipe), ("B D : data", "B : int < V")
        if own.model == "linear":
            return (
                lambda D, V: MLPWithLoss(D, V, num_layers=0, standardize=own.standardize),
                inputs,
                {"B": own.batch_size},
            )
        return (
            lambda D, H, V: MLPWithLoss(D, V, H, own.num_layers, own.nonlinearity, own.dropout, own.standardize),
            inputs,
            {"B": own.batch_size, "H": own.hidden_size},
        )

    def _answered(self, model: nn.Module, batch: Batch) -> tuple[Any, Tensor | None]:
        """The model's output for a batch, and the target that is no input of it."""
        if (names := self._assets["names"]) is not None:
            return model(**dict(zip(names, batch, strict=True))), None
        if self.recipe.loss == "model":
            try:
                signature(model.forward).bind(*batch)
            except TypeError as error:
                raise RecipeError("which loss? The model takes no target and so has none itself.", LOSSES) from error
            return model(*batch), None
        return model(*batch[:-1]), batch[-1]

    def _loss_of(self, output: Any, target: Tensor | None) -> Tensor:
        return loss_of(output, target, self.recipe.loss, self.user_objects.loss, len(self.classes))

    def _predicted(self, model: nn.Module, split: str) -> tuple[Tensor, Tensor] | None:
        """Classes and those the model says, (N,) each, where an example has one class."""
        if not self.classes:
            return None
        examples, device = self.data.splits[split], _device(model)
        found, known = [], []
        for positions in torch.arange(len(examples)).split(EVALUATION_BATCH):
            *inputs, target = (x.to(device) for x in examples.batch(positions))
            if target.dim() != 1:
                return None
            found.append(model(*inputs).argmax(1).cpu())
            known.append(target.cpu())
        return torch.cat(found), torch.cat(known)

    def _width(self) -> int:
        width = 1
        for size in self._assets["inputs"][0]["shape"]:
            width *= size
        return width

    def _outputs(self) -> int:
        return len(self.classes) or int(self._assets["outputs"])


class ExampleBatches(LazyBatches):
    """Examples in an order that seed and epoch decide, `batch_size` at a time; the last may be fewer."""

    def __init__(self, examples: Examples, batch_size: int, seed: int, epoch: int) -> None:
        self._examples = examples
        draw = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        count = len(examples)
        order = torch.randperm(count, generator=draw) if examples.shuffles else torch.arange(count)
        self._positions = order.split(batch_size)

    def __len__(self) -> int:
        return len(self._positions)

    def batch(self, number: int) -> Batch:
        return self._examples.batch(self._positions[number])


def _described(data: SupervisedData, recipe: SupervisedRecipe) -> dict[str, Any]:
    """What a model must know of examples: shape and type of each input, and how many numbers a target has."""
    train = data.splits["train"]
    first = train.batch(torch.arange(1))
    inputs = first if train.names is not None or recipe.loss == "model" else first[:-1]
    if not inputs:
        raise DataError("data: an example is one tensor, expected an input and a target.")
    described = [
        {
            "shape": list(x.shape[1:]),
            "dtype": str(x.dtype).removeprefix("torch."),
            "bound": None if x.is_floating_point() else _bound(data, index),
        }
        for index, x in enumerate(inputs)
    ]
    target = first[-1]
    return {
        "inputs": described,
        "names": None if train.names is None else list(train.names),
        "outputs": int(target[0].numel()),
    }


def _bound(data: SupervisedData, index: int) -> int:
    """One above the largest whole number of an input in train: the size of an embedding."""
    train = data.splits["train"]
    parts = torch.arange(len(train)).split(EVALUATION_BATCH)
    return 1 + max(int(train.batch(positions)[index].max()) for positions in parts)


def _plain(output: Any) -> Any:
    """The tensor of an output: itself, or its logits as models of transformers give them."""
    if isinstance(output, Mapping) and "logits" in output:
        return output["logits"]
    return getattr(output, "logits", output)


def _device(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def _own(recipe: Recipe) -> SupervisedRecipe:
    assert isinstance(recipe, SupervisedRecipe)
    return recipe
