"""A task under some recipes, short trainings of it, and what must be the same before and after."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from porism.errors import RecipeError
from porism.runs.recipe import Recipe, pick
from porism.tasks import find
from porism.testing.report import Failure, refuse_empty
from porism.training.loop import Training
from porism.training.position import TrainingState
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest
from porism.training.session import begin, reopen
from porism.training.task import Batch, Task

STEPS = 4
"""Batches of an epoch in a short training."""
EPOCHS = 2


@dataclass
class TaskTrial:
    """A task, the recipes and the data it is tried with, and examples of what it must answer and refuse."""

    kind: type[Task]
    recipes: tuple[Recipe, ...]
    data: str | None
    inputs: tuple[str, ...]
    bad_data: Mapping[str, str]
    seed: int

    @classmethod
    def of(
        cls,
        task: type[Task] | str,
        recipes: Sequence[str | Recipe] | None = None,
        data: str | Path | None = None,
        inputs: Sequence[str] = (),
        bad_data: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> "TaskTrial":
        kind = find(task) if isinstance(task, str) else task
        if not (isinstance(kind, type) and issubclass(kind, Task)):
            raise RecipeError(f"check_task: {task!r} is no task. Give a class made from porism.training.task.Task.")
        requested = recipes if recipes is not None else (kind.default_recipe,)
        chosen = tuple(pick(kind.recipes, one, kind.name) if isinstance(one, str) else one for one in requested)
        refuse_empty("recipes", chosen, kind.recipes)
        return cls(kind, chosen, None if data is None else str(data), tuple(inputs), dict(bad_data or {}), seed)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The task with its data, once for each recipe."""
        return tuple(self.kind.load(recipe, self.data) for recipe in self.recipes)

    @cached_property
    def again(self) -> tuple[Task, ...]:
        """The same, read a second time."""
        return tuple(self.kind.load(recipe, self.data) for recipe in self.recipes)

    def model(self, task: Task, seed: int | None = None) -> nn.Module:
        torch.manual_seed(self.seed if seed is None else seed)
        return task.build()

    @cached_property
    def straight(self) -> tuple["Trained", ...]:
        """A short training of each recipe, run through."""
        return tuple(self.trained(recipe) for recipe in self.recipes)

    def trained(self, recipe: Recipe, stop_after: int | None = None) -> "Trained":
        """A short training by the loop that `porism train` has; broken off after some steps and resumed, if
        requested."""
        kind, recipe = _shortened(self.kind), _for_few_epochs(recipe)
        with TemporaryDirectory() as folder:
            training = self._begun(kind, recipe, Path(folder) / "run")
            if stop_after is not None:
                try:
                    # A checkpoint after every step: what is lost is the step in which it breaks off.
                    training.fit(_BreaksOff(stop_after), checkpoint_every=0.0)
                except _BrokenOff:
                    pass
                else:
                    raise Failure(f"a training of {recipe.name} has no {stop_after} steps")
                training.run.unlock()
                # Whatever is random without being saved shows itself by another state.
                torch.manual_seed(self.seed + 1)
                training = reopen(kind, training.run)
            training.fit()
            return Trained.of(training)

    def _begun(self, kind: type[Task], recipe: Recipe, out: Path) -> Training:
        threads = torch.get_num_threads()
        return begin(
            TrainingRequest(kind, recipe, source=self.data, device="cpu", seed=self.seed + 1, threads=threads), out
        )


@dataclass(frozen=True)
class Trained:
    """What came of a training."""

    state: dict[str, Tensor]
    best: float | None

    @classmethod
    def of(cls, training: TrainingState) -> "Trained":
        return cls(copied(training.model), training.position.best)

    def difference(self, other: "Trained") -> str:
        """What is not the same to the bit, in words; empty where all is."""
        if changed := changed_names(self.state, other.state):
            return f"{changed[0]} differs, and {len(changed) - 1} more" if changed[1:] else f"{changed[0]} differs"
        return "" if self.best == other.best else f"the best metric is {other.best}, expected {self.best}"


class _BrokenOff(Exception):
    """A training stops here."""


class _BreaksOff(NoProgress):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left = steps

    def step(self, units: int) -> None:
        if self.left == 0:
            raise _BrokenOff
        self.left -= 1


class _First(Sequence[Batch]):
    """The first batches of a pass."""

    def __init__(self, batches: Sequence[Batch], most: int) -> None:
        self.batches, self.most = batches, most

    def __len__(self) -> int:
        return min(len(self.batches), self.most)

    def __getitem__(self, index: Any) -> Any:
        return self.batches[index]


def _shortened(kind: type[Task]) -> type[Task]:
    """The same task with a few batches in an epoch."""

    def batches(self: Task, epoch: int, seed: int) -> Sequence[Batch]:
        return _First(kind.batches(self, epoch, seed), STEPS * self.recipe.epochs_between_validations)

    return type(kind.__name__, (kind,), {"batches": batches})


def _for_few_epochs(recipe: Recipe) -> Recipe:
    every: dict[str, Any] = (
        {"check_val_every_n_epoch": 1} if "check_val_every_n_epoch" in recipe.__dataclass_fields__ else {}
    )
    # The last weights are compared: the best ones may be those of an epoch before the training was broken off.
    return replace(recipe, epochs=EPOCHS, patience=EPOCHS, restore_best_weights=False, **every)


def copied(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, those that no state_dict holds too."""
    return {name: x.detach().clone() for name, x in (*model.named_parameters(), *model.named_buffers())}


def changed_names(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> list[str]:
    return [
        name
        for name in {**before, **after}
        if name not in before or name not in after or not same_bits(before[name], after[name])
    ]


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Equal as bytes, NaN to NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return torch.equal(left.contiguous().view(-1).view(torch.uint8), right.contiguous().view(-1).view(torch.uint8))


@contextmanager
def unchanged(model: nn.Module, doing: str) -> Iterator[None]:
    """Fails where parameters, buffers, gradients, mode or a random state differ after what is done inside."""
    before, mode, states = copied(model), model.training, _random_states()
    gradients = [parameter.grad for parameter in model.parameters()]
    yield
    if changed := changed_names(before, copied(model)):
        raise Failure(f"{doing} changes {changed[0]}")
    if any(old is not new.grad for old, new in zip(gradients, model.parameters(), strict=True)):
        raise Failure(f"{doing} leaves gradients")
    if model.training != mode:
        raise Failure(f"{doing} leaves the model in {'training' if model.training else 'evaluation'} mode")
    for name, state in _random_states().items():
        if state != states[name]:
            raise Failure(f"{doing} draws from the random state of {name}, so that what follows depends on it")


def _random_states() -> dict[str, bytes]:
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": b"".join(
            np.asarray(part).tobytes() for part in np.random.get_state()
        ),  # what code of others draws from
        "Python": repr(random.getstate()).encode(),
    }
