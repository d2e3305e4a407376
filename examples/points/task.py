"""The task: splits, batches, model, loss, metrics and prediction, tied together."""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.points.data import LabelledPoints, read_points, split_places, two_moons
from examples.points.model import Net, NetWithLoss, model_cost
from examples.points.recipes import RECIPES, PointsRecipe
from porism.costing.terms import Terms
from porism.errors import RecipeError
from porism.runs.recipe import Recipe
from porism.training.task import Batch, Carry, Prediction, Task, loaded


class Points(Task):
    """Which class is a point of?

    >>> task = Points.load(RECIPES["small"], None)      # two moons
    >>> len(task.batches(epoch=1, seed=1))
    11
    """

    name: ClassVar[str] = "points"
    unit: ClassVar[str] = "examples"
    metric = "accuracy"
    lower_is_better = False
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    default_recipe: ClassVar[str] = "small"

    def __init__(self, recipe: Recipe, classes: Sequence[str], data: LabelledPoints | None = None) -> None:
        assert isinstance(recipe, PointsRecipe)
        self.recipe: PointsRecipe = recipe
        self.classes = tuple(classes)
        self._data = data
        self.places = {} if data is None else split_places(len(data.labels))

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        data = two_moons() if source is None else read_points(Path(source))
        return cls(recipe, data.classes, data)

    @classmethod
    def restore(cls, recipe: Recipe, assets: Mapping[str, Any]) -> Self:
        return cls(recipe, assets["classes"])

    @property
    def data(self) -> LabelledPoints:
        return loaded(self._data)

    def assets(self) -> dict[str, Any]:
        return {"classes": list(self.classes)}

    def fingerprint(self) -> str:
        seen = hashlib.sha256(repr(self.classes).encode())
        for part in (self.data.points, self.data.labels):
            seen.update(part.numpy().tobytes())
        return seen.hexdigest()

    def example_ids(self, split: str) -> Sequence[Hashable]:
        places: list[int] = self.places[split].tolist()
        return places

    def build(self) -> Net:
        return Net(2, self.recipe.hidden_size, len(self.classes))

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        # The order depends on seed and epoch alone, so that a run resumes in the middle of a pass.
        generator = torch.Generator().manual_seed((seed << 20) + epoch)
        train = self.places["train"]
        order = train[torch.randperm(len(train), generator=generator)]
        return [(self.data.points[some], self.data.labels[some]) for some in order.split(self.recipe.batch_size)]

    def start(self, model: nn.Module) -> Carry:
        return {}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        points, labels = batch
        return functional.cross_entropy(model(points), labels), carry

    def count(self, batch: Batch) -> int:
        return len(batch[0])

    def training_metrics(self, loss: float) -> dict[str, float]:
        return {"cross_entropy": loss}

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        places = self.places[split]
        device = next(model.parameters()).device
        logits, labels = model(self.data.points[places].to(device)).cpu(), self.data.labels[places]
        right = (logits.argmax(1) == labels).double().mean()
        return {"accuracy": float(right), "cross_entropy": float(functional.cross_entropy(logits, labels))}

    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        if options:
            raise RecipeError(f"points: there is no option {next(iter(options))!r}. Leave it out.")
        return [self._answer(model, text) for text in inputs]

    def _answer(self, model: nn.Module, text: str) -> Prediction:
        try:
            x, y = (float(part) for part in text.split(","))
        except ValueError:
            raise RecipeError(f"points: {text!r} is no point. Write x,y, for instance 0.5,-1.") from None
        point = torch.tensor([[x, y]], device=next(model.parameters()).device)
        probability, best = model(point).softmax(1).max(1)
        return Prediction(text, self.classes[int(best)], (f"with probability {float(probability):.2f}",))

    def show(self, model: nn.Module) -> list[Prediction]:
        return self.predict(model, ["0,1", "1,-0.5"], {})

    def cost(self) -> Terms:
        return model_cost()

    def letters(self) -> dict[str, int]:
        return {"B": 1, "D": 2, "H": self.recipe.hidden_size, "V": len(self.classes)}

    @classmethod
    def subject(cls, recipe: Recipe) -> tuple[Callable[..., nn.Module], tuple[str, ...], dict[str, int]]:
        assert isinstance(recipe, PointsRecipe)
        return lambda D, H, V: NetWithLoss(D, H, V), ("B D : data", "B : int < V"), {"H": recipe.hidden_size}
