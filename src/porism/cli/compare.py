"""porism compare: several recipes, or all runs of an experiment, in one table and one report."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from porism.cli.options import TrainingOptions, optional
from porism.errors import Advice, RecipeError
from porism.runs.run import new_folder

if TYPE_CHECKING:
    from porism.api.comparing import Plan
    from porism.api.train import Request
    from porism.runs.recipe import Recipe
    from porism.training.experiment import ExperimentRun
    from porism.training.task import Task


@dataclass(kw_only=True)
class CompareCommand(TrainingOptions):
    """Train several recipes on the same data and put them side by side.

    $ porism compare language elman lstm
    $ porism compare language elman lstm --seeds 5       means and intervals over five seeds
    $ porism compare language elman lstm --epochs 4      the same for all of them
    $ porism compare language elman lstm --budget seconds=60
    $ porism compare language elman lstm --seeds 5 --workers 4       four trainings at a time
    $ porism compare images pooling-question             an experiment: recipes, settings and seeds that answer it
    $ porism compare language table-01 table-02 --data ptb/ --out ptb-table
    $ porism compare language table-01 table-02 --data ptb/ --out ptb-table --resume
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """What to learn: language, images, graphs, speech, words, sentiment or supervised."""
    recipes: Annotated[Positional[list[str]], arg(metavar="RECIPE...|EXPERIMENT")]
    """The recipes' names, or the name of one experiment."""
    seeds: Annotated[str | None, optional("N|A,B,C", str)] = None
    """How many seeds each is trained from, counted from --seed, or which: 1,2,5. Left out: one, or as many as the
    experiment has."""
    budget: Annotated[str, arg(metavar="equal|own|epochs=N|seconds=N|examples=N", help_behavior_hint="")] = "equal"
    """How much training each may have. Left out: equal, as many epochs as the recipe with the most. Each stops earlier
    only when it no longer improves on valid. own: what each recipe says."""
    workers: Annotated[int, arg(metavar="N")] = 1
    """How many trainings at a time, each in a process of its own with --threads threads; those left out, an equal part
    of the cores."""
    out: Annotated[Path | None, optional("FOLDER", Path)] = None
    """The folder of the comparison, one run in it for each recipe and seed. Left out: a new one under runs/."""
    resume: Annotated[bool, optional()] = False
    """Keep what is done in --out, go on with what is not."""

    @classmethod
    def recipes_named(cls, words: Sequence[str]) -> "list[Recipe]":
        """The recipes whose fields the words may set, or the task's default where none is named."""
        from porism.cli.words import task_and_names

        found = task_and_names(words, cls)
        if found is None:
            return []
        known, names = found
        default = known.recipes[known.default]
        if len(names) == 1 and names[0] in known.experiments:
            names = list(known.experiments[names[0]].recipes)
        return [known.recipes[name] for name in names if name in known.recipes] or [default]

    def run(self) -> int:
        from porism.api.engine import REPORT
        from porism.api.trainings import Listeners
        from porism.api.workers import check_workers
        from porism.cli.output import console_for, print_json, tell
        from porism.cli.tables import tell_runs
        from porism.report.page import write_report
        from porism.runs.comparison import ComparisonRecord
        from porism.runs.record import read_run
        from porism.tasks import find
        from porism.training.progress import ConsoleProgress, NoProgress
        from porism.training.side_by_side import SideBySide

        kind = find(self.task)
        if self.resume and self.out is None:
            raise RecipeError("--resume needs --out, the folder of the comparison to go on with.")
        self.check()
        seeds = read_seeds(self.seeds)
        self.check_new(seeds if isinstance(seeds, int) else None)
        check_workers(self.workers)
        self._decide()
        plan = self.plan(kind)
        self.out = folder = self.out or new_folder(f"{self.task}-{plan.name}")
        taken = f"Choose another --out, or go on with: {self.go_on()}"
        plan.check_folder(folder, self.resume, Advice(taken, taken))
        console = console_for(self.json, patient=True)
        command = self._command()
        together = SideBySide(console)
        beside = (lambda name: NoProgress()) if self.quiet else together.row
        listeners = Listeners(ConsoleProgress(console), self.listening(console), beside)
        with self.output_lost(console):
            outcomes = plan.train(
                folder,
                listeners,
                workers=self.workers,
                checkpoint_every=self.checkpoint_every,
                tensorboard=self.tensorboard,
            )
        paths = [outcome.path for outcome in outcomes]
        named = plan.experiment.name if plan.experiment else None
        ComparisonRecord.of(folder, self.task, paths, named, command).write(folder)
        report = write_report(paths, folder / REPORT, command=command, experiment=plan.experiment)
        tell_runs([read_run(path) for path in paths], plan.experiment, console)
        tell(console, f"report: {report}")
        if self.json:
            print_json({"runs": [outcome.to_json() for outcome in outcomes], "report": str(report)})
        return 0

    def plan(self, kind: "type[Task]") -> "Plan":
        """What is trained: every recipe from every seed."""
        from porism.api.comparing import Plan, experiment_named
        from porism.errors import nearest, some_of
        from porism.training.budget import parse_budget

        known = [*kind.recipes, *kind.experiments]
        if not self.recipes:
            raise RecipeError(f"which recipes? {some_of(known)} What each is: porism recipes {kind.name}")
        experiment = experiment_named(kind, self.recipes, [text.partition("=")[0] for text in self.set])
        if unknown := [name for name in self.recipes if name not in known]:
            raise RecipeError(f"{kind.name} has no recipe {unknown[0]!r}. {nearest(unknown[0], known)}")
        if len(set(self.recipes)) < len(self.recipes):
            twice = next(name for name in self.recipes if self.recipes.count(name) > 1)
            raise RecipeError(f"{twice} is named twice, which gives the same runs twice. Name each recipe once.")
        return Plan.of(
            self.recipes,
            lambda trial: self._request(kind, trial),
            seeds=read_seeds(self.seeds),
            first_seed=self.seed_or_default,
            budget=parse_budget(self.budget),
            experiment=experiment,
        )

    def _fields(self, seed: int) -> list[str]:
        """What is set. `split_seed=seed` draws a split for each seed, the same for all models."""
        return [f"split_seed={seed}" if text == "split_seed=seed" else text for text in self.set]

    def _request(self, kind: "type[Task]", trial: "ExperimentRun") -> "Request":
        """One training."""
        from porism.api.train import Request
        from porism.runs.recipe import override, pick

        given = [*trial.assignments, *self._fields(trial.seed)]
        recipe = override(pick(kind.recipes, trial.recipe, kind.name), given)
        return Request(
            kind,
            recipe,
            given,
            self.source(kind.name),
            seed=trial.seed,
            device=self.device_or_default,
            threads=self.threads,
            baselines=self.baselines,
        )

    def go_on(self) -> str | None:
        """The command that goes on with the comparison, once it has a folder."""
        if self.out is None:
            return None
        return f"{self._command()} {shlex.join(['--out', str(self.out), '--resume'])}"

    def _command(self) -> str:
        """What repeats the comparison, with all that was decided for it."""
        words = ["porism", "compare", self.task, *self.recipes]
        for assignment in self.set:
            words += ["--set", assignment]
        if (source := self.source(self.task)) is not None:
            words += ["--data", source]
        if self.budget != "equal":
            words += ["--budget", self.budget]
        if self.seeds is not None:
            words += ["--seeds", self.seeds]
        if self.threads is not None:
            words += ["--threads", str(self.threads)]
        if self.workers > 1:
            words += ["--workers", str(self.workers)]
        if not self.baselines:
            words.append("--no-baselines")
        return shlex.join([*words, "--device", self.device_or_default, "--seed", str(self.seed_or_default)])

    def _decide(self) -> None:
        """Settle what is left to the machine, so that all runs have the same, and the command that repeats them too."""
        from porism.api.workers import thread_share
        from porism.runs.recipe import override
        from porism.training.device import choose_device, common_precision

        device = choose_device(self.device_or_default)
        self.device = str(device)
        if device.type == "cpu":
            self.threads = self.threads or thread_share(self.workers)
        named = self.recipes_named([self.task, *self.recipes])
        recipes = [override(recipe, self._fields(self.seed_or_default)) for recipe in named]
        # Where some name their own, the plan sets that of the others.
        by_machine = all(recipe.precision == "auto" for recipe in recipes)
        if by_machine and (precision := common_precision(recipes, device)) is not None:
            self.set = [*self.set, f"precision={precision}"]


def read_seeds(text: str | None) -> int | list[int] | None:
    """What --seeds says: how many, or which.

    >>> read_seeds("3"), read_seeds("1,2,5"), read_seeds(None)
    (3, [1, 2, 5], None)
    """
    from porism.training.limits import check_seed

    if text is None:
        return None
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        raise RecipeError(f"--seeds takes a whole number, or some with commas, got {text}. Use --seeds 3.") from None
    if len(numbers) == 1:
        return numbers[0]
    for seed in numbers:
        check_seed(seed)
    if len(set(numbers)) < len(numbers):
        raise RecipeError(f"--seeds {text} names a seed twice, which gives the same run twice. Name each once.")
    return numbers
