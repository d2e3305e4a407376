"""porism train: one recipe from data to report."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from porism.cli.limits import check_path
from porism.cli.options import TrainingOptions, new_folder, optional
from porism.errors import RecipeError, RunError

if TYPE_CHECKING:
    from rich.console import Console

    from porism.runs.recipe import Recipe
    from porism.runs.run import RunFolder
    from porism.training.task import Task


@dataclass(kw_only=True)
class TrainCommand(TrainingOptions):
    """Train a model, evaluate it and write a report.

    $ porism train language --recipes                what there is to choose from
    $ porism train language                          the default recipe on the embedded text
    $ porism train language table-02 --data ptb/     a recipe on your own data
    $ porism train language elman --set hidden_size=200 --set epochs=5
    $ porism train --resume runs/language-elman      go on after Ctrl-C or a crash
    $ porism train --resume runs/language-elman --set epochs=50      and for longer than it was begun for
    """

    task: Annotated[Positional[str | None], optional("TASK", str)] = None
    """What to learn: language, images, graphs, speech, words or sentiment."""
    recipe: Annotated[Positional[str | None], optional("RECIPE", str)] = None
    """A recipe's name, or the recipe.toml of an earlier run. Left out: the task's default."""
    recipes: Annotated[bool, optional()] = False
    """List the task's recipes instead of training."""
    out: Annotated[Path | None, optional("FOLDER", Path)] = None
    """The folder of the run. Left out: a new one under runs/."""
    resume: Annotated[Path | None, optional("RUN", Path)] = None
    """Go on with this run. What was set when it began stays, but for --set epochs=N and --set patience=N: with more of
    them it goes on for longer."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.report.table import table
        from porism.runs.record import read_run

        if self.recipes:
            return self._list_recipes()
        self.check()
        console = console_for(self.json, patient=True)
        if self.resume is not None:
            result = self._train_on(self.resume, console)
        else:
            self.check_new()
            kind, recipe, overrides = self._requested()
            out = self.out or new_folder(f"{kind.name}-{recipe.name}")
            result = self.train_new(kind, recipe, out, console, overrides, self.seed_or_default)
        folder = Path(result["run"])
        console.print(table([read_run(folder)], console.width))
        tell(console, f"report: {folder / 'report.html'}")
        if self.json:
            print_json(result)
        return 0

    def _list_recipes(self) -> int:
        from rich.table import Table

        from porism.cli.output import console_for, print_json, tell
        from porism.runs.recipe import Recipe

        if self.resume is not None:
            raise RecipeError("--recipes lists what can be trained, and --resume trains. Give one of them.")
        console, kind = console_for(self.json), self._kind()
        shown = Table("recipe", "what it is")
        known: dict[str, list[dict[str, str]]] = {}
        for name, choices in (("recipes", kind.recipes), ("questions", kind.experiments)):
            known[name] = [
                {"name": choice.name, "about": choice.description if isinstance(choice, Recipe) else choice.about}
                for choice in choices.values()
            ]
            for choice in known[name]:
                shown.add_row(*choice.values())
        console.print(shown)
        if kind.experiments:
            tell(console, f"To run an experiment: porism compare {kind.name} {next(iter(kind.experiments))}")
        if self.json:
            print_json(known)
        return 0

    def _kind(self) -> "type[Task]":
        from porism.tasks import TASKS, find

        if self.task is None:
            raise RecipeError(f"which task? Write porism train TASK, with a task from: {', '.join(TASKS)}.")
        return find(self.task)

    def _requested(self) -> "tuple[type[Task], Recipe, list[str]]":
        """The task, the recipe, and the assignments that make it of the one of its name."""
        from porism.runs.recipe import assignments, check_finite, override, pick

        kind = self._kind()
        if self.recipe in kind.experiments:
            raise RecipeError(
                f"{self.recipe} is an experiment, which takes several runs: porism compare {kind.name} {self.recipe}"
            )
        if not self._is_file():
            return kind, override(pick(kind.recipes, self.recipe or kind.default_recipe, kind.name), self.set), self.set
        recipe = override(self._recipe_of_file(kind), self.set)
        check_finite(recipe)
        known = kind.recipes.get(recipe.name)
        return kind, recipe, self.set if known is None else assignments(known, recipe)

    def _is_file(self) -> bool:
        return self.recipe is not None and self.recipe.endswith(".toml")

    def _recipe_of_file(self, kind: "type[Task]") -> "Recipe":
        from porism.runs.run import read_recipe
        from porism.training.session import recipe_from

        file = str(self.recipe)
        check_path(file)
        return recipe_from(kind, read_recipe(Path(file))[1])

    def _train_on(self, folder: Path, console: "Console") -> dict[str, Any]:
        """Go on with a run, for longer where that is requested. Whatever else differs from the run is refused."""
        from porism.cli.difference import differences
        from porism.runs.recipe import override, settings
        from porism.runs.run import RunFolder
        from porism.tasks import find
        from porism.training.lengthen import LENGTHS
        from porism.training.session import recipe_from

        run = RunFolder.open(folder)
        kind = find(run.facts.task)
        recipe = recipe_from(kind, run.fields)
        found = self._differences(run)
        requested = recipe
        if self.task in (None, run.facts.task):
            requested = override(self._recipe_of_file(kind) if self._is_file() else recipe, self.set)
            fixed = {name: value for name, value in settings(requested).items() if name not in LENGTHS}
            found += differences(settings(recipe), fixed)
        if found:
            raise RunError(
                f"{folder} cannot go on as another run: {'; '.join(found)}. A resumed run takes --set epochs=N and "
                "--set patience=N; leave the rest out, or start a new run."
            )
        lengths = {name: getattr(requested, name) for name in LENGTHS}
        return self.train_on(run, console, recipe=dataclasses.replace(recipe, **lengths))

    def _differences(self, run: "RunFolder") -> list[str]:
        """What is given beside the recipe's fields, and differs from what the run holds."""
        from porism.cli.difference import differences, facts_of
        from porism.training.device import choose_device

        name = None if self.recipe is None or self._is_file() else self.recipe
        given: dict[str, Any] = {"task": self.task, "recipe": name, "seed": self.seed, "threads": self.threads}
        if self.data is not None:
            given["data"] = self.source(run.facts.task)
        if self.device is not None:
            given["device"] = str(choose_device(self.device))
        if self.out is not None and self.out.resolve() != run.path.resolve():
            given["folder"] = str(self.out)
        held = facts_of(run) | {"folder": str(run.path)}
        return differences(held, {name: value for name, value in given.items() if value is not None})
