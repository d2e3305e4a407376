"""What must hold for a task: one function a check, each of a trial."""

import dataclasses
import json
import math
import socket
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tomli_w
import torch
from torch import Tensor, nn

from porism.costing.counting.target import Target
from porism.errors import DataError, PorismError
from porism.runs.recipe import from_fields, to_fields
from porism.testing.report import Failure, Skip
from porism.testing.task_trial import EPOCHS, STEPS, TaskTrial, same_bits, unchanged
from porism.training.cost_table import cost_table
from porism.training.loop import answering, evaluate
from porism.training.session import count_parameters
from porism.training.task import Carry, Prediction, Task

SUFFIXES = (".txt", ".csv", ".npz")
LEARNING_STEPS = 20

Outcome = tuple[float, float]
HOLDS: Outcome = (0.0, 0.0)


def _recipes_are_named(trial: TaskTrial) -> Outcome:
    kind = trial.kind
    if kind.default_recipe not in kind.recipes:
        raise Failure(f"default_recipe {kind.default_recipe!r} is no recipe of {kind.name}")
    for name, recipe in kind.recipes.items():
        if recipe.name != name:
            raise Failure(f"recipe {name!r} calls itself {recipe.name!r}")
        if not recipe.description.strip():
            raise Failure(f"recipe {name!r} has no description")
        if not type(recipe).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise Failure(f"{type(recipe).__name__} is no frozen dataclass: a run could change its own recipe")
    return HOLDS


def _toml_and_back(trial: TaskTrial) -> Outcome:
    for recipe in dict.fromkeys((*trial.kind.recipes.values(), *trial.recipes)):
        text = tomli_w.dumps(to_fields(recipe))
        again = from_fields(type(recipe), tomllib.loads(text))
        for field in dataclasses.fields(recipe):
            before, after = getattr(recipe, field.name), getattr(again, field.name)
            if before != after or isinstance(before, bool) != isinstance(after, bool):
                raise Failure(f"recipe {recipe.name}: {field.name}={before!r} comes back from TOML as {after!r}")
    return HOLDS


def _needs_no_network(trial: TaskTrial) -> Outcome:
    if trial.data is not None:
        raise Skip("data was given; the embedded default is used without")
    with _no_network():
        trial.kind.load(trial.recipes[0], None)
    return HOLDS


def _splits_are_disjoint(trial: TaskTrial) -> Outcome:
    for task, again in zip(trial.tasks, trial.again, strict=True):
        if task.splits[0] != "train" or not {"valid", "test"} <= set(task.splits):
            raise Failure(f"splits are {', '.join(task.splits)}, expected train, valid and test among them")
        known = {split: list(task.example_ids(split)) for split in task.splits}
        if not any(known.values()):
            raise Skip("example_ids tells of no examples")
        for split, ids in known.items():
            if not ids:
                raise Failure(f"{split} is empty")
        for place, split in enumerate(task.splits):
            for other in task.splits[:place]:
                if both := set(known[split]) & set(known[other]):
                    some = "" if isinstance(first := next(iter(both)), bytes) else f", {first} for instance"
                    raise Failure(f"{_many(len(both))} in {other} and {split}{some}")
        if moved := [split for split in task.splits if list(again.example_ids(split)) != known[split]]:
            raise Failure(f"{moved[0]} has other examples when the data is loaded again")
    return HOLDS


def _fingerprint_is_of_data(trial: TaskTrial) -> Outcome:
    for task, again in zip(trial.tasks, trial.again, strict=True):
        found = task.fingerprint()
        if found != again.fingerprint():
            raise Failure("the fingerprint of the same data is another one: no run could be resumed")
        if task.evaluation_id() != again.evaluation_id():
            raise Failure("evaluation_id of the same data and recipe is another one: no two runs could be compared")
        if len(found) != 64 or set(found) - set("0123456789abcdef"):
            raise Failure(f"the fingerprint is {found[:20]!r}..., expected a sha256 in 64 hexadecimal digits")
    return HOLDS


def _bad_data_is_named(trial: TaskTrial) -> Outcome:
    with TemporaryDirectory() as folder:
        for path in _bad_files(Path(folder)):
            _refused(trial, path, path.name)
    for bad, words in trial.bad_data.items():
        _refused(trial, Path(bad), words)
    return HOLDS


def _bad_files(folder: Path) -> Iterator[Path]:
    """What people give by mistake: a missing path, an empty folder, an empty file, bytes that are no data."""
    yield folder / "missing"
    (folder / "empty").mkdir()
    yield folder / "empty"
    for suffix in SUFFIXES:
        for name, content in {"nothing": b"", "noise": bytes(range(255, -1, -1)) * 8}.items():
            path = folder / f"{name}{suffix}"
            path.write_bytes(content)
            yield path


def _refused(trial: TaskTrial, path: Path, words: str) -> None:
    try:
        trial.kind.load(trial.recipes[0], str(path))
    except DataError as refusal:
        if words not in str(refusal):
            raise Failure(f"{path.name} is refused without {words!r}: {refusal}") from refusal
    except Exception as error:
        raise Failure(f"{path.name} raises {type(error).__name__}, expected DataError: {error}") from error
    else:
        raise Failure(f"{path.name} is taken for data, expected DataError with {words!r}")


def _model_starts_from_seed(trial: TaskTrial) -> Outcome:
    for task in trial.tasks:
        first, again, other = (list(trial.model(task, seed).parameters()) for seed in (1, 1, 2))
        if not _all_same(first, again):
            raise Failure("two models from one seed differ")
        if first and _all_same(first, other):
            raise Failure("models from two seeds are the same: parameters are not drawn from torch's generator")
    return HOLDS


def _batches_are_taken_up(trial: TaskTrial) -> Outcome:
    for task in trial.tasks:
        first, again = task.batches(1, trial.seed), task.batches(1, trial.seed)
        if not 0 < len(first) == len(again):
            raise Failure(f"a pass has {len(first)} batches and then {len(again)}, expected the same number above 0")
        # From the end to the start: a position must not depend on what was read before it.
        for index in {0, len(first) // 2, len(first) - 1}:
            later = again[len(again) - 1 - index] if index else again[0]
            here = first[len(first) - 1 - index] if index else first[0]
            if not _all_same(here, later):
                raise Failure(f"batch {index} of one pass is another one when it is read again")
            if task.count(here) < 1:
                raise Failure(f"batch {index} counts {task.count(here)} {task.unit}, expected 1 or more")
    return HOLDS


def _learns(trial: TaskTrial) -> Outcome:
    for task in trial.tasks:
        model = trial.model(task).train()
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        batches, carry, losses = task.batches(1, trial.seed), task.start(model), []
        for step in range(LEARNING_STEPS):
            loss, carry = task.loss(model, batches[step % min(len(batches), STEPS)], carry)
            _check_loss(loss, carry)
            optimizer.zero_grad()
            loss.backward()
            if step == 0 and (unused := [name for name, p in model.named_parameters() if p.grad is None]):
                raise Failure(f"the loss does not depend on {unused[0]}")
            optimizer.step()
            losses.append(float(loss.detach()))
        half = len(losses) // 2
        if not sum(losses[half:]) < sum(losses[:half]):
            raise Failure(f"{LEARNING_STEPS} steps of Adam do not lower the loss: from {losses[0]:g} to {losses[-1]:g}")
    return HOLDS


def _check_loss(loss: Tensor, carry: Carry) -> None:
    if loss.dim() != 0 or not loss.requires_grad:
        raise Failure(f"the loss is {tuple(loss.shape)}, expected one number with a gradient")
    if not math.isfinite(float(loss.detach())):
        raise Failure(f"the loss is {float(loss.detach())}")
    if held := [name for name, x in carry.items() if x.requires_grad]:
        raise Failure(f"the carried {held[0]} has a gradient: every step would hold the ones before it")


def _evaluating_changes_nothing(trial: TaskTrial) -> Outcome:
    for task in trial.tasks:
        model = trial.model(task).train()
        for split in task.splits:
            with unchanged(model, f"evaluating {split}"):
                first = evaluate(task, model, split)
            torch.manual_seed(trial.seed + 2)
            again = evaluate(task, model, split)
            if first != again:
                name = next(name for name in {**first, **again} if first.get(name) != again.get(name))
                raise Failure(f"{name} on {split} is {first.get(name)} and then {again.get(name)}")
            if odd := [name for name, value in first.items() if not math.isfinite(value)]:
                raise Failure(f"{odd[0]} on {split} is {first[odd[0]]}")
        _examples_add_up(task, model, first)
        if task.metric not in evaluate(task, model, "valid"):
            raise Failure(f"evaluating valid does not tell {task.metric}, which picks the best epoch")
    return HOLDS


def _examples_add_up(task: Task, model: nn.Module, measured: Mapping[str, float]) -> None:
    """What single examples of the last split add to the metric is the metric."""
    with answering(model):
        scores = task.example_scores(model, task.splits[-1])
    if scores is None:
        return
    if len(scores.numerators) != len(scores.denominators):
        raise Failure(f"{len(scores.numerators)} numerators and {len(scores.denominators)} denominators of examples")
    reported = measured.get(scores.metric)
    if reported is None or not math.isclose(scores.value, reported, rel_tol=1e-5):
        raise Failure(f"{scores.metric} is {reported}, but {scores.value} by example_scores")


def _one_seed_one_result(trial: TaskTrial) -> Outcome:
    for recipe, expected in zip(trial.recipes, trial.straight, strict=True):
        if difference := expected.difference(trial.trained(recipe)):
            raise Failure(f"two trainings of {recipe.name} from one seed: {difference}")
    return HOLDS


def _resumes_to_the_bit(trial: TaskTrial) -> Outcome:
    for task, expected in zip(trial.tasks, trial.straight, strict=True):
        steps = min(STEPS, len(task.batches(1, trial.seed)) // task.recipe.epochs_between_validations)
        stop = (EPOCHS - 1) * steps + steps // 2  # in the middle of the last epoch
        if difference := expected.difference(trial.trained(task.recipe, stop_after=stop)):
            raise Failure(f"{task.recipe.name} broken off after step {stop} and resumed: {difference}")
    return HOLDS


def _assets_bring_it_back(trial: TaskTrial) -> Outcome:
    for task in trial.tasks:
        restored = _restored(task)
        model, rebuilt = trial.model(task).eval(), restored.build().eval()
        rebuilt.load_state_dict(model.state_dict(), strict=True)
        if json.loads(json.dumps(restored.assets())) != json.loads(json.dumps(task.assets())):
            raise Failure("a restored task has other assets than the one it was restored from")
    return HOLDS


def _predicts(trial: TaskTrial) -> Outcome:
    if not trial.inputs:
        raise Skip("no inputs were given")
    inputs = list(trial.inputs)
    for task in trial.tasks:
        restored, model = _restored(task), trial.model(task).eval()
        rebuilt = restored.build().eval()
        rebuilt.load_state_dict(model.state_dict(), strict=True)
        with unchanged(model, "predicting"), answering(model):
            answers = task.predict(model, inputs, {})
        with answering(rebuilt):
            again = restored.predict(rebuilt, inputs, {})
        if [answer.prompt for answer in answers] != inputs:
            raise Failure(f"{len(inputs)} inputs got answers to {[answer.prompt for answer in answers]}")
        if not all(isinstance(answer, Prediction) and isinstance(answer.output, str) for answer in answers):
            raise Failure("an answer is no Prediction with a text as its output")
        if answers != again:
            raise Failure("a task that was restored from its assets answers otherwise")
        with unchanged(model, "show"), answering(model):
            if not task.show(model):
                raise Failure("show gives no answers for the report")
            _refuses_unknown_option(task, model, inputs)
    return HOLDS


def _refuses_unknown_option(task: Task, model: nn.Module, inputs: list[str]) -> None:
    try:
        task.predict(model, inputs, {"no_such_option": 1})
    except PorismError:
        return
    raise Failure("predict takes an option that there is not, expected RecipeError")


def _parameters_by_formula(trial: TaskTrial) -> Outcome:
    for task in trial.tasks:
        counted, formula = count_parameters(task.build()), cost_table(task)["parameters"]
        if formula["value"] != counted:
            raise Failure(
                f"recipe {task.recipe.name}: {formula['formula']} gives {formula['value']:,}, the model has {counted:,}"
            )
    return HOLDS


def _flops_by_formula(trial: TaskTrial) -> Outcome:
    for task in trial.tasks:
        letters = task.letters()
        subject = task.cost_subject().at(letters)
        target = Target(subject.target, tuple(subject.inputs))
        if unknown := [letter for letter in target.letters if letter not in letters]:
            raise Skip(f"subject has a letter {unknown[0]} that letters has not")
        counted = target.count({letter: letters[letter] for letter in target.letters})
        if counted.uncounted:
            raise Skip(f"there is no formula for {next(iter(counted.uncounted))}")
        table = cost_table(task)
        # Of both passes together: by hand, a fused loss may compute its gradient in either.
        formula = round((table["flops"]["value"] + table["backward"]["value"]) * task.units())
        number = counted.flops + counted.backward_flops
        if formula != number:
            raise Failure(f"recipe {task.recipe.name}: {formula:,} FLOPs of a step by formula, {number:,} counted")
    return HOLDS


def _restored(task: Task) -> Task:
    try:
        plain: dict[str, Any] = json.loads(json.dumps(task.assets(), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise Failure(f"assets are no plain JSON: {error}") from error
    return type(task).restore(task.recipe, plain)


def _all_same(left: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    return len(left) == len(right) and all(same_bits(a.detach(), b.detach()) for a, b in zip(left, right, strict=True))


def _many(number: int) -> str:
    return "1 example is" if number == 1 else f"{number:,} examples are"


@contextmanager
def _no_network() -> Iterator[None]:
    def refuse(*_: Any) -> None:
        raise Failure("loading the embedded default asks the network")

    before = socket.socket.connect
    socket.socket.connect = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        socket.socket.connect = before  # type: ignore[method-assign]


TASK_CHECKS: Mapping[str, Callable[[TaskTrial], Outcome]] = {
    "recipes": _recipes_are_named,
    "toml": _toml_and_back,
    "embedded": _needs_no_network,
    "splits": _splits_are_disjoint,
    "fingerprint": _fingerprint_is_of_data,
    "bad_data": _bad_data_is_named,
    "build": _model_starts_from_seed,
    "batches": _batches_are_taken_up,
    "learns": _learns,
    "evaluate": _evaluating_changes_nothing,
    "deterministic": _one_seed_one_result,
    "resume": _resumes_to_the_bit,
    "restore": _assets_bring_it_back,
    "predict": _predicts,
    "parameters": _parameters_by_formula,
    "cost": _flops_by_formula,
}
