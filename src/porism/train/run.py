"""A run is a folder: what was asked (recipe.toml), what happened (events.jsonl), what came of it (metrics.json).

Where the task has them, there are pictures and the like (exhibits.json), and which examples were right (outcomes.json).
"""

import dataclasses
import json
import os
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from porism.errors import RunError
from porism.train.checkpoint import cannot_write, write_atomically
from porism.train.exhibit import AnyExhibit
from porism.train.recipe import Recipe, to_fields

RECIPE, EVENTS, METRICS = "recipe.toml", "events.jsonl", "metrics.json"
EXHIBITS, OUTCOMES = "exhibits.json", "outcomes.json"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that decides a run's result, next to its recipe."""

    task: str
    recipe: str
    seed: int
    device: str
    precision: str
    threads: int
    """On a CPU the bits of a sum depend on how many threads share it, so a resumed run takes the same number."""
    fingerprint: str
    """The sha256 of the data."""
    source: str | None = None
    overrides: list[str] = dataclasses.field(default_factory=list)

    def command(self) -> list[str]:
        """The words that repeat the run."""
        words = ["porism", "train", self.task, self.recipe]
        for assignment in self.overrides:
            words += ["--set", assignment]
        if self.source is not None:
            words += ["--data", self.source]
        return [*words, "--device", self.device, "--seed", str(self.seed)]


class Run:
    """One run's folder, open for writing events and results."""

    def __init__(self, path: Path, facts: Facts, fields: Mapping[str, Any]) -> None:
        self.path = path
        self.facts = facts
        self.fields = dict(fields)

    @classmethod
    def create(cls, path: Path, facts: Facts, recipe: Recipe) -> "Run":
        """A new run: a folder that has a recipe."""
        if (path / RECIPE).exists():
            raise RunError(f"{path} already holds a run. Go on with it by --resume {path}, or choose another --out.")
        fields = to_fields(recipe)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(path, error, 0) from error
        known = {key: value for key, value in dataclasses.asdict(facts).items() if value is not None}
        write_atomically(path / RECIPE, tomli_w.dumps({**known, "fields": fields}).encode())
        return cls(path, facts, fields)

    @classmethod
    def open(cls, path: Path) -> "Run":
        """A run that is there."""
        if not (path / RECIPE).is_file():
            wanted = "Give the folder that porism train printed" if path.exists() else "There is no such folder"
            raise RunError(f"{path} is not a run: it has no {RECIPE}. {wanted}; runs are made by porism train.")
        return cls(path, *read_recipe(path / RECIPE))

    def append(self, event: str, **facts: Any) -> None:
        """Add one line to the events."""
        line = json.dumps({"event": event, "time": time.time(), **facts}).encode() + b"\n"
        path = self.path / EVENTS
        try:
            _drop_torn_line(path)
            with path.open("ab") as file:
                file.write(line)
        except OSError as error:
            raise cannot_write(path, error, len(line)) from error

    def write_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Write the results."""
        write_atomically(self.path / METRICS, json.dumps(dict(metrics), indent=1).encode())

    def write_exhibits(self, exhibits: Sequence[AnyExhibit]) -> None:
        """Write what there is to look at; nothing where there is nothing."""
        if exhibits:
            write_atomically(self.path / EXHIBITS, msgspec.json.encode(exhibits))

    def write_outcomes(self, outcomes: Mapping[str, Sequence[bool]]) -> None:
        """Write which examples of which split the model was right on, a digit each."""
        told = {split: "".join(str(int(one)) for one in right) for split, right in outcomes.items() if right}
        if told:
            write_atomically(self.path / OUTCOMES, json.dumps(told).encode())

    def metrics(self) -> dict[str, Any] | None:
        """The results, where the run has come to its end."""
        path = self.path / METRICS
        return json.loads(path.read_bytes()) if path.exists() else None


def _drop_torn_line(path: Path) -> None:
    """Cut off a last line that a kill left unfinished."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            content = path.read_bytes()
            file.truncate(content.rfind(b"\n") + 1)


def read_recipe(path: Path) -> tuple[Facts, dict[str, Any]]:
    """What a recipe.toml says: the run's facts and the recipe's fields."""
    try:
        content = tomllib.loads(path.read_text())
        fields = content.pop("fields")
        return msgspec.convert(content, Facts), fields
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError) as error:
        raise RunError(f"{path} is not a recipe that porism wrote: {error}.") from error
