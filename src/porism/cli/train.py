"""porism train: one recipe from data to report."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from porism.cli.limits import check_path
from porism.cli.options import TrainingOptions, cores, optional, where_and_how
from porism.errors import RecipeError, RunError
from porism.runs.run import new_folder
from porism.training.distributed.launch import Launch

if TYPE_CHECKING:
    from rich.console import Console

    from porism.runs.recipe import Recipe
    from porism.runs.run import RunFolder
    from porism.training.loop import Training
    from porism.training.own_model import OwnModel
    from porism.training.request import TrainingRequest
    from porism.training.task import Task


@dataclass(kw_only=True)
class TrainCommand(TrainingOptions):
    """Train a model, evaluate it and write a report.

    $ porism recipes language                        what there is to choose from
    $ porism train language                          the default recipe on the embedded text
    $ porism train language table-02 --data ptb/     a recipe on your own data
    $ porism train language elman --hidden-size 200 --epochs 5
    $ porism train language elman --help             every field of the recipe, with its value
    $ porism train language elman --epochs 5 --show  what it would do
    $ porism train images --data pictures/ --tune 5  search on valid for five minutes, then train what it chose
    $ porism train images --model net.py:Net         a module of your own, or a function that makes one
    $ porism train --resume runs/language-elman      go on after Ctrl-C or a crash
    $ porism train --resume runs/language-elman --epochs 50      and for longer than it was begun for
    """

    task: Annotated[Positional[str | None], optional("TASK", str)] = None
    """What to learn: language, images, graphs, speech, words, sentiment or supervised."""
    recipe: Annotated[Positional[str | None], optional("RECIPE", str)] = None
    """A recipe's name, or the recipe.toml of an earlier run. Left out: the task's default."""
    show: Annotated[bool, optional()] = False
    """Print every field with its value and meaning, and what the run would do, and train nothing."""
    fast_dev_run: Annotated[bool, optional()] = False
    """One step of training and all that follows, to see that it works; nothing is kept."""
    tune: Annotated[float | None, optional("MINUTES", float)] = None
    """Search for so many minutes before, on valid: the learning rate first, then what the task can tune. Fields that
    are given stay as they are."""
    own_model: str | None = field(default=None, init=False)
    """The module of --model FILE.py:Name, which takes the place of the recipe's."""
    recipes: Annotated[bool, optional()] = False
    """List the task's recipes instead of training."""
    out: Annotated[Path | None, optional("FOLDER", Path)] = None
    """The folder of the run. Left out: a new one under runs/."""
    resume: Annotated[Path | None, optional("RUN", Path)] = None
    """Go on with this run. What was set when it began stays, but for --epochs and --patience: with more of them it goes
    on for longer."""

    shard: Annotated[bool, optional()] = False
    """Of processes that torchrun starts, let each hold a part of every parameter, of its gradient and of the
    optimizer's memory (FSDP2), for models that one process cannot hold in training."""

    @classmethod
    def recipes_named(cls, words: Sequence[str]) -> "list[Recipe]":
        """The recipe whose fields the words may set, and whose values the help shows: the one that is named, that of
        the run which is resumed, or the task's default. None where no task is named."""
        from porism.cli.words import field_options, name_of, option_value, own_model, positional_words, verb_options
        from porism.runs.recipe import from_fields, pick
        from porism.runs.run import RunFolder, read_recipe
        from porism.tasks import choices

        flags = verb_options(cls)
        task = next(iter(positional_words(words, flags)), None)
        resumed = option_value(words, "--resume")
        if resumed is not None and "--recipes" not in words:
            check_path(resumed)
            run = RunFolder.open(Path(resumed))
            known = choices(run.facts.task)
            return [from_fields(type(known.recipes[known.default]), run.fields)]
        if task is None:
            if any(word.startswith("--") and name_of(word) not in (*flags, "--help") for word in words):
                raise cls._no_task()
            return []
        known = choices(task)
        default = known.recipes[known.default]
        _, *names = positional_words(words, flags | field_options(type(default)))
        if not names or names[0] in known.experiments or (own_model(words) and names[0] not in known.recipes):
            return [default]
        if names[0].endswith(".toml"):
            check_path(names[0])
            return [from_fields(type(default), read_recipe(Path(names[0]))[1])]
        return [pick(known.recipes, names[0], task)]

    def run(self) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.report.comparison import entries_of, group_runs
        from porism.report.summary import one_seed
        from porism.report.table import table
        from porism.runs.record import read_run

        if self.recipes:
            return self._list_recipes()
        self.check()
        console = console_for(self.json, patient=True)
        self._check_tune()
        self._check_restarts()
        self._check_shard()
        if self.resume is not None:
            if self.show or self.fast_dev_run or self.own_model:
                raise RecipeError("--resume goes on with a run as it is. Leave --show, --fast-dev-run and --model out.")
            result = self._train_on(self.resume, console)
        else:
            self.check_new()
            request = self._requested()
            if self.fast_dev_run:
                return self._try_out(request, console)
            out = self.out or new_folder(f"{request.kind.name}-{request.recipe.name}")
            if self.show:
                return self._show(request, out)
            self.out = out
            if self.tune is not None:
                request = self._tuned(request, self.tune, console, out)
            result = self.train_new(request, out, console)
            if request.tuning is not None:
                result = {**result, "tuning": dataclasses.asdict(request.tuning)}
        folder = Path(result["run"])
        records = [read_run(folder)]
        console.print(table(records, console.width))
        for group in group_runs(entries_of(records)):
            if sentence := one_seed(group):
                tell(console, sentence)
        tell(console, f"report: {folder / 'report.html'}")
        if self.json:
            print_json(result)
        return 0

    def _check_tune(self) -> None:
        """Refuse a search that cannot be, before anything is read."""
        if self.tune is None:
            return
        from porism.training.tuning import check_minutes

        check_minutes(self.tune)
        if self.resume is not None or self.show or self.fast_dev_run:
            raise RecipeError("--tune is for a new run. Leave --resume, --show and --fast-dev-run out.")
        if Launch.read().size > 1:
            raise RecipeError("--tune searches in one process. Search without torchrun, then train what it chose.")

    def _check_restarts(self) -> None:
        """Go on with the run that was begun, where torchrun has lost a process and started all of them anew."""
        from porism.runs.run import RECIPE

        launch = Launch.read()
        if launch.size > 1:
            from porism.training.distributed.processes import current

            # torchrun counts restarts on each machine; the processes together know of all.
            launch = current().launch
        if self.resume is None and not (self.show or self.fast_dev_run):
            if launch.max_restarts and self.out is None:
                raise RecipeError("torchrun --max-restarts needs --out FOLDER, by which a restart finds the run.")
            if launch.restarts and self.out is not None and (self.out / RECIPE).is_file():
                self.resume = self.out

    def _check_shard(self) -> None:
        """Refuse parts of a model without processes to hold them. A run that has shrunk to one process may go on."""
        if self.shard and Launch.read() == Launch():
            raise RecipeError(
                "--shard spreads a model over the processes that torchrun starts, and this is one. Leave it out, or "
                "start several: torchrun --standalone --nproc-per-node 2 -m porism train ..."
            )
        if self.shard and self.own_model is not None:
            raise RecipeError("--shard takes the models of recipes. Leave it out for a model of your own.")
        if self.shard:
            from porism.runs.run import RunFolder
            from porism.tasks import TASKS, find

            task = self.task if self.resume is None else RunFolder.open(self.resume).facts.task
            if task is not None and not find(task).trains_in_shards:
                known = ", ".join(name for name in TASKS if find(name).trains_in_shards)
                raise RecipeError(f"{task} does not train in shards. Leave --shard out; tasks that do: {known}.")

    def _complete(self, training: "Training", console: "Console", report: bool) -> dict[str, Any]:
        training.shard = self.shard
        return super()._complete(training, console, report)

    def _tuned(self, request: "TrainingRequest", minutes: float, console: "Console", out: Path) -> "TrainingRequest":
        """The same by the recipe that a search chooses."""
        from porism.cli.output import tell
        from porism.runs.recipe import assignments
        from porism.runs.run import refuse_taken
        from porism.training.tuning import TuningSearch

        refuse_taken(out)
        tell(console, f"tuning {request.kind.name} {request.recipe.name} on valid for {minutes:g} minutes")
        chosen, tuning = TuningSearch(request, minutes).run(lambda line: tell(console, line))
        overrides = [*request.overrides, *assignments(request.recipe, chosen)]
        return dataclasses.replace(request, recipe=chosen, overrides=overrides, tuning=tuning)

    def go_on(self) -> str | None:
        """The command that goes on with the run, once there is one."""
        from porism.runs.run import RECIPE

        run = self.resume or self.out
        return Launch.read().resuming(run, shard=self.shard) if run and (run / RECIPE).is_file() else None

    def _list_recipes(self) -> int:
        from porism.cli.output import console_for, print_json
        from porism.cli.recipes import listed, print_recipes

        if self.resume is not None:
            raise RecipeError("--recipes lists what can be trained, and --resume trains. Give one of them.")
        console, kind = console_for(self.json), self._kind()
        known = listed([kind.name])
        print_recipes(console, known)
        if self.json:
            print_json(known)
        return 0

    def _kind(self) -> "type[Task]":
        from porism.tasks import find

        if self.task is None:
            raise self._no_task()
        return find(self.task)

    @staticmethod
    def _no_task() -> RecipeError:
        from porism.tasks import TASKS

        return RecipeError(f"which task? Write porism train TASK, with a task from: {', '.join(TASKS)}.")

    def _requested(self) -> "TrainingRequest":
        """What the command asks for, with the assignments that make the recipe of the one of its name."""
        from porism.runs.recipe import assignments, check_finite, override, pick

        kind = self._kind()
        if self.recipe in kind.experiments:
            raise RecipeError(
                f"{self.recipe} is an experiment, which takes several runs: porism compare {kind.name} {self.recipe}"
            )
        if self.own_model is not None:
            return self._with_own_model(kind, self.own_model)
        if not self._is_file():
            base = pick(kind.recipes, self.recipe or kind.default_recipe, kind.name)
            return self._request(kind, override(base, self.set), self.set)
        recipe = override(self._recipe_of_file(kind), self.set)
        check_finite(recipe)
        known = kind.recipes.get(recipe.name)
        return self._request(kind, recipe, self.set if known is None else assignments(known, recipe))

    def _with_own_model(self, kind: "type[Task]", reference: str) -> "TrainingRequest":
        """The same for a module of the user's own, by the recipe's settings of training. Its run has its name."""
        from porism.api.recipes import Settings
        from porism.runs.recipe import fields_set

        fields = fields_set(self.set)
        loss = fields.pop("loss", None) if kind.name == "supervised" else None
        named = self.recipe if self.recipe in kind.recipes or self._is_file() else None
        chosen = Settings.of(kind.name, named, reference, None if loss == "model" else loss, None, fields)
        return self._request(kind, chosen.recipe, chosen.overrides, chosen.model)

    def _request(
        self, kind: "type[Task]", recipe: "Recipe", overrides: Sequence[str], model: "OwnModel | None" = None
    ) -> "TrainingRequest":
        from porism.training.request import TrainingRequest
        from porism.training.task import UserObjects

        return TrainingRequest(
            kind,
            recipe,
            overrides,
            self.source(kind.name),
            UserObjects(model=model),
            seed=self.seed_or_default,
            device=self.device_or_default,
            threads=self.threads,
            baselines=self.baselines,
        )

    def _try_out(self, request: "TrainingRequest", console: "Console") -> int:
        """One step and all that follows, in a folder that is deleted."""
        from tempfile import TemporaryDirectory

        from porism.api.train import for_one_epoch, of_one_step
        from porism.cli.output import print_json, tell

        if self.out is not None:
            raise RecipeError("--fast-dev-run keeps nothing: leave --out out.")
        with TemporaryDirectory(prefix="porism-") as folder:
            kind, recipe = request.kind, request.recipe
            one_step = dataclasses.replace(request, kind=of_one_step(kind), recipe=for_one_epoch(recipe))
            result = self.train_new(one_step, Path(folder) / "run", console)
        tell(console, f"{kind.name} {recipe.name} works: one step, its evaluation and its report. Nothing was kept.")
        if self.json:
            print_json({**result, "run": None})
        return 0

    def _show(self, request: "TrainingRequest", out: Path) -> int:
        """All fields, and what the run would do."""
        from porism.cli.output import console_for, print_json, tell
        from porism.cli.recipes import print_fields
        from porism.runs.recipe import settings
        from porism.runs.run import RunFacts
        from porism.training.device import choose_device, choose_precision

        device, console = choose_device(request.device), console_for(self.json)
        kind, recipe = request.kind, request.recipe
        facts = RunFacts(
            task=kind.name,
            recipe=recipe.name,
            seed=request.seed,
            device=str(device),
            precision=choose_precision(recipe, device),
            threads=self.threads or cores(),
            fingerprint="",
            source=request.source,
            overrides=list(request.overrides),
            model=self.own_model,
            baselines=None if self.baselines else False,
        )
        rows = print_fields(console, recipe)
        ends = (
            f"until {recipe.patience} validations bring nothing better"
            if recipe.restore_best_weights
            else "all of them"
        )
        tell(console, f"Trains {kind.name} {recipe.name} on {facts.source or 'the embedded data'}, seed {facts.seed}.")
        most = f"At most {recipe.epochs} epoch{'s' * (recipe.epochs != 1)}"
        tell(console, f"{most}, {ends}, on {where_and_how(facts)}, into {out}.")
        command = facts.repeat()
        tell(console, f"The same again: {command}")
        if self.json:
            about = {"task": kind.name, "recipe": recipe.name, "run": str(out), "command": command}
            texts = {row["field"]: row["meaning"] for row in rows}
            print_json({**about, "seed": facts.seed, "device": facts.device, "precision": facts.precision,
                        "threads": facts.threads, "fields": settings(recipe), "meanings": texts})  # fmt: skip
        return 0

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
        from porism.runs.difference import differences
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
                f"{folder} cannot go on as another run: {'; '.join(found)}. A resumed run takes --epochs and "
                "--patience; leave the rest out, or start a new run."
            )
        lengths = {name: getattr(requested, name) for name in LENGTHS}
        return self.train_on(run, console, recipe=dataclasses.replace(recipe, **lengths))

    def _differences(self, run: "RunFolder") -> list[str]:
        """What is given beside the recipe's fields, and differs from what the run holds."""
        from porism.runs.difference import differences, facts_of
        from porism.training.device import choose_device

        name = None if self.recipe is None or self._is_file() else self.recipe
        given: dict[str, Any] = {"task": self.task, "recipe": name, "seed": self.seed, "threads": self.threads}
        if self.data is not None:
            given["data"] = self.source(run.facts.task)
        if self.device is not None:
            given["device"] = str(choose_device(self.device))
        if self.out is not None and self.out.resolve() != run.path.resolve():
            given["folder"] = str(self.out)
        if not self.baselines:
            given["baselines"] = False
        held = facts_of(run) | {"folder": str(run.path), "baselines": run.facts.baselines is not False}
        return differences(held, {name: value for name, value in given.items() if value is not None})
