"""porism compare: several recipes, or all runs of an experiment, in one table and one report."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from porism.cli.options import TrainingOptions, optional
from porism.errors import DivergedError, RecipeError, RunError
from porism.runs.recipe import option_of
from porism.runs.run import new_folder

if TYPE_CHECKING:
    from rich.console import Console

    from porism.runs.recipe import Recipe
    from porism.training.experiment import Experiment, ExperimentRun
    from porism.training.task import Task

    Request = tuple[str, ExperimentRun, Recipe]


@dataclass(kw_only=True)
class CompareCommand(TrainingOptions):
    """Train several recipes on the same data and put them side by side.

    $ porism compare language elman lstm
    $ porism compare language elman lstm --seeds 5       means and intervals over five seeds
    $ porism compare language elman lstm --epochs 4      the same for all of them
    $ porism compare language elman lstm --budget seconds=60
    $ porism compare images pooling-question             an experiment: recipes, settings and seeds that answer it
    $ porism compare language table-01 table-02 --data ptb/ --out ptb-table
    $ porism compare language table-01 table-02 --data ptb/ --out ptb-table --resume
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """What to learn: language, images, graphs, speech, words or sentiment."""
    recipes: Annotated[Positional[list[str]], arg(metavar="RECIPE...|EXPERIMENT")]
    """The recipes' names, or the name of one experiment."""
    seeds: Annotated[str | None, optional("N|A,B,C", str)] = None
    """How many seeds each is trained from, counted from --seed, or which: 1,2,5. Left out: one, or as many as the
    experiment has."""
    budget: Annotated[str, arg(metavar="equal|own|epochs=N|seconds=N|examples=N", help_behavior_hint="")] = "equal"
    """How much training each may have. Left out: equal, as many epochs as the recipe with the most. Each stops earlier
    only when it no longer improves on valid. own: what each recipe says."""
    out: Annotated[Path | None, optional("FOLDER", Path)] = None
    """The folder of the comparison, one run in it for each recipe and seed. Left out: a new one under runs/."""
    resume: Annotated[bool, optional()] = False
    """Keep what is done in --out, go on with what is not."""

    @classmethod
    def recipes_named(cls, words: Sequence[str]) -> "list[Recipe]":
        """The recipes whose fields the words may set, or the task's default where none is named."""
        from porism.cli.words import field_options, positional_words, verb_options
        from porism.tasks import choices

        flags = verb_options(cls)
        task = next(iter(positional_words(words, flags)), None)
        if task is None:
            return []
        known = choices(task)
        default = known.recipes[known.default]
        _, *names = positional_words(words, flags | field_options(type(default)))
        if len(names) == 1 and names[0] in known.experiments:
            names = list(known.experiments[names[0]].recipes)
        return [known.recipes[name] for name in names if name in known.recipes] or [default]

    def run(self) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.report.page import write_report
        from porism.tasks import find

        kind = find(self.task)
        if self.resume and self.out is None:
            raise RecipeError("--resume needs --out, the folder of the comparison to go on with.")
        self.check()
        seeds = read_seeds(self.seeds)
        self.check_new(seeds if isinstance(seeds, int) else None)
        self._decide()
        experiment, requests = self._requests(kind)
        self.out = folder = self.out or new_folder(f"{self.task}-{experiment.name if experiment else 'compare'}")
        paths = [folder / name for name, _, _ in requests]
        self._check_folder(kind, folder, requests)
        console = console_for(self.json, patient=True)
        results = [self._trained(kind, trial, recipe, folder / name, console) for name, trial, recipe in requests]
        if all("metrics" not in result for result in results):
            raise DivergedError(f"none of {len(results)} runs has a result: all diverged. {results[0]['diverged']}")
        report = write_report(paths, folder / "report.html", command=self._command(), experiment=experiment)
        self._tell(paths, experiment, console)
        tell(console, f"report: {report}")
        if self.json:
            print_json({"runs": results, "report": str(report)})
        return 0

    def _requests(self, kind: "type[Task]") -> "tuple[Experiment | None, list[Request]]":
        """Every run's folder, trial and recipe."""
        from porism.errors import nearest, some_of
        from porism.runs.recipe import override, pick
        from porism.training.experiment import Experiment

        known = [*kind.recipes, *kind.experiments]
        if not self.recipes:
            raise RecipeError(f"which recipes? {some_of(known)} What each is: porism recipes {kind.name}")
        chosen = [name for name in self.recipes if name in kind.experiments]
        if chosen and len(self.recipes) > 1:
            raise RecipeError(f"{chosen[0]} is an experiment, which names its own recipes. Give it alone.")
        if unknown := [name for name in self.recipes if name not in known]:
            raise RecipeError(f"{kind.name} has no recipe {unknown[0]!r}. {nearest(unknown[0], known)}")
        experiment = kind.experiments[chosen[0]] if chosen else None
        plan = experiment or Experiment("compare", "", tuple(dict.fromkeys(self.recipes)), seeds=1)
        if experiment is not None:
            self._refuse_tried(experiment)
        seeds = read_seeds(self.seeds)
        if isinstance(seeds, list):
            trials = [trial for seed in seeds for trial in plan.trials(seed, 1)]
        else:
            trials = list(plan.trials(self.seed_or_default, seeds))
        recipes = [override(pick(kind.recipes, trial.recipe, kind.name), self._assignments(trial)) for trial in trials]
        alone = experiment is None and len({trial.seed for trial in trials}) == 1
        names = [trial.recipe if alone else trial.folder for trial in trials]
        return experiment, list(zip(names, trials, self._within_budget(kind, plan, recipes), strict=True))

    def _refuse_tried(self, experiment: "Experiment") -> None:
        """Refuse to set a field whose values the experiment tries: its runs would not be what their folders say."""
        tried = {**experiment.over, **experiment.values}
        if both := [name for name in (text.partition("=")[0] for text in self.set) if name in tried]:
            values = ", ".join(map(str, tried[both[0]]))
            raise RecipeError(f"{experiment.name} tries {both[0]} itself ({values}). Leave {option_of(both[0])} out.")

    def _assignments(self, trial: "ExperimentRun") -> list[str]:
        """What a run sets in its recipe. `split_seed=seed` draws a split for each seed, the same for all models."""
        drawn = f"split_seed={trial.seed}"
        return [drawn if text == "split_seed=seed" else text for text in (*trial.assignments, *self.set)]

    def _within_budget(self, kind: "type[Task]", plan: "Experiment", recipes: "list[Recipe]") -> "list[Recipe]":
        """The recipes with as much training as --budget allows; an experiment on epochs keeps those it sets."""
        from porism.training.budget import apply_budget, examples_in_epoch, parse_budget

        budget = parse_budget(self.budget)
        if "epochs" in {**plan.over, **plan.values}:
            return recipes
        source = self.source(kind.name)
        return apply_budget(recipes, budget, lambda recipe: examples_in_epoch(kind, recipe, source))

    def _check_folder(self, kind: "type[Task]", folder: Path, requests: "list[Request]") -> None:
        """Refuse runs in the folder that are others than requested, before anything is trained."""
        from porism.runs.run import RECIPE, RunFolder
        from porism.training.device import choose_device
        from porism.training.reuse import Circumstances, Found, check_found

        there = [request for request in requests if (folder / request[0] / RECIPE).exists()]
        now = Circumstances(kind, self.source(kind.name), choose_device(self.device_or_default), self.threads)
        # Where they differ, no command that resumes them is given.
        check_found([Found(RunFolder.open(folder / name), recipe, trial.seed) for name, trial, recipe in there], now)
        if there and not self.resume:
            raise RunError(
                f"{folder / there[0][0]} already holds a run. Choose another --out, or go on with: {self.go_on()}"
            )

    def _trained(
        self, kind: "type[Task]", trial: "ExperimentRun", recipe: "Recipe", path: Path, console: "Console"
    ) -> dict[str, Any]:
        from porism.cli.output import tell
        from porism.runs.recipe import assignments, override
        from porism.runs.record import read_run
        from porism.runs.run import RECIPE, RunFolder

        # Where runs are many, a page for each would take longer than some of them do.
        report = path.name == trial.recipe
        try:
            if self.resume and (path / RECIPE).exists():
                run = RunFolder.open(path)
                if (lost := read_run(path).diverged) is not None:
                    raise DivergedError(lost)
                return run.metrics() or self.train_on(run, console, report)
            given = self._assignments(trial)
            given += assignments(override(kind.recipes[trial.recipe], given), recipe)
            return self.train_new(kind, recipe, path, console, given, trial.seed, report)
        except DivergedError as error:
            # To a comparison that is an outcome: the other runs go on.
            tell(console, f"{path.name} diverged: {error}")
            facts = {"task": kind.name, "recipe": trial.recipe, "run": str(path), "seed": trial.seed}
            return {**facts, "diverged": str(error)}

    def _tell(self, paths: list[Path], experiment: "Experiment | None", console: "Console") -> None:
        """The tables for a terminal: one row a run, or one a model where there are many runs of each."""
        from porism.cli.output import tell
        from porism.report.baselines import baselines_line
        from porism.report.comparison import entries_of, group_runs
        from porism.report.experiment import answer
        from porism.report.seeds import has_seeds, seeds_table
        from porism.report.summary import summarise
        from porism.report.table import costs_table, table
        from porism.runs.record import read_run

        records = [read_run(path) for path in paths]
        groups = group_runs(entries_of(records))
        if has_seeds(groups):
            for group in groups:
                console.print(seeds_table(group))
                if line := baselines_line(group):
                    tell(console, line)
        else:
            console.print(table(records, console.width))
            if costs := costs_table(records):
                console.print(costs)
        if experiment is not None:
            tell(console, experiment.about, style="bold")
            for sentence in answer(experiment, records).sentences:
                tell(console, sentence)
        else:
            for group in groups:
                tell(console, summarise(group, baselines=False))

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
        if not self.baselines:
            words.append("--no-baselines")
        return shlex.join([*words, "--device", self.device_or_default, "--seed", str(self.seed_or_default)])

    def _decide(self) -> None:
        """Settle what is left to the machine, so that all runs have the same, and the command that repeats them too."""
        import torch

        from porism.training.device import choose_device, choose_precision

        device = choose_device(self.device_or_default)
        self.device = str(device)
        if device.type == "cpu":
            self.threads = self.threads or torch.get_num_threads()
        own = {recipe.precision for recipe in self.recipes_named([self.task, *self.recipes])}
        if own == {"auto"} and not any(assignment.startswith("precision=") for assignment in self.set):
            self.set = [*self.set, f"precision={choose_precision('auto', device)}"]


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
