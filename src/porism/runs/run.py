"""A run is a folder: what was requested (recipe.toml), what happened (events.jsonl), what came of it (metrics.json).

Where the task has them, there are pictures and the like (exhibits.json), and which examples were right (outcomes.json).
One process at a time writes into it. What is read is held against the checksums that were kept when it was written.
"""

import dataclasses
import json
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock as Mutex
from typing import Any

import msgspec
import tomli_w

from porism.errors import Advice, RunError, advise, option, resuming
from porism.files import LITTER, cannot_write, is_temporary, read_bytes, sha256, sha256_of_json, write_atomically
from porism.runs.checkpoint_state import states
from porism.runs.events import EVENTS, Events, read_events
from porism.runs.example_scores import ExampleScores
from porism.runs.exhibits import AnyExhibit
from porism.runs.lock import LOCK, Lock, is_lock
from porism.runs.old_fields import (
    EVERY,
    assignment,
    convert,
    convert_epochs,
    convert_lengths,
    convert_overrides,
    reading_of_0_1,
)
from porism.runs.recipe import Recipe, plain_value, to_fields
from porism.runs.results import EXAMPLES, EXHIBITS, METRICS, OUTCOMES, encode_results, read_results
from porism.runs.tuning import TUNING, Tuning

RECIPE = "recipe.toml"
LAST, BEST = "last", "best"
ANOTHER = advise("Choose another {}.", option("out"))
COUNTING = Mutex()
"""Held while writers of a run are counted, of which one may be a thread. Not of a run itself, which can be pickled."""
IN_MEMORY = "<memory>"
"""The source of data, or the place of a model, that was given in Python and has no name."""
FORMAT, SEALED = 3, 2
"""From 2 on every file of a run has a checksum, from 3 on fields have the names of 0.2. Runs of 0.1 do not say their
format, which is 1."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
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
    model: str | None = None
    """Where the user's own model comes from, as `package.module:name`."""
    baselines: bool | None = None
    """False where no baselines are measured beside it. None, which files leave out, where they are."""

    def command(self) -> list[str]:
        """The words that repeat the run, with all that was decided for it."""
        words = ["porism", "train", self.task]
        # A run with a model of the user's own has that one's name for its recipe's, and sets all that differs from the
        # task's default.
        words += [self.recipe] if self.model is None else ["--model", self.model]
        for override in self.overrides:
            # What it came to stands below, also where `auto` was set.
            if not override.startswith("precision="):
                words += ["--set", override]
        if self.source is not None:
            words += ["--data", self.source]
        words += ["--precision", self.precision]
        if self.device == "cpu":
            words += ["--threads", str(self.threads)]
        if self.baselines is False:
            words.append("--no-baselines")
        return [*words, "--device", self.device, "--seed", str(self.seed)]

    def repeat(self) -> str:
        """What repeats the run: a command, or in Python where data, a model or a loss were given there."""
        return shlex.join(self.command()) if self._is_command else self.call()

    @property
    def _is_command(self) -> bool:
        from_file = self.model is None or ".py:" in self.model
        by_function = self.model is not None and "loss=function" in self.overrides
        return from_file and self.source != IN_MEMORY and not by_function

    def repeating(self) -> Advice:
        """What repeats the run, for either door."""
        return Advice(self.repeat(), self.call())

    def call(self) -> str:
        """What repeats the run in Python."""
        threads = self.threads if self.device == "cpu" else None
        given: dict[str, Any] = {"data": self.source, "model": self.model, "seed": self.seed, "device": self.device}
        given |= {"threads": threads, "precision": self.precision, "baselines": self.baselines}
        given = {name: value for name, value in given.items() if value is not None}
        given |= {name: _python_value(text) for name, _, text in self._set() if name != "precision"}
        # What the recipe says of a loss that has no name: a function, or that of the model's own output.
        if given.get("loss") == "function":
            given["loss"] = IN_MEMORY
        elif given.get("loss") == "model":
            del given["loss"]
        shown = [f"{name}={'...' if value == IN_MEMORY else repr(value)}" for name, value in given.items()]
        named = [repr(self.recipe)] if self.model is None else []
        return f"porism.train({', '.join([repr(self.task), *named, *shown])})"

    def _set(self) -> list[tuple[str, str, str]]:
        return [text.partition("=") for text in self.overrides]


def _python_value(text: str) -> Any:
    """What a text of `--set` is in Python."""
    return {"true": True, "false": False}.get(text, plain_value(text))


class RunFolder:
    """One run's folder. It is read by anybody, and written into by the one process that has locked it."""

    def __init__(self, path: Path, written: "Written") -> None:
        self.path = path
        self._written, self._read = written, written.converted()
        self.events = Events(path / EVENTS, written.sealed)
        self._attached: dict[str, str] = {}
        self._lock: Lock | None = None
        self._writers = 0

    @classmethod
    def create(cls, path: Path, facts: RunFacts, recipe: Recipe) -> "RunFolder":
        """A new run, locked: a folder that has a recipe."""
        refuse_taken(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(path, error, 0) from error
        except ValueError as error:
            raise RunError(f"{str(path)!r} cannot be the name of a folder: {error}.", ANOTHER) from error
        run = cls(path, Written(facts=facts, fields=to_fields(recipe), format=FORMAT))
        run.lock()
        try:
            # Somebody may have been quicker.
            refuse_taken(path)
            write_atomically(path / RECIPE, run._written.encode())
        except BaseException:
            run.unlock()
            raise
        return run

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A run that is there. Its recipe must be the one it was trained with."""
        try:
            found = (path / RECIPE).is_file()
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error.strerror}.") from error
        if not found:
            if inside := runs_in(path):
                names = ", ".join(run.name for run in inside[:5]) + (", ..." if len(inside) > 5 else "")
                raise RunError(f"{path} is not a run, it holds {len(inside)}: {names}. Give one of them: {inside[0]}")
            there = "Give the folder that a training printed" if path.exists() else "There is no such folder"
            made = advise("runs are made by {}.", Advice("porism train", "porism.train()"))
            raise RunError(f"{path} is not a run: it has no {RECIPE}. {there};", made)
        written = decode_recipe(read_bytes(path / RECIPE), path / RECIPE)
        refuse_other_recipe(path, written)
        return cls(path, written)

    @property
    def facts(self) -> RunFacts:
        """All that decides the result, next to the recipe."""
        return self._read.facts

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the recipe."""
        return self._read.fields

    @property
    def recipe_sha256(self) -> str:
        """The checksum of the recipe, which all that is written from now on vouches for."""
        return self._written.sha256

    @property
    def locked(self) -> bool:
        """Whether this is the one that may write."""
        return self._lock is not None

    def lock(self) -> None:
        """Become the one that may write, until `unlock`. Refused where another process is."""
        if self._lock is None:
            self._lock = Lock(self.path)

    def unlock(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def withdraw(self) -> None:
        """Take back a new run that could not begin, so that its folder can be used. The file of the lock stays."""
        with suppress(OSError):
            # The recipe last: without it the others would be of no run.
            for name in (TUNING, EVENTS, RECIPE):
                (self.path / name).unlink(missing_ok=True)
        self.unlock()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write while this lasts, and let others write when it ends; of several, in threads too, when all end."""
        self.lock()
        with COUNTING:
            self._writers += 1
        try:
            yield
        finally:
            with COUNTING:
                self._writers -= 1
                if not self._writers:
                    self.unlock()

    def refuse_lengths(self, recipe: Recipe) -> None:
        """Refuse a recipe whose lengths the run's file cannot say."""
        self._written.lengthened(self.facts, to_fields(recipe))

    def lengthen(self, facts: RunFacts, recipe: Recipe) -> None:
        """Take facts and a recipe that differ only in how long the run goes on."""
        written = self._written.lengthened(facts, to_fields(recipe))
        write_atomically(self.path / RECIPE, written.encode())
        self._written, self._read = written, written.converted()

    def append(self, event: str, **facts: Any) -> None:
        """Add one line to the events."""
        self.events.append(event, **facts)

    def write_tuning(self, tuning: Tuning) -> None:
        """Write what was tried before the training. Its checksum stands in the events, and with the results."""
        content = json.dumps(dataclasses.asdict(tuning), indent=1).encode()
        write_atomically(self.path / TUNING, content)
        self.append("tune", file=TUNING, content=sha256(content))

    def write_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Write the results."""
        if (self.path / TUNING).is_file():
            self._attached[TUNING] = sha256(read_bytes(self.path / TUNING))
        attached = {RECIPE: self.recipe_sha256, EVENTS: self.events.sha256, **self._attached}
        write_atomically(self.path / METRICS, encode_results(metrics, attached))

    def write_exhibits(self, exhibits: Sequence[AnyExhibit]) -> None:
        """Write the exhibits, if there are any."""
        if exhibits:
            self._attach(EXHIBITS, msgspec.json.encode(exhibits))

    def write_outcomes(self, outcomes: Mapping[str, Sequence[bool]]) -> None:
        """Write which examples of which split the model was right on, a digit each."""
        digits = {split: "".join(str(int(one)) for one in right) for split, right in outcomes.items() if right}
        if digits:
            self._attach(OUTCOMES, json.dumps(digits).encode())

    def write_examples(self, examples: Mapping[str, ExampleScores | None]) -> None:
        """Write what each example of which split adds to the metric, where the task tells it."""
        if known := {split: scores for split, scores in examples.items() if scores is not None}:
            self._attach(EXAMPLES, msgspec.json.encode(known))

    def _attach(self, name: str, content: bytes) -> None:
        write_atomically(self.path / name, content)
        self._attached[name] = sha256(content)

    def metrics(self) -> dict[str, Any] | None:
        """The results as they were written, where the run has come to its end."""
        results = read_results(self.path, self._written.sealed)
        return None if results is None else self._written.convert_results(results.metrics)


def new_folder(name: str) -> Path:
    """The first free of runs/NAME, runs/NAME-2, runs/NAME-3 ..."""
    folder, number = Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder


def runs_in(folder: Path) -> list[Path]:
    """The runs that lie directly in a folder, by name."""
    return sorted(path.parent for path in folder.glob(f"*/{RECIPE}") if path.is_file())


def refuse_taken(path: Path) -> None:
    """Refuse a folder for a new run that is a run already, or holds anything that porism did not put there."""
    try:
        for place in (path, *path.parents):
            if place.is_symlink() and not place.exists():
                raise RunError(f"{place} is a link to {place.readlink()}, which is not there.", ANOTHER)
        if not path.exists():
            return
        if not path.is_dir():
            raise RunError(f"{path} is a file, and a run is a folder.", ANOTHER)
        names = {entry.name for entry in path.iterdir()}
    except OSError as error:
        raise cannot_write(path, error, 0) from error
    if RECIPE in names:
        raise already_there(path)
    # What is left where a new run was stopped before it had its recipe.
    ours = {name for name in names if name == LOCK or is_temporary(name, RECIPE)} if is_lock(path / LOCK) else set()
    if foreign := sorted(names - ours - set(LITTER)):
        raise RunError(
            f"{path} is not empty and no run: it holds {foreign[0]}.",
            advise("Choose a new or an empty folder with {}.", option("out")),
        )


def already_there(path: Path, differing: Sequence[str] = ()) -> RunError:
    """That a folder holds a run already. differing: what of it is not what is requested now, in words."""
    if differing:
        return RunError(
            f"{path} already holds another run: {'; '.join(differing)}.",
            advise("Choose another {}, or go on with that one by: {}", option("out"), resuming(path)),
        )
    resume = Advice(f"--resume {path}", f"porism.load({str(path)!r}).resume()")
    return RunError(
        f"{path} already holds a run.", advise("Go on with it by {}, or choose another {}.", resume, option("out"))
    )


def refuse_other_recipe(path: Path, written: "Written") -> None:
    """Refuse a run whose recipe.toml is not the one that its events, checkpoints and results were made with."""
    checksums = written.checksums()
    for witness, recorded in _recorded_recipes(path, written.sealed):
        if isinstance(recorded, str) and recorded not in checksums:
            raise RunError(
                f"{path / RECIPE} was changed since {witness} was written: its sha256 begins {checksums[0][:12]}, "
                f"{recorded[:12]} was recorded.",
                advise("Bring the old one back, or start a new run with {}.", option("out")),
            )


def _recorded_recipes(path: Path, sealed: bool) -> Iterator[tuple[Path, object]]:
    """Who has kept the recipe's checksum. One that is damaged itself is no witness; its reader will tell."""
    for name in (LAST, BEST):
        for place, state in states(path / name):
            yield place, state.get("recipe")
    with suppress(RunError):
        if (results := read_results(path, sealed)) is not None:
            yield path / METRICS, results.sha256.get(RECIPE)
    with suppress(RunError):
        for line in read_events(path / EVENTS, sealed).lines:
            if isinstance(line.event, dict):
                yield path / EVENTS, line.event.get("recipe")


class Earlier(msgspec.Struct, frozen=True):
    """What a run was set to before it was lengthened."""

    epochs: int
    patience: int
    overrides: list[str]


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a recipe.toml says."""

    facts: RunFacts
    fields: dict[str, Any]
    format: int
    earlier: tuple[Earlier, ...] = ()

    @property
    def sealed(self) -> bool:
        """Whether every file of the run has a checksum."""
        return self.format >= SEALED

    @property
    def sha256(self) -> str:
        """The checksum of all but what the run was set to earlier."""
        return sha256_of_json(self._content())

    def checksums(self) -> list[str]:
        """This one, and those that it had earlier, computed anew: so they hold only if the rest is unchanged."""
        return [self.sha256, *(self._as_of(earlier).sha256 for earlier in self.earlier)]

    def lengthened(self, facts: RunFacts, fields: Mapping[str, Any]) -> "Written":
        """The same run with other lengths."""
        now = Earlier(self.fields["epochs"], self.fields["patience"], self.facts.overrides)
        if self.format < FORMAT:
            lengths = convert_lengths(self.fields, fields["epochs"], fields["patience"])
            changed = {name: value for name, value in lengths.items() if value != self.fields[name]}
            kept = [text for text in self.facts.overrides if text.partition("=")[0] not in changed]
            set_now = [f"{name}={value}" for name, value in changed.items()]
            facts, fields = dataclasses.replace(self.facts, overrides=[*kept, *set_now]), {**self.fields, **lengths}
        return dataclasses.replace(self, facts=facts, fields=dict(fields), earlier=(*self.earlier, now))

    def converted(self) -> "Written":
        """The same in the words of this version, to be read and not to be written."""
        if self.format >= FORMAT:
            return self
        reading = reading_of_0_1(self.facts.task, self.facts.source)
        fields = convert(self.facts.task, self.fields) | reading
        overrides = convert_overrides(self.facts.task, self.facts.overrides, fields)
        overrides += [assignment(name, value) for name, value in reading.items()]
        return dataclasses.replace(
            self, facts=dataclasses.replace(self.facts, overrides=overrides), fields=fields, format=FORMAT
        )

    def convert_results(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """What metrics.json says in the words of this version: numbers of epochs, and the command that repeats it."""
        now = self.converted()
        command = {"command": now.facts.repeat()} if "command" in metrics and now.facts != self.facts else {}
        return {**convert_epochs(metrics, now.fields.get(EVERY, 1)), **command}

    def encode(self) -> bytes:
        """The content of the file."""
        earlier = {"earlier": [msgspec.structs.asdict(one) for one in self.earlier]} if self.earlier else {}
        return tomli_w.dumps({**self._content(), **earlier}).encode()

    def _as_of(self, earlier: Earlier) -> "Written":
        facts = dataclasses.replace(self.facts, overrides=earlier.overrides)
        fields = {**self.fields, "epochs": earlier.epochs, "patience": earlier.patience}
        return dataclasses.replace(self, facts=facts, fields=fields, earlier=())

    def _content(self) -> dict[str, Any]:
        known = {key: value for key, value in dataclasses.asdict(self.facts).items() if value is not None}
        return {"format": self.format, **known, "fields": self.fields}


def read_recipe(path: Path) -> tuple[RunFacts, dict[str, Any]]:
    """What a recipe.toml says: the run's facts and the recipe's fields."""
    written = decode_recipe(read_bytes(path), path).converted()
    return written.facts, written.fields


def decode_recipe(content: bytes, path: Path) -> Written:
    """What the content of a recipe.toml says."""
    try:
        raw = tomllib.loads(content.decode())
        facts = msgspec.convert(
            {name: raw[name] for name in raw if name not in ("format", "fields", "earlier")}, RunFacts
        )
        # To JSON and back, since TOML knows dates, which no recipe has.
        fields = json.loads(json.dumps(msgspec.convert(raw["fields"], dict[str, Any])))
        version = msgspec.convert(raw.get("format", 1), int)
        earlier = msgspec.convert(raw.get("earlier", []), tuple[Earlier, ...])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{path} is not a recipe that porism wrote: {error}.") from error
    if version > FORMAT:
        raise RunError(f"{path} is of format {version}; this porism reads those up to {FORMAT}. Use a newer one.")
    return Written(facts=facts, fields=fields, format=version, earlier=earlier)
