"""Runs of a comparison that are on the disk already: kept where they are what is requested now, refused otherwise."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from porism.errors import RunError
from porism.runs.difference import EMBEDDED, differences, facts_of
from porism.runs.recipe import Recipe, settings
from porism.runs.run import RunFolder
from porism.training.device import choose_precision
from porism.training.session import recipe_from
from porism.training.task import Task

NAMED = 3
"""Runs whose differences are listed; of more only the number is."""
NOT_OF_DATA = {field.name for field in dataclasses.fields(Recipe)} - {"batch_size"}
"""Fields by which no task reads its data: those of how it is trained."""


class Found(NamedTuple):
    """A run on the disk, and the recipe and seed that are requested in its place."""

    run: RunFolder
    recipe: Recipe
    seed: int


class Circumstances(NamedTuple):
    """What is requested of every run alike."""

    kind: type[Task]
    source: str | None
    device: torch.device
    threads: int | None

    def of(self, found: Found) -> dict[str, Any]:
        """All that decides a run's result, as it is requested now."""
        requested: dict[str, Any] = {
            "task": self.kind.name,
            "recipe": found.recipe.name,
            "data": self.source or EMBEDDED,
            "seed": found.seed,
            "device": str(self.device),
        }
        if self.device.type == "cpu":
            # The bits of a sum depend on the threads that share it. On a GPU they share none.
            requested["threads"] = self.threads or torch.get_num_threads()
        precision = choose_precision(found.recipe.precision, self.device)
        return requested | settings(found.recipe) | {"precision": precision}


def check_found(runs: Sequence[Found], now: Circumstances) -> None:
    """Refuse runs that are others than requested, run by run, and results that are damaged."""
    # Reading the data takes long, so it is compared where all else is the same.
    others = list(_by_recipe(runs, now)) or list(_by_data(runs, now))
    if others:
        more = f" and {len(others) - NAMED} more runs" if len(others) > NAMED else ""
        raise RunError(
            f"not what is requested: {'; '.join(others[:NAMED])}{more}. "
            "Choose another --out, or repeat the command that began the comparison."
        )
    for found in runs:
        found.run.metrics()


def _by_recipe(runs: Sequence[Found], now: Circumstances) -> Iterator[str]:
    for found in runs:
        run = found.run
        held = facts_of(run)
        if held["task"] == now.kind.name:
            held = settings(recipe_from(now.kind, run.fields)) | held
        if differing := differences(held, {name: value for name, value in now.of(found).items() if name in held}):
            yield f"{run.path}: {', '.join(differing)}"


def _by_data(runs: Sequence[Found], now: Circumstances) -> Iterator[str]:
    fingerprints: dict[tuple[Any, ...], str] = {}
    for run, recipe, _ in runs:
        read_by = tuple((name, value) for name, value in settings(recipe).items() if name not in NOT_OF_DATA)
        if read_by not in fingerprints:
            fingerprints[read_by] = now.kind.load(recipe, now.source).fingerprint()
        held, requested = run.facts.fingerprint, fingerprints[read_by]
        if held != requested:
            yield f"{run.path}: the sha256 of its data begins {held[:12]}, requested {requested[:12]}"
