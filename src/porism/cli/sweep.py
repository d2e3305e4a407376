"""porism sweep: the best setting of a recipe's fields, found on valid."""

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from porism.cli.options import TrainingOptions, optional
from porism.errors import Advice, RecipeError, RunError
from porism.runs.run import new_folder

if TYPE_CHECKING:
    from rich.console import Console

    from porism.runs.recipe import Recipe
    from porism.runs.sweep import SweepRecord
    from porism.sweep.plan import SweepPlan
    from porism.sweep.queue import TrialQueue, Where
    from porism.training.task import Task

Over = Annotated[UseAppendAction[list[str]], arg(metavar="FIELD=A,B,C|LOW..HIGH")]


@dataclass(kw_only=True)
class SweepCommand(TrainingOptions):
    """Search for the setting of a recipe's fields that is best on valid. Test is evaluated for that one alone.

    $ porism sweep language elman --over hidden_size=100,200 --over learning_rate=0.001,0.01      a grid of four
    $ porism sweep language elman --over hidden_size=100,200 --seeds 5 --workers 4       means over five seeds
    $ porism sweep language elman --over learning_rate=1e-4..1e-2 --trials 20            drawn by TPE, on a log scale
    $ porism sweep language elman --over dropout=0..0.5 --trials 20 --sampler random --prune
    $ porism sweep language 'table-*' --test-all --data ptb/      every recipe of that name, each evaluated on test
    $ porism sweep language elman --over hidden_size=100,200 --storage postgresql://me@host/sweeps    on each machine

    A range spans both its ends; it is drawn on a log scale where the high end is ten times the low one or more, and
    evenly otherwise. hidden_size=32..512:linear and learning_rate=0.01..0.05:log say which.
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """What to learn: language, images, graphs, speech, words, sentiment or supervised."""
    recipes: Annotated[Positional[list[str]], arg(metavar="RECIPE...")]
    """The recipe's name; of several, or of a pattern such as 'table-*', each is tried."""
    over: Over = field(default_factory=list)
    """A field and what is tried for it: values, or a range to draw from."""
    trials: Annotated[int | None, optional("N", int)] = None
    """How many settings are drawn. Left out: all of the grid."""
    sampler: Annotated[Literal["tpe", "random"] | None, optional("tpe|random")] = None
    """How they are drawn. Left out: tpe, by what the trials before have shown."""
    prune: Annotated[bool, optional()] = False
    """Stop a trial whose first seed lags behind the median of the others."""
    seeds: Annotated[str | None, optional("N|A,B,C", str)] = None
    """How many seeds each setting is trained from, counted from --seed, or which. Left out: one, which decides
    nothing; five can."""
    workers: Annotated[int, arg(metavar="N")] = 1
    """How many trainings at a time, each in a process of its own with --threads threads; those left out, an equal part
    of the cores."""
    test_all: Annotated[bool, optional()] = False
    """Evaluate every setting on test, for a table of models: then the choice among them is no longer blind to it."""
    storage: Annotated[str | None, optional("FILE|URL", str)] = None
    """Where trials are kept: postgresql://USER@HOST/DATABASE, which several machines share. Left out: a journal file
    in the sweep's folder."""
    name: Annotated[str | None, optional("NAME", str)] = None
    """Of the sweep in a database. Left out: one made of the task and of all that is tried, so that the same command on
    another machine joins it."""
    heartbeat: Annotated[float, arg(metavar="SECONDS")] = 60.0
    """With a database: seconds between heartbeats of a worker. A trial without any for twice as long is given to
    another one."""
    out: Annotated[Path | None, optional("FOLDER", Path)] = None
    """The folder of the sweep, one in it for each trial. Left out: a new one under runs/; with a database one of its
    name."""
    resume: Annotated[bool, optional()] = False
    """Go on with the sweep in --out, or work at it beside those who do."""

    @classmethod
    def recipes_named(cls, words: Sequence[str]) -> "list[Recipe]":
        """The recipes whose fields the words may set, or the task's default where none is named."""
        from porism.cli.words import task_and_names

        found = task_and_names(words, cls)
        if found is None:
            return []
        known, patterns = found
        default = known.recipes[known.default]
        return [known.recipes[name] for name in _matching(patterns, list(known.recipes))] or [default]

    def run(self) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.sweep.storage import check_storage, import_optuna, storage_lost
        from porism.tasks import find
        from porism.training.session import prepare

        kind = find(self.task)
        self._check()
        check_storage(self.storage)
        plan = self.plan(kind)
        import_optuna()
        task = prepare(kind, plan.recipes[0], plan.source)
        where = self.place(plan)
        console = console_for(self.json, patient=True)
        tell(console, f"{plan.trials} trials of {len(plan.seeds)} seed{'s' * (len(plan.seeds) > 1)}: {where.folder}")
        with self.output_lost(console), storage_lost():
            queue = self._work(plan, where, task.metric, task.lower_is_better, console)

        from porism.sweep.results import record_of

        record = record_of(queue, task.metric, task.lower_is_better)
        result = self._conclude(kind, record, where.folder, console)
        if self.json:
            print_json(result)
        return 0

    def _check(self) -> None:
        """Refuse what can be seen to be wrong before anything is read."""
        from porism.api.workers import check_workers
        from porism.cli.compare import read_seeds
        from porism.sweep.storage import is_database

        self.check()
        seeds = read_seeds(self.seeds)
        self.check_new(seeds if isinstance(seeds, int) else None)
        check_workers(self.workers)
        if self.resume and self.out is None and not is_database(self.storage):
            raise RecipeError("--resume needs --out, the folder of the sweep to go on with.")
        if self.trials is None and self.sampler is not None:
            raise RecipeError(f"--sampler {self.sampler} draws settings, and needs their number: --trials 20.")
        if self.trials is not None and self.trials < 1:
            raise RecipeError(f"--trials takes a whole number from 1 on, got {self.trials}.")
        if not self.heartbeat > 0:
            raise RecipeError(f"--heartbeat takes seconds above 0, got {self.heartbeat:g}.")
        if self.name is not None and not is_database(self.storage):
            raise RecipeError("--name is for a sweep in a database: give --storage too, or --out in its place.")

    def plan(self, kind: "type[Task]") -> "SweepPlan":
        """What is tried."""
        from porism.cli.compare import read_seeds
        from porism.errors import nearest, some_of
        from porism.runs.recipe import override
        from porism.sweep.plan import SweepPlan
        from porism.sweep.space import parse_over

        known = list(kind.recipes)
        if not self.recipes:
            raise RecipeError(f"which recipe? {some_of(known)} What each is: porism recipes {kind.name}")
        for pattern in self.recipes:
            if not _matching([pattern], known):
                raise RecipeError(f"{kind.name} has no recipe {pattern!r}. {nearest(pattern, known)}")
        self._decide(kind)
        names = _matching(self.recipes, known)
        recipes = tuple(override(kind.recipes[name], self.set) for name in names)
        space = parse_over(recipes[0], self.over)
        if both := [text for text in self.set if text.partition("=")[0] in space]:
            raise RecipeError(f"{both[0]} is set, and --over tries {both[0].partition('=')[0]}. Give one of them.")
        seeds = read_seeds(self.seeds) or 1
        first = self.seed_or_default
        plan = SweepPlan(
            kind,
            recipes,
            space,
            tuple(range(first, first + seeds)) if isinstance(seeds, int) else tuple(seeds),
            self.trials,
            "grid" if self.trials is None else self.sampler or "tpe",
            self.prune,
            self.source(kind.name),
            self.device_or_default,
            self.threads,
            self.baselines,
        )
        plan.check()
        timed = "max_seconds" in space or any(recipe.max_seconds is not None for recipe in recipes)
        if self.workers > 1 and timed:
            raise RecipeError(
                f"seconds are not the same for all where {self.workers} trainings share the machine. Leave --workers "
                "or max_seconds out."
            )
        return plan

    def place(self, plan: "SweepPlan") -> "Where":
        """Where the sweep is kept. A folder that holds one already needs --resume, unless a database says which."""
        from porism.sweep.queue import Where
        from porism.sweep.storage import JOURNAL, is_database

        if self.storage is not None and is_database(self.storage):
            study = self.name or _study_name(plan)
            self.out = self.out or Path("runs") / study
            return Where(self.out, self.storage, study, self.heartbeat)
        self.out = folder = self.out or new_folder(f"{self.task}-sweep")
        journal = folder / JOURNAL if self.storage is None else Path(self.storage)
        if journal.is_file() and not self.resume:
            taken = f"Choose another --out, or go on with: {self.go_on()}"
            raise RunError(f"{journal} already holds a sweep.", Advice(taken, taken))
        if self.resume and not journal.is_file():
            raise RunError(f"{journal} is not there, so there is no sweep to go on with. Leave --resume out.")
        return Where(folder, self.storage)

    def _work(
        self, plan: "SweepPlan", where: "Where", metric: str, lower_is_better: bool, console: "Console"
    ) -> "TrialQueue":
        """Train all trials, here or in processes of their own, and show how they stand."""
        from porism.cli.output import tell
        from porism.sweep.child import SweepJob
        from porism.sweep.display import SweepDisplay
        from porism.sweep.processes import SweepProcesses
        from porism.sweep.queue import TrialQueue
        from porism.sweep.results import trials_of
        from porism.sweep.worker import SweepWorker

        queue = TrialQueue(plan, where, lower_is_better)
        queue.fill()
        with SweepDisplay(console, metric, lower_is_better, self.quiet) as display:
            display.begin(trials_of(queue))

            def seen() -> None:
                if display.due:
                    display.update(trials_of(queue))

            if self.workers > 1:
                job = SweepJob(plan, where, lower_is_better, self.checkpoint_every, self.workers)
                SweepProcesses(job, queue, seen, lambda text: tell(console, text)).run()
            else:
                SweepWorker(plan, queue, self.checkpoint_every, seen).run()
            display.update(trials_of(queue))
        return queue

    def _conclude(self, kind: "type[Task]", record: "SweepRecord", folder: Path, console: "Console") -> dict[str, Any]:
        """Evaluate the chosen setting, write the report, print the table; what --json says."""
        from porism.api.engine import REPORT
        from porism.cli.output import tell
        from porism.report.page import write_report
        from porism.report.sweep_page import conclusions, decide, write_sweep
        from porism.sweep.chosen import evaluate_runs
        from porism.sweep.display import trials_table
        from porism.training.progress import ConsoleProgress

        chosen = record.chosen
        if chosen is None:
            reasons = [f"trial {trial.number} {trial.outcome}: {trial.reason}" for trial in record.trials]
            raise RunError(f"none of {len(record.trials)} trials has a result. {reasons[0]}")
        progress = ConsoleProgress(console)
        tests = evaluate_runs(kind, chosen.runs, progress)
        if len(tests) < len(record.seeds):
            tell(console, "note: the chosen setting's runs are on another machine, which evaluates them on test")
            tests = []
        console.print(trials_table(record.trials, record.metric, record.lower_is_better))
        sentences = conclusions(record, tests)
        for sentence in sentences:
            tell(console, sentence)
        report = write_sweep(record, folder / REPORT, self._command(), tests)
        result: dict[str, Any] = {
            "task": record.task,
            "sweep": str(folder),
            "metric": record.metric,
            "lower_is_better": record.lower_is_better,
            "seeds": list(record.seeds),
            "trials": [trial.to_json() for trial in record.trials],
            "chosen": {**chosen.to_json(), "results": tests},
            "decided": (found := decide(record)) is not None and found.leader_is_best,
            "conclusions": sentences,
            "importances": None if record.importances is None else dict(record.importances),
            "report": str(report),
        }
        tell(console, f"report: {report}")
        if self.test_all:
            runs = [run for trial in record.ranked for run in trial.runs]
            evaluate_runs(kind, runs, progress)
            table = write_report(runs, folder / TABLE, command=self._command())
            tell(console, f"table of all settings on test: {table}")
            result["table"] = str(table)
        return result

    def go_on(self) -> str | None:
        """The command that goes on with the sweep, once it has a folder."""
        if self.out is None:
            return None
        return f"{self._command()} {shlex.join(['--out', str(self.out), '--resume'])}"

    def _command(self) -> str:
        """What repeats the sweep, with all that was decided for it."""
        words = ["porism", "sweep", self.task, *self.recipes]
        for option, values in (("--over", self.over), ("--set", self.set)):
            for value in values:
                words += [option, value]
        options: dict[str, Any] = {
            "--data": self.source(self.task),
            "--trials": self.trials,
            "--sampler": self.sampler,
            "--seeds": self.seeds,
            "--threads": self.threads,
            "--workers": self.workers if self.workers > 1 else None,
            "--storage": None if self.storage is None else _without_password(self.storage),
            "--name": self.name,
            "--heartbeat": self.heartbeat if self.heartbeat != 60.0 else None,
        }
        for option, value in options.items():
            words += [] if value is None else [option, str(value)]
        flags = {"--prune": self.prune, "--test-all": self.test_all, "--no-baselines": not self.baselines}
        words += [flag for flag, given in flags.items() if given]
        return shlex.join([*words, "--device", self.device_or_default, "--seed", str(self.seed_or_default)])

    def _decide(self, kind: "type[Task]") -> None:
        """Settle what is left to the machine, so that all trials have the same."""
        from porism.api.workers import thread_share
        from porism.runs.recipe import override
        from porism.training.device import choose_device, common_precision

        device = choose_device(self.device_or_default)
        self.device = str(device)
        if device.type == "cpu":
            self.threads = self.threads or thread_share(self.workers)
        named = _matching(self.recipes, list(kind.recipes))
        recipes = [override(kind.recipes[name], self.set) for name in named]
        precision = common_precision(recipes, device)
        by_machine = all(recipe.precision == "auto" for recipe in recipes)
        if by_machine and precision and not any(assignment.startswith("precision=") for assignment in self.over):
            self.set = [*self.set, f"precision={precision}"]


TABLE = "table.html"
"""The page of all settings, where all are evaluated on test."""


def _matching(patterns: Sequence[str], known: Sequence[str]) -> list[str]:
    """The names that any of the patterns means, each once.

    >>> _matching(["table-0*", "elman"], ["elman", "lstm", "table-01", "table-12"])
    ['table-01', 'elman']
    """
    return list(dict.fromkeys(name for pattern in patterns for name in known if fnmatchcase(name, pattern)))


def _without_password(storage: str) -> str:
    """A URL as it may stand in a report.

    >>> _without_password("postgresql://me:secret@host/sweeps")
    'postgresql://me:PASSWORD@host/sweeps'
    """
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:PASSWORD@", storage)


def _study_name(plan: "SweepPlan") -> str:
    """The same for whoever gives the same command."""
    text = json.dumps([plan.identity(), plan.source and Path(plan.source).name], sort_keys=True)
    return f"{plan.kind.name}-sweep-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
