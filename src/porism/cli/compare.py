"""porism compare: several recipes, or all that a question needs, in one table and one report."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from porism.cli.options import TrainingOptions, new_folder, optional
from porism.errors import RecipeError

if TYPE_CHECKING:
    from rich.console import Console

    from porism.train.question import Question, Trial
    from porism.train.recipe import Recipe
    from porism.train.task import Task


@dataclass(kw_only=True)
class Compare(TrainingOptions):
    """Train several recipes on the same data and put them side by side.

    $ porism compare language elman lstm
    $ porism compare language elman lstm --seeds 5       means and intervals over five seeds
    $ porism compare images pooling-question             a question: recipes, settings and seeds that answer it
    $ porism compare language table-01 table-02 --data ptb/ --out ptb-table
    $ porism compare language table-01 table-02 --data ptb/ --out ptb-table --resume
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """What to learn: language, images, graphs, speech or words."""
    recipes: Annotated[Positional[list[str]], arg(metavar="RECIPE...|QUESTION")]
    """The recipes' names, or the name of one question."""
    seeds: Annotated[int | None, optional("N")] = None
    """How many seeds each is trained from, counted from --seed. Left out: one, or as many as a question asks for."""
    out: Annotated[Path | None, optional("FOLDER")] = None
    """The folder of the comparison, one run in it for each recipe and seed. Left out: a new one under runs/."""
    resume: Annotated[bool, optional()] = False
    """Keep what is done in --out, go on with what is not."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json
        from porism.report import write_report
        from porism.tasks import find

        kind = find(self.task)
        if self.resume and self.out is None:
            raise RecipeError("--resume needs --out, the folder of the comparison to go on with.")
        if self.seeds is not None and self.seeds < 1:
            raise RecipeError(f"--seeds takes a whole number from 1 on, got {self.seeds}.")
        question, wishes = self._wishes(kind)
        folder = self.out or new_folder(f"{self.task}-{question.name if question else 'compare'}")
        console = console_for(self.json)
        results = [self._trained(kind, trial, recipe, folder / name, console) for name, trial, recipe in wishes]
        paths = [folder / name for name, _, _ in wishes]
        report = write_report(paths, folder / "report.html", command=self._command(), question=question)
        self._tell(paths, question, console)
        console.print(f"report: {report}", highlight=False, soft_wrap=True)
        if self.json:
            print_json({"runs": results, "report": str(report)})
        return 0

    def _wishes(self, kind: "type[Task]") -> "tuple[Question | None, list[tuple[str, Trial, Recipe]]]":
        """Every run's folder, trial and recipe. All are checked before the first is trained."""
        from porism.train.question import Question
        from porism.train.recipe import nearest, override, pick

        known = [*kind.recipes, *kind.questions]
        if not self.recipes:
            raise RecipeError(f"which recipes? Choose from {', '.join(known)}.")
        asked = [name for name in self.recipes if name in kind.questions]
        if asked and len(self.recipes) > 1:
            raise RecipeError(f"{asked[0]} is a question, which names its own recipes. Give it alone.")
        if unknown := [name for name in self.recipes if name not in known]:
            raise RecipeError(f"{kind.name} has no recipe {unknown[0]!r}. {nearest(unknown[0], known)}")
        question = kind.questions[asked[0]] if asked else None
        plan = question or Question("compare", "", tuple(dict.fromkeys(self.recipes)), seeds=1)
        wishes = []
        for trial in plan.trials(self.seed, self.seeds):
            recipe = override(pick(kind.recipes, trial.recipe, kind.name), [*trial.assignments, *self.set])
            alone = question is None and (self.seeds or 1) == 1
            wishes.append((trial.recipe if alone else trial.folder, trial, recipe))
        return question, wishes

    def _trained(
        self, kind: "type[Task]", trial: "Trial", recipe: "Recipe", path: Path, console: "Console"
    ) -> dict[str, Any]:
        from porism.train.run import RECIPE, Run

        # Where runs are many, a page for each would take longer than some of them do.
        report = path.name == trial.recipe
        if self.resume and (path / RECIPE).exists():
            return Run.open(path).metrics() or self.train_on(path, console, report)
        return self.train_new(kind, recipe, path, console, [*trial.assignments, *self.set], trial.seed, report)

    def _tell(self, paths: list[Path], question: "Question | None", console: "Console") -> None:
        """The tables for a terminal: one row a run, or one a model where there are many runs of each."""
        from porism.report import answer, contests, costs_table, entries_of, has_seeds, read_run, seeds_table, table

        records = [read_run(path) for path in paths]
        rounds = contests(entries_of(records))
        if has_seeds(rounds):
            for contest in rounds:
                console.print(seeds_table(contest))
        else:
            console.print(table(records, console.width))
            if costs := costs_table(records):
                console.print(costs)
        if question is not None:
            console.print(question.about, style="bold", highlight=False)
            for sentence in answer(question, records).sentences:
                console.print(sentence, highlight=False, soft_wrap=True)

    def _command(self) -> str:
        words = ["porism", "compare", self.task, *self.recipes]
        for assignment in self.set:
            words += ["--set", assignment]
        if self.data is not None:
            words += ["--data", self.data]
        if self.seeds is not None:
            words += ["--seeds", str(self.seeds)]
        return shlex.join([*words, "--device", self.device, "--seed", str(self.seed)])
