"""From a wish to a result: start or reopen a run, train it, evaluate it, write what came of it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from porism.errors import DataError, PorismError, RunError, TrainingError, one_line
from porism.runs import checkpoint
from porism.runs.checkpoint import Checkpoint
from porism.runs.recipe import Recipe, from_fields
from porism.runs.record import read_run
from porism.runs.run import BEST, IN_MEMORY, RunFacts, RunFolder, refuse_taken
from porism.training.baselines import baselines_of, begin_baselines
from porism.training.cost_table import cost_table
from porism.training.device import choose_device, choose_precision, hardware, versions
from porism.training.distributed.processes import current
from porism.training.distributed.step import check_shareable
from porism.training.loop import Training, answering, evaluate
from porism.training.own_model import OwnModel, imported
from porism.training.position import check_best
from porism.training.progress import NoProgress, Progress
from porism.training.recipe_key import is_kept
from porism.training.request import NO_OBJECTS, TrainingRequest
from porism.training.reuse import Circumstances, refuse_other_run
from porism.training.task import Task, UserObjects

ASSETS = "assets.json"


def begin(request: TrainingRequest, out: Path) -> Training:
    """A new run in the folder `out`."""
    kind, recipe, user_objects = request.kind, request.recipe, request.user_objects
    where = choose_device(request.device)
    now = Circumstances(kind, request.recorded_source, where, request.threads)
    refuse_other_run(out, recipe, request.seed, now)
    refuse_taken(out)
    task = prepare(kind, recipe, request.source, user_objects)
    check_shareable(task, where)
    if user_objects.model is not None:
        try_one_step(task, where, request.seed)
    facts = RunFacts(
        task=kind.name,
        recipe=recipe.name,
        seed=request.seed,
        source=request.recorded_source,
        device=str(where),
        precision=choose_precision(recipe, where),
        threads=request.threads or torch.get_num_threads(),
        fingerprint=task.fingerprint(),
        overrides=list(request.overrides),
        model=None if user_objects.model is None else user_objects.model.reference,
        baselines=None if request.baselines else False,
    )
    run = RunFolder.create(out, facts, recipe)
    try:
        run.append("start", command=facts.repeat(), recipe=run.recipe_sha256)
        if request.tuning is not None:
            run.write_tuning(request.tuning)
        if caution := task.caution(facts.device, facts.threads):
            run.append("note", text=caution)
        _note_processes(run)
        return Training(task, run, where)
    except BaseException:
        # For instance since memory does not suffice for the model: there is nothing to resume.
        run.withdraw()
        raise


def prepare(kind: type[Task], recipe: Recipe, source: str | None, user_objects: UserObjects = NO_OBJECTS) -> Task:
    """The task with its data, and with what the user brings."""
    task = kind.load(recipe, source) if user_objects.data is None else kind.from_data(recipe, user_objects.data)
    task.user_objects = user_objects
    return task


def try_one_step(task: Task, device: torch.device, seed: int) -> None:
    """Refuse a model of the user's own that does not take the data, before anything is written."""
    torch.manual_seed(seed)
    model = task.new_model().to(device).train()
    batch = tuple(x.to(device) for x in task.batches(1, seed)[0])
    task.check_own_model(model, batch)
    loss, _ = task.loss(model, batch, {name: x.to(device) for name, x in task.start(model).items()})
    if not loss.requires_grad:
        raise TrainingError("the loss does not depend on any parameter of the model that requires a gradient.")


def reopen(
    kind: type[Task], run: RunFolder, progress: Progress | None = None, user_objects: UserObjects = NO_OBJECTS
) -> Training:
    """A run that was stopped, at the place where it stopped. From here on nobody else may train it."""
    run.lock()
    try:
        task, where = load_task(kind, run, user_objects), choose_device(run.facts.device)
        check_shareable(task, where)
        training = Training(task, run, where)
        training.resume(progress)
        _note_processes(run)
    except BaseException:
        run.unlock()
        raise
    return training


def _note_processes(run: RunFolder) -> None:
    """Keep with the run how many processes train it, where it is not one."""
    if (size := current().size) > 1:
        run.append("note", text=f"{size} processes train together from here on, each on its part of every batch.")


def load_task(kind: type[Task], run: RunFolder, user_objects: UserObjects = NO_OBJECTS) -> Task:
    """The run's task with its data, which must be what it was."""
    if run.facts.source == IN_MEMORY and user_objects.data is None:
        raise DataError(
            f"the data of {run.path} was given in Python, and no file has it. Give it again: "
            f"porism.train({run.facts.task!r}, data=..., out={str(run.path)!r}, resume=True)"
        )
    task = prepare(kind, recipe_from(kind, run.fields), run.facts.source, with_model(run, user_objects))
    if task.fingerprint() != run.facts.fingerprint:
        raise DataError(
            f"the data of {run.path} has changed since the run began ({run.facts.source or 'the embedded default'}): "
            f"its sha256 begins {task.fingerprint()[:12]}, {run.facts.fingerprint[:12]} was recorded. "
            f"Bring the old data back, or start a new run."
        )
    return task


def with_model(run: RunFolder, user_objects: UserObjects) -> UserObjects:
    """The same with the run's own model, imported by its name where it is not given."""
    reference = run.facts.model
    if reference is None or user_objects.model is not None:
        return user_objects
    try:
        if reference == IN_MEMORY:
            raise PorismError("it has no name to import")
        return replace(user_objects, model=OwnModel(imported(reference), reference))
    except PorismError as error:
        raise RunError(
            f"{run.path} has a model of your own ({error}). Give it again, the module or the function that makes it: "
            f"porism.load({str(run.path)!r}, model=...)"
        ) from error


def recipe_from(kind: type[Task], fields: Mapping[str, Any]) -> Recipe:
    """A task's recipe from the fields of a recipe.toml."""
    return from_fields(type(kind.recipes[kind.default_recipe]), fields)


def best_checkpoint(run: RunFolder, progress: Progress) -> Checkpoint:
    """The checkpoint that counts, or the one before it where that is damaged."""
    saved, warning = checkpoint.load(run.path / BEST, check_best)
    if warning:
        progress.note(f"{warning} It is of epoch {saved.state['epoch']}.")
    return saved


def restore_task(kind: type[Task], run: RunFolder, saved: Checkpoint, user_objects: UserObjects = NO_OBJECTS) -> Task:
    """The run's task without its data."""
    recipe = recipe_from(kind, run.fields)
    try:
        task = kind.restore(recipe, saved.documents["assets"])
    except PorismError:
        raise
    except Exception as error:  # whatever a task makes of a document that it did not write
        raise RunError(
            f"{saved.folder / ASSETS} is not what {kind.name} keeps of its data: {one_line(error)}."
        ) from error
    task.user_objects = with_model(run, user_objects)
    return task


def trained_model(task: Task, saved: Checkpoint, device: torch.device) -> nn.Module:
    """A model with a checkpoint's parameters, ready to answer."""
    model = task.model_without_data()
    checkpoint.load_model(model, saved)
    return model.to(device).eval()


def complete(training: Training, progress: Progress | None = None, checkpoint_every: float = 60.0) -> dict[str, Any]:
    """Train to the end, evaluate the best model on every split, write metrics.json and return what it says.

    The results of a run that has finished already are returned as they are.
    """
    progress = progress or NoProgress()
    with training.only_writer(progress):
        if training.run.metrics() is None:
            for note in training.task.notes():
                progress.note(note)
        try:
            training.fit(progress, checkpoint_every)
        finally:
            progress.close()
        if (done := training.run.metrics()) is not None:
            return {**done, "run": str(training.run.path)}
        return _results(training, progress)


def _results(training: Training, progress: Progress) -> dict[str, Any]:
    task, model = training.task, training.model
    if training.run.facts.baselines is not False:
        begin_baselines(task)
    metrics = {split: evaluate(task, model, split) for split in task.splits}
    with answering(model):
        samples, exhibits = task.show(model), task.exhibits(model)
        outcomes = {split: task.outcomes(model, split) for split in task.splits if split == "test"}
        examples = {split: task.example_scores(model, split) for split in task.splits if split == "test"}
    result = {
        **summary(training, metrics),
        **task.recipe.numbered(best_epoch=training.position.best_epoch),
        "metric": task.metric,
        "lower_is_better": task.lower_is_better,
        "published": task.published(),
        **_baselines(training),
        "limit": task.limit(),
        "evaluation": task.evaluation_id(),
        **_example_counts(task),
        "cost": (cost := _cost(task, progress)),
        **_cost_notes(task, cost),
        "facts": task.facts(),
        "samples": [{"prompt": s.prompt, "output": s.output, "notes": list(s.notes)} for s in samples],
        # What measures the baselines may have set threads of its own.
        "hardware": hardware(training.device) | {"threads": training.run.facts.threads},
        "versions": versions(),
        "command": training.run.facts.repeat(),
        **_at_a_time(training),
    }
    training.run.write_exhibits(exhibits)
    training.run.write_outcomes(outcomes)
    training.run.write_examples(examples)
    # Last, since a run that has metrics is done.
    training.run.write_metrics(result)
    return result


def _at_a_time(training: Training) -> dict[str, int]:
    """How many trainings shared the machine while times were measured, where it was not alone."""
    together = read_run(training.run.path).at_a_time
    return {"trainings_at_a_time": together} if together > 1 else {}


def _baselines(training: Training) -> dict[str, Any]:
    """What simple models reach and what to know of them, as metrics.json has it; nothing where they are unwanted."""
    task = training.task
    if training.run.facts.baselines is False:
        return {"baselines": {}}
    found = baselines_of(task)
    return {"baselines": found, **({"baseline_notes": notes} if (notes := list(task.baseline_notes())) else {})}


def _example_counts(task: Task) -> dict[str, Any]:
    """How many examples each split has, where they can be separated, and how many of them are in train too."""
    # Hashes, since an id may be a whole image.
    ids = {split: [hash(one) for one in task.example_ids(split)] for split in task.splits}
    known = {split: len(found) for split, found in ids.items() if found}
    learned = set(ids["train"])
    copies = {split: sum(one in learned for one in ids[split]) for split in known if split != "train"}
    return {"examples": known, "copies": copies}


def _cost(task: Task, progress: Progress) -> dict[str, Any]:
    """The cost as metrics.json has it. A model that cannot be counted is trained all the same, and a line says why."""
    derives = task.user_objects.model is None and type(task).cost is Task.cost
    try:
        if derives and not is_kept(task.recipe, task.cost_subject().at(task.letters())):
            progress.note("trained; now its cost is derived from the code, once for all runs of this model")
        return cost_table(task)
    except PorismError as error:
        progress.note(f"the run has no cost: {error}")
        return {}


def _cost_notes(task: Task, cost: dict[str, Any]) -> dict[str, Any]:
    """What follows from the formulas, where there are any and they are those of a recipe's model."""
    notes = list(task.cost_notes()) if cost and task.user_objects.model is None else []
    return {"cost_notes": notes} if notes else {}


def summary(training: Training, metrics: dict[str, dict[str, float]]) -> dict[str, Any]:
    """The keys scripts rely on."""
    at, facts, recipe = training.position, training.run.facts, training.task.recipe
    return {
        "task": facts.task,
        "recipe": facts.recipe,
        "run": str(training.run.path),
        "seed": facts.seed,
        "device": facts.device,
        "parameters": count_parameters(training.model),
        "epochs": recipe.epochs_at(at.epoch),
        "seconds": round(at.seconds, 3),
        f"{training.task.unit}_per_second": at.units_per_second,
        "metrics": metrics,
    }


def count_parameters(model: nn.Module) -> int:
    """Each parameter once, shared ones too."""
    return sum(p.numel() for p in model.parameters())
