"""What the training loop asks of a task: data, model, loss, metrics and predictions, all made from a recipe."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from porism.costing.subject import CostSubject
from porism.errors import CostError, DataError, RecipeError
from porism.runs.example_scores import ExampleScores
from porism.runs.exhibits import AnyExhibit
from porism.runs.recipe import Recipe
from porism.runs.tuning import RATES, Space
from porism.training.experiment import Experiment
from porism.training.optimizer import ParameterGroup
from porism.training.own_model import DataInfo, OwnModel

if TYPE_CHECKING:
    from porism.costing.cost import Cost
    from porism.costing.terms import Terms
    from porism.training.distributed.processes import Processes

Batch = tuple[Tensor, ...]
Carry = dict[str, Tensor]
"""What one batch hands to the next, such as the state of a recurrent net. Empty where batches are independent."""
Step = Callable[[Batch, Carry], tuple[Tensor, Carry]]
"""Takes a batch and what the one before handed on; gives the loss, and what the next one is handed."""


@runtime_checkable
class MergedStep(Protocol):
    """A step of a task's own that several processes may take, each on its part of a batch, and then merge."""

    def __call__(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]: ...

    def scales(self, batch: Batch, size: int) -> Sequence[Tensor]:
        """Of each parameter what multiplies the mean of its changes over `size` processes that share a batch."""


@dataclass(frozen=True)
class Prediction:
    """One answer of a trained model, for people: the prompt, what came of it, and what to know about it."""

    prompt: str
    output: str
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def input(self) -> str:
        """The prompt."""
        return self.prompt

    @property
    def text(self) -> str:
        """Prompt and answer together: of a language model one text, as its tokenizer writes it."""
        return str(self.details.get("text", f"{self.prompt} {self.output}".strip()))

    @property
    def probabilities(self) -> Mapping[str, float] | None:
        """Of each class, of a classifier."""
        # A picture's stand under the name they had in 0.1, which scripts read from `porism predict --json`.
        found = self.details.get("probabilities", self.details.get("chances"))
        return found if isinstance(found, Mapping) else None


Function = Callable[[Any, Any], Any]
"""Of a model's output and the target: a loss or a metric."""


@dataclass(frozen=True)
class UserObjects:
    """What a user brings in Python: data that is in memory, a model, and a loss and metrics as functions."""

    data: Any = None
    model: OwnModel | None = None
    loss: Function | None = None
    metrics: Mapping[str, Function] = field(default_factory=dict)


class OwnInputs(NamedTuple):
    """Inputs of a model of the user's own, and the sizes of their letters that stand for so many units."""

    inputs: tuple[Any, ...]
    sizes: Mapping[str, int]
    units: int = 1


Data = TypeVar("Data")


def loaded(data: Data | None) -> Data:
    """What `Task.load` has read. A task that was restored has none of it."""
    if data is None:
        raise RecipeError("this task was restored without its data. Load it to train or evaluate.")
    return data


def part_of(x: Tensor, dim: int, rank: int, size: int) -> Tensor:
    """The rows of a tensor that one of several processes takes. Where there are fewer than processes, all of them: each
    process takes them then, and its loss counts for its share."""
    return x if x.shape[dim] < size else x.tensor_split(size, dim)[rank].contiguous()


def parameters_without_shape(model: nn.Module) -> list[str]:
    """The names of lazy parameters and buffers, such as nn.LazyLinear has until its first input."""
    return [name for name, x in [*model.named_parameters(), *model.named_buffers()] if is_lazy(x)]


class Task(ABC):
    """One task on one set of data under one recipe.

    `load` reads the data; `restore` needs none of it and serves a trained model.
    """

    name: ClassVar[str]
    unit: ClassVar[str]
    """What the rate counts, in the plural: `tokens`, `examples`."""
    metric: str
    """The number on `valid` that picks the best epoch. It may depend on the recipe."""
    lower_is_better: bool
    metric_between_equals: str | None = None
    """A loss on `valid` that decides between epochs of equal `metric`, the lower the better; None: the first counts."""
    splits: ClassVar[tuple[str, ...]] = ("train", "valid", "test")
    recipes: ClassVar[Mapping[str, Recipe]]
    default_recipe: ClassVar[str]
    tunable: ClassVar[Space] = {"learning_rate": RATES}
    """What a search before the training may set."""
    trains_in_shards: ClassVar[bool] = False
    """Whether `--shard` is taken: losses of a model in parts are held against those of one process."""
    experiments: ClassVar[Mapping[str, Experiment]] = {}
    """Comparisons of several recipes, by name."""
    fields_beside_model: ClassVar[tuple[str, ...]] = ()
    """Fields of the recipe, beside those every recipe has, that count for a model of the user's own too."""
    recipe: Recipe
    user_objects: UserObjects = UserObjects()

    @classmethod
    @abstractmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        """The task with its data: from `source` (a file, a folder or a name), or the embedded default for None."""

    @classmethod
    def help_load(cls, processes: "Processes", request: Mapping[str, Any]) -> None:
        """Do this process's part of what rank 0 loads, where it has sent `{"do": "help load"}` with this request."""
        raise RecipeError(f"{cls.name} is loaded by each process for itself.")

    @classmethod
    @abstractmethod
    def restore(cls, recipe: Recipe, assets: Mapping[str, Any]) -> Self:
        """The task without data, from what `assets` gave: enough to build the model and to predict."""

    @classmethod
    def from_data(cls, recipe: Recipe, data: Any) -> Self:
        """The task with data that is in memory: arrays, tensors, a Dataset, texts, a graph, or these by split."""
        raise DataError(f"{cls.name}: data is a {type(data).__name__}, expected a path or a known name.")

    def check_finite(self) -> None:
        """Refuse data with NaN or infinity in it, by its place. Called where a loss or a metric is no number, so that
        the data is named and not the learning rate; all of it may be read for this."""
        return

    @abstractmethod
    def assets(self) -> dict[str, Any]:
        """What `restore` needs, as plain JSON: a vocabulary, class names."""

    @abstractmethod
    def fingerprint(self) -> str:
        """The sha256 of the data as the model sees it, so that a run is never resumed on other data."""

    def example_ids(self, split: str) -> Sequence[Hashable]:
        """What tells the examples of a split apart, so that one in two splits shows. Empty where a text is cut."""
        return ()

    @abstractmethod
    def build(self) -> nn.Module:
        """A fresh model, its parameters drawn from torch's global generator."""

    @classmethod
    def for_own_model(cls, recipe: Recipe) -> Recipe:
        """The recipe for a model of the user's own: without what is measured of models of ours."""
        return recipe

    def new_model(self) -> nn.Module:
        """A fresh model: the recipe's, or a copy of the user's own, lazy modules made real by the first batch."""
        model = self.model_without_data()
        if parameters_without_shape(model):
            self._give_shapes(model)
        return model

    def model_without_data(self) -> nn.Module:
        """The same with lazy modules as they are: a checkpoint gives them their shapes."""
        own = self.user_objects.model
        return self.build() if own is None else self.adapt(own.build(self.data_info()))

    def _give_shapes(self, model: nn.Module) -> None:
        """Let one batch pass, without dropout and statistics. Drawn from torch's generator, as all of a fresh model."""
        batch = self.batches(1, 1)[0]
        training = model.training
        with torch.no_grad():
            self.loss(model.eval(), batch, self.start(model))
        model.train(training)
        if left := parameters_without_shape(model):
            raise RecipeError(
                f"{left[0]} of the model has no shape after a batch, expected that every lazy module takes part where "
                "the model answers. Give it its sizes, such as nn.Linear(4, 3) for nn.LazyLinear(3)."
            )

    def check_own_model(self, model: nn.Module, batch: Batch) -> None:  # noqa: B027  # most have nothing to check
        """Refuse a model of the user's own whose scores would mean nothing. It may be changed: nobody trains it."""

    def data_info(self) -> DataInfo:
        """What a model of the user's own must know of the data."""
        return DataInfo()

    def adapt(self, module: nn.Module) -> nn.Module:
        """A module of the user's own as this task calls its models; its parameters stay in their order."""
        raise RecipeError(
            f"{self.name} takes no model of your own. Tasks that do: supervised, language, images, graphs."
        )

    def own_module(self, model: nn.Module) -> nn.Module:
        """The module that `adapt` was given, of a model; the model itself where it is the recipe's."""
        return model

    def on_other_data(self, source: str | None, data: Any) -> Self:
        """The same task on other data, from a source or in memory, with what this one knows: its words, its classes."""
        raise DataError(f"{self.name} cannot be evaluated on other data than the run's own. Leave data out.")

    def own_inputs(self) -> "OwnInputs":
        """What the cost of a model of the user's own is counted on."""
        raise CostError(f"{self.name} has no cost of a model of your own.")

    @abstractmethod
    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        """One pass over the training data. An index is a position, so a run resumes by counting on."""

    @abstractmethod
    def start(self, model: nn.Module) -> Carry:
        """What the first batch of a pass is handed."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """The mean loss of one batch, and what the next batch is handed."""

    def example_dim(self) -> int:
        """The dimension along which every tensor of a batch, and of the carry, holds its examples.

        Several processes share a batch by it. Refused where the loss of a batch is not made of those of its examples.
        """
        raise RecipeError(
            f"{self.name} trains this recipe in one process: its batches cannot be shared. Leave torchrun out."
        )

    def part(self, batch: Batch, rank: int, size: int) -> Batch:
        """The examples of a batch that one of several processes takes: as many for each, the first take one more where
        they do not divide. Where there are fewer than processes, all of them.
        """
        dim = self.example_dim()
        return tuple(part_of(x, dim, rank, size) for x in batch)

    def loss_weight(self, batch: Batch) -> float:
        """What the loss of a batch is a mean over: how much it weighs as a part of a larger one."""
        return self.count(batch)

    def loss_part(self, model: nn.Module, part: Batch, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        """What some examples of a batch add to its loss: over all parts they sum to the loss of the batch.

        batch: the whole one, perhaps on another device. carry: that of the part.
        """
        weight, whole = self.loss_weight(part), self.loss_weight(batch)
        loss, carry = self.loss(model, part, carry)
        if whole and not weight:
            # The mean over nothing is no number. It still has a graph, which batch norms of all processes wait for.
            return loss.nan_to_num() * 0.0, carry
        return loss * (weight / whole if whole else 1.0), carry

    def trained_parameters(self, model: nn.Module) -> Iterable[nn.Parameter | ParameterGroup]:
        """What the optimizer trains: parameters, or groups of them that learn at a share of the learning rate."""
        return model.parameters()

    def step(self, model: nn.Module) -> Step | None:
        """The task's own way to train the model on a batch, where it has a faster one than autograd and an optimizer.

        It may ask torch for the run's seed. The loop falls back on `loss` where this is None. Several processes take
        it if it is a `MergedStep`.
        """
        return None

    def optimizer_state(self, state: dict[str, Tensor], model: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """An optimizer's state, `{index of a parameter}.{name}`, for the model as it is built now.

        Of a checkpoint that an older version wrote, with the model's tensors in it: parameters may have had another
        order or shape. A task whose model has changed overrides it.
        """
        return state

    def caution(self, device: str, threads: int) -> str:
        """Why two runs of one seed differ where they do, and what would prevent it; empty where they do not."""
        return ""

    @abstractmethod
    def count(self, batch: Batch) -> int:
        """How many units a batch holds."""

    @abstractmethod
    def training_metrics(self, loss: float) -> dict[str, float]:
        """The metrics that the mean training loss of an epoch tells, for the curve."""

    @abstractmethod
    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """The metrics on one split. Called in evaluation mode and without gradients; changes nothing."""

    @abstractmethod
    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        """Answers to a user's inputs."""

    @abstractmethod
    def show(self, model: nn.Module) -> list[Prediction]:
        """A few answers for the report."""

    def exhibits(self, model: nn.Module) -> list[AnyExhibit]:
        """What else there is to look at in the report: pictures, a confusion matrix, a map."""
        return []

    def outcomes(self, model: nn.Module, split: str) -> list[bool]:
        """Which examples of a split the model is right on, in their order, for tests in pairs. Empty where none is."""
        return []

    def example_scores(self, model: nn.Module, split: str) -> ExampleScores | None:
        """What each example of a split adds to the metric that counts, for tests in pairs and intervals.

        None where `outcomes` says it all, or where examples cannot be separated.
        """
        return None

    def evaluation_id(self) -> str:
        """What tells apart evaluations that cannot be compared, by the sha256 of what is scored.

        The data's fingerprint, unless the recipe decides what is scored too, such as a vocabulary.
        """
        return self.fingerprint()

    def facts(self) -> dict[str, int | float | str]:
        """What sets models apart beside their cost: how far they see, how many steps wait for one another."""
        return {}

    def notes(self) -> Sequence[str]:
        """What a user should know of the data before a training begins, a line each: its size, what is odd about it."""
        return ()

    def cost(self) -> "Cost | Terms":
        """What the model costs at the sizes of `letters`: derived from its code, or named terms in the alphabet."""
        from porism.training.recipe_cost import run_cost

        return run_cost(self.recipe, self.cost_subject(), self.letters())

    def cost_subject(self) -> CostSubject:
        """What is counted of this task: as `subject`, where neither the data nor a pretrained model decide it."""
        return CostSubject.of(self.subject(self.recipe))

    @abstractmethod
    def letters(self) -> dict[str, int]:
        """The sizes of the letters of `cost`, for as many units as `units` says. Others may be among them."""

    def units(self) -> int:
        """How many units the sizes of `letters` stand for."""
        return 1

    @classmethod
    @abstractmethod
    def subject(cls, recipe: Recipe) -> CostSubject | tuple[Callable[..., nn.Module], tuple[Any, ...], dict[str, int]]:
        """What `porism cost` counts of a recipe: model and loss at any sizes, the inputs, the recipe's own sizes."""

    def cost_notes(self) -> Sequence[str]:
        """What follows from the formulas of a recipe's model, a line each: from which length on it costs less."""
        return ()

    def published(self) -> dict[str, dict[str, float]]:
        """What others report for this recipe on this data: split to metrics. Empty where nobody does."""
        return {}

    def begin_baselines(self) -> None:  # noqa: B027  # most have none that takes long
        """Start what `baselines` would wait for long, in a thread, while other results are worked out.

        Such a thread draws from no generator of torch's, and `baselines` gives the same without it.
        """

    def baselines(self) -> dict[str, dict[str, dict[str, float]]]:
        """What simple models reach on this data, such as the most frequent class: name to split to metrics."""
        return {}

    def baseline_notes(self) -> Sequence[str]:
        """What to know of the baselines, a line each: which are left out and why, which saw a part of the data."""
        return ()

    def baselines_key(self) -> Hashable:
        """What decides the baselines: tasks of one kind that share it share them."""
        return self.fingerprint(), self.evaluation_id()

    def limit(self) -> dict[str, dict[str, float]]:
        """The best any model can do on this data, where that is known: split to metrics."""
        return {}
