"""porism train: one recipe from data to report."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from porism.cli.options import TrainingOptions, new_folder, optional
from porism.errors import RecipeError

if TYPE_CHECKING:
    from rich.console import Console

    from porism.train.recipe import Recipe
    from porism.train.task import Task


@dataclass(kw_only=True)
class Train(TrainingOptions):
    """Train a model, evaluate it and write a report.

    $ porism train language --recipes                what there is to choose from
    $ porism train language                          the default recipe on the embedded text
    $ porism train language table-02 --data ptb/     a recipe on your own data
    $ porism train language elman --set hidden=200 --set epochs=5
    $ porism train --resume runs/language-elman      go on after Ctrl-C or a crash
    """

    task: Annotated[Positional[str | None], optional("TASK")] = None
    """What to learn: language, images, graphs, speech or words."""
    recipe: Annotated[Positional[str | None], optional("RECIPE")] = None
    """A recipe's name, or the recipe.toml of an earlier run. Left out: the task's default."""
    recipes: Annotated[bool, optional()] = False
    """List the task's recipes, and train nothing."""
    out: Annotated[Path | None, optional("FOLDER")] = None
    """The folder of the run. Left out: a new one under runs/."""
    resume: Annotated[Path | None, optional("RUN")] = None
    """Go on with this run; what was set when it began stays."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json
        from porism.report import read_run, table

        console = console_for(self.json)
        if self.recipes:
            return self._list_recipes(console)
        if self.resume is not None:
            result = self.train_on(self.resume, console)
        else:
            kind, recipe = self._wish()
            result = self.train_new(kind, recipe, self.out or new_folder(f"{kind.name}-{recipe.name}"), console)
        folder = Path(result["run"])
        console.print(table([read_run(folder)], console.width))
        console.print(f"report: {folder / 'report.html'}", highlight=False, soft_wrap=True)
        if self.json:
            print_json(result)
        return 0

    def _list_recipes(self, console: "Console") -> int:
        from rich.table import Table

        from porism.cli.output import print_json

        kind = self._kind()
        shown = Table("recipe", "what it is")
        known: dict[str, list[dict[str, str]]] = {}
        for name, choices in (("recipes", kind.recipes), ("questions", kind.questions)):
            known[name] = [{"name": choice.name, "about": choice.about} for choice in choices.values()]
            for choice in known[name]:
                shown.add_row(*choice.values())
        console.print(shown)
        if kind.questions:
            console.print(f"Questions take several runs: porism compare {kind.name} {next(iter(kind.questions))}")
        if self.json:
            print_json(known)
        return 0

    def _kind(self) -> "type[Task]":
        from porism.tasks import TASKS, find

        if self.task is None:
            raise RecipeError(f"which task? Write porism train TASK, with a task from: {', '.join(TASKS)}.")
        return find(self.task)

    def _wish(self) -> "tuple[type[Task], Recipe]":
        from porism.train.recipe import override, pick
        from porism.train.run import read_recipe
        from porism.train.session import recipe_from

        kind = self._kind()
        if self.recipe in kind.questions:
            raise RecipeError(
                f"{self.recipe} is a question, which takes several runs: porism compare {kind.name} {self.recipe}"
            )
        if self.recipe is not None and self.recipe.endswith(".toml"):
            recipe = recipe_from(kind, read_recipe(Path(self.recipe))[1])
        else:
            recipe = pick(kind.recipes, self.recipe or kind.default_recipe, kind.name)
        return kind, override(recipe, self.set)
