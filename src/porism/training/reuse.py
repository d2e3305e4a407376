"""Runs of a comparison that are on the disk already: kept where they are what is requested now, refused otherwise."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from porism.errors import RunError, advise, option
from porism.runs.difference import EMBEDDED, differences, facts_of
from porism.runs.recipe import Recipe, from_fields, settings
from porism.runs.run import RECIPE, RunFolder, already_there
from porism.training.device import choose_precision
from porism.training.task import Task

NAMED = 3
"""Runs whose differences are listed; of more only the number is."""
NOT_OF_DATA = {field.name for field in dataclasses.fields(Recipe)} - {"batch_size"}
"""Fields by which no task reads its data: those of how it is trained."""


class Found(NamedTuple):
    """A run on the disk, and the recipe, seed and data that are requested in its place."""

    run: RunFolder
    recipe: Recipe
    seed: int
    load: Callable[[], Task]
    """Reads the data."""


class Circumstances(NamedTuple):
    """What is requested of every run alike."""

    kind: type[Task]
    source: str | None
    device: torch.device
    threads: int | None

    def of(self, recipe: Recipe, seed: int) -> dict[str, Any]:
        """All that decides a run's result, as it is requested now."""
        requested: dict[str, Any] = {
            "task": self.kind.name,
            "recipe": recipe.name,
            "data": self.source or EMBEDDED,
            "seed": seed,
            "device": str(self.device),
        }
        if self.device.type == "cpu":
            # The bits of a sum depend on the threads that share it. On a GPU they share none.
            requested["threads"] = self.threads or torch.get_num_threads()
        precision = choose_precision(recipe, self.device)
        return requested | settings(recipe) | {"precision": precision}


def refuse_other_run(path: Path, recipe: Recipe, seed: int, now: Circumstances) -> None:
    """Refuse a folder for a new run that holds another one, with what differs: to resume it would give that one."""
    if not (path / RECIPE).is_file():
        return
    differing = []
    with suppress(RunError):  # of a damaged run only that it is there is reported
        differing = settings_that_differ(RunFolder.open(path), recipe, seed, now)
    if differing:
        raise already_there(path, differing)


def check_found(runs: Sequence[Found], now: Circumstances) -> None:
    """Refuse runs that are others than requested, run by run, and results that are damaged."""
    # Reading the data takes long, so it is compared where all else is the same.
    others = list(_by_recipe(runs, now)) or list(_by_data(runs))
    if others:
        more = f" and {len(others) - NAMED} more runs" if len(others) > NAMED else ""
        raise RunError(
            f"not what is requested: {'; '.join(others[:NAMED])}{more}.",
            advise("Choose another {}, or repeat what began the comparison.", option("out")),
        )
    for found in runs:
        found.run.metrics()


def _by_recipe(runs: Sequence[Found], now: Circumstances) -> Iterator[str]:
    for found in runs:
        if differing := settings_that_differ(found.run, found.recipe, found.seed, now):
            yield f"{found.run.path}: {', '.join(differing)}"


def settings_that_differ(run: RunFolder, recipe: Recipe, seed: int, now: Circumstances) -> list[str]:
    """What of a run, its data aside, is not what is requested now."""
    kind = now.kind
    held = facts_of(run)
    if held["task"] == kind.name:
        held = settings(from_fields(type(kind.recipes[kind.default_recipe]), run.fields)) | held
    return differences(held, {name: value for name, value in now.of(recipe, seed).items() if name in held})


def _by_data(runs: Sequence[Found]) -> Iterator[str]:
    fingerprints: dict[tuple[Any, ...], str] = {}
    for run, recipe, _, load in runs:
        read_by = tuple((name, value) for name, value in settings(recipe).items() if name not in NOT_OF_DATA)
        if read_by not in fingerprints:
            fingerprints[read_by] = load().fingerprint()
        held, requested = run.facts.fingerprint, fingerprints[read_by]
        if held != requested:
            yield f"{run.path}: the sha256 of its data begins {held[:12]}, requested {requested[:12]}"
