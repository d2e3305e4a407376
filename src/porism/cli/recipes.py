"""porism recipes: what can be trained, and what each recipe sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import Positional

from porism.cli.options import Json, optional


@dataclass(kw_only=True)
class RecipesCommand:
    """List the recipes of all tasks, those of one, or the fields of one recipe with their values and meanings.

    $ porism recipes
    $ porism recipes language
    $ porism recipes language elman
    """

    task: Annotated[Positional[str | None], optional("TASK", str)] = None
    """A task's name. Left out: all of them."""
    recipe: Annotated[Positional[str | None], optional("RECIPE", str)] = None
    """A recipe's name. Left out: the recipes and experiments of the task."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json

        if self.task is not None and self.recipe is not None:
            return self._fields(self.task, self.recipe)
        from porism.tasks import TASKS

        console = console_for(self.json)
        known = listed([self.task] if self.task is not None else list(TASKS))
        print_recipes(console, known)
        if self.json:
            print_json(known)
        return 0

    def _fields(self, task: str, name: str) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.runs.recipe import pick, settings
        from porism.tasks import choices

        console, known = console_for(self.json), choices(task)
        if name in known.experiments:
            experiment = known.experiments[name]
            tell(console, f"{name}: {experiment.about} To run it: porism compare {task} {name}")
            if self.json:
                over = {field: list(values) for field, values in experiment.over.items()}
                about = {"task": task, "name": name, "about": experiment.about, "over": over}
                print_json({**about, "recipes": list(experiment.recipes), "seeds": experiment.seeds})
            return 0
        recipe = pick(known.recipes, name, task)
        tell(console, f"{name}: {recipe.description}")
        rows = print_fields(console, recipe)
        if self.json:
            about = {"task": task, "name": name, "about": recipe.description}
            print_json(
                {**about, "fields": settings(recipe), "meanings": {row["field"]: row["meaning"] for row in rows}}
            )
        return 0


def listed(tasks: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Names and descriptions of the tasks' recipes and experiments, which scripts know as questions."""
    from porism.tasks import choices

    known: dict[str, list[dict[str, str]]] = {"recipes": [], "questions": []}
    for task in tasks:
        of_task = choices(task)
        known["recipes"] += [
            {"task": task, "name": name, "about": recipe.description} for name, recipe in of_task.recipes.items()
        ]
        known["questions"] += [
            {"task": task, "name": name, "about": experiment.about} for name, experiment in of_task.experiments.items()
        ]
    return known


def print_recipes(console: Any, known: dict[str, list[dict[str, str]]]) -> None:
    """A table of them, and how to train one."""
    from rich.table import Table

    from porism.cli.output import tell

    rows = [*known["recipes"], *known["questions"]]
    shown = Table("task", "recipe", "what it is")
    for row in rows:
        shown.add_row(row["task"], row["name"], row["about"])
    console.print(shown)
    first = rows[0]
    tell(console, f"To train one: porism train {first['task']} {first['name']}")
    tell(console, f"What one sets: porism recipes {first['task']} {first['name']}")
    for question in known["questions"][:1]:
        tell(console, f"To run an experiment: porism compare {question['task']} {question['name']}")


def print_fields(console: Any, recipe: Any) -> list[dict[str, str]]:
    """A table of a recipe's fields, their values and meanings, which is returned too."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from porism.runs.field_help import field_names, meanings, shown, values

    kind = type(recipe)
    texts, takes = meanings(kind), values(kind)
    rows = [
        {"field": name, "value": shown(getattr(recipe, name)), "takes": takes[name], "meaning": texts[name]}
        for name in field_names(kind)
    ]
    drawn = Table("field", "value", "takes", "meaning", box=SIMPLE_HEAD)
    for row in rows:
        drawn.add_row(*row.values())
    console.print(drawn)
    return rows
