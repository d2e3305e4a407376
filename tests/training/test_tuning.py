"""A search before a training: what it tries, that it never sees test, what is kept of it, and what it refuses."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import porism
from porism.errors import DivergedError, Interrupted, RecipeError, RunError
from porism.report.numbers import duration
from porism.report.page import page
from porism.runs.recipe import with_fields
from porism.runs.record import read_run
from porism.runs.tuning import Factors, FieldChoices, Tuning, TuningTrial
from porism.tasks import TASKS, find
from porism.tasks.supervised.recipes import RECIPES
from porism.tasks.supervised.task import Supervised
from porism.training import tuning
from porism.training.request import TrainingRequest
from porism.training.tuning import TuningSearch, next_fields, shortened, trial_epochs, tunable

MLP = dataclasses.replace(RECIPES["mlp"], epochs=3)
MINUTES = 5.0


class WithoutTest(Supervised):
    """The task, with a test split that must not be looked at."""

    def evaluate(self, model: Any, split: str) -> dict[str, float]:
        assert split == "valid", f"the search looked at {split}"
        return super().evaluate(model, split)

    def outcomes(self, model: Any, split: str) -> list[bool]:
        raise AssertionError(f"the search looked at {split}")


def search(**more: Any) -> TuningSearch:
    request = TrainingRequest(WithoutTest, MLP, device="cpu", threads=1)
    return TuningSearch(dataclasses.replace(request, **more), MINUTES, most_trials=7)


@pytest.fixture(scope="module")
def found() -> tuple[Any, Tuning, list[str]]:
    lines: list[str] = []
    return *search().run(lines.append), lines


def test_the_recipe_comes_first_then_its_rate_then_other_fields(found: tuple[Any, Tuning, list[str]]) -> None:
    _, tuned, lines = found
    rates = [{"learning_rate": rate} for rate in (0.000333, 0.003, 0.0001, 0.01)]
    assert [trial.fields for trial in tuned.trials[:5]] == [{}, *rates]
    assert all(set(trial.fields) <= set(Supervised.tunable) for trial in tuned.trials)
    assert len({json.dumps(trial.fields) for trial in tuned.trials}) == 7
    assert [line.split(":")[0] for line in lines] == [*(f"trial {n}" for n in range(1, 8)), "tuned"]


def test_the_best_on_valid_is_chosen_and_trained_in_full(found: tuple[Any, Tuning, list[str]]) -> None:
    recipe, tuned, _ = found
    values = {trial.number: trial.value or 0.0 for trial in tuned.trials}
    assert values[tuned.chosen] == max(values.values())
    assert tuned.chosen == min(number for number, value in values.items() if value == max(values.values()))
    assert recipe == with_fields(MLP, tuned.fields)
    assert (tuned.split, tuned.metric, tuned.lower_is_better) == ("valid", "accuracy", False)


def test_the_same_seed_and_number_of_trials_give_the_same_search(found: tuple[Any, Tuning, list[str]]) -> None:
    again = search().run()[1]
    assert [(trial.fields, trial.value) for trial in again.trials] == [
        (trial.fields, trial.value) for trial in found[1].trials
    ]


def made(values: Sequence[float | None], lower: bool = False) -> Tuning:
    trials = tuple(
        TuningTrial(number, {"learning_rate": 0.001 * number} if number > 1 else {}, value, 1.0)
        for number, value in enumerate(values, 1)
    )
    return Tuning(minutes=1, seed=1, metric="loss", lower_is_better=lower, epochs=3, trials=trials)


@pytest.mark.parametrize(("lower", "best"), [(True, 3), (False, 2)])
def test_what_is_best_depends_on_the_metric_and_what_diverged_is_not(lower: bool, best: int) -> None:
    chosen = tuning.best_trial(made([None, 0.5, 0.2, 0.5, None, 0.2], lower))
    assert chosen is not None
    assert chosen.number == best


def test_a_draw_depends_on_the_seed_and_stays_around_the_best() -> None:
    six = made([0.1, 0.2, 0.9, 0.3, 0.2])
    drawn = {seed: next_fields(MLP, Supervised.tunable, six, seed) for seed in range(6)}
    assert drawn[1] == next_fields(MLP, Supervised.tunable, six, 1)
    assert len({json.dumps(fields) for fields in drawn.values()}) > 1
    rates = {fields.get("learning_rate", 0.001) for fields in drawn.values() if fields is not None}
    assert rates <= set(tuning.NEAR.of(0.003))


def test_a_draw_that_cannot_be_is_drawn_again() -> None:
    recipe = find("sentiment").recipes["attention"]
    space = {"hidden_size": FieldChoices((recipe.hidden_size + 1, 2 * recipe.hidden_size))}  # type: ignore[attr-defined]
    tried = dataclasses.replace(made([0.5]), metric="accuracy")
    assert next_fields(recipe, space, tried, 1) == {"hidden_size": 128}
    assert next_fields(recipe, {"hidden_size": FieldChoices((65,))}, tried, 1) is None


def test_a_trial_is_short_and_warms_up_as_long_a_share() -> None:
    long = dataclasses.replace(MLP, epochs=40, warmup_steps=100, max_seconds=50.0)
    assert trial_epochs(long) == 8
    short = shortened(long)
    assert (short.epochs, short.warmup_steps, short.max_seconds) == (8, 20, 10.0)
    assert trial_epochs(dataclasses.replace(MLP, epochs=2)) == 2
    assert trial_epochs(dataclasses.replace(MLP, epochs=9)) == 3


def test_fields_that_the_user_sets_stay() -> None:
    assert "learning_rate" not in tunable(Supervised, MLP, ["learning_rate"])
    assert next_fields(MLP, tunable(Supervised, MLP, ["learning_rate"]), made([0.5]), 1) is not None
    with pytest.raises(RecipeError, match="nothing is left to tune of supervised"):
        tunable(Supervised, MLP, list(Supervised.tunable))
    assert set(tunable(Supervised, MLP, own_model=True)) == {"learning_rate", "weight_decay"}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_tunes_fields_that_its_default_recipe_has(task: str) -> None:
    kind = find(task)
    recipe = kind.recipes[kind.default_recipe]
    assert next(iter(kind.tunable)) == "learning_rate"
    for name, values in kind.tunable.items():
        taken = 0
        for value in values.of(getattr(recipe, name)):
            try:
                assert getattr(with_fields(recipe, {name: value}), name) == value
                taken += 1
            except RecipeError:
                continue
        assert taken, f"{task} takes no value of {name}"


def test_multiples_keep_the_type_of_a_field() -> None:
    assert Factors((0.5, 2)).of(3) == [2, 6]
    assert Factors((0.1,)).of(1) == [1]
    assert Factors((1 / 3,)).of(0.005) == [0.00167]


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
def test_no_time_at_all_is_refused(minutes: float) -> None:
    with pytest.raises(RecipeError, match="takes minutes above 0, got"):
        TuningSearch(TrainingRequest(Supervised, MLP), minutes).run()


def test_less_time_than_one_trial_is_refused_in_a_line() -> None:
    with pytest.raises(
        RecipeError, match=r"1e-06 minutes of tuning are shorter than one trial: 3 epochs of mlp"
    ) as told:
        TuningSearch(TrainingRequest(Supervised, MLP, device="cpu", threads=1), 1e-6).run()
    assert "\n" not in str(told.value)


def test_a_trial_that_time_ends_is_kept_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter(["done", "time over"])

    def tried(self: TuningSearch, number: int, fields: dict[str, Any], end: float) -> tuple[TuningTrial, str, bool]:
        outcome: Any = next(outcomes)
        return TuningTrial(number, fields, 0.5 if outcome == "done" else None, 1.0, outcome), "accuracy", False

    monkeypatch.setattr(TuningSearch, "_tried", tried)
    recipe, tuned = search().run()
    assert recipe == MLP
    assert [trial.outcome for trial in tuned.trials] == ["done", "time over"]


def test_trials_that_diverge_are_outcomes_and_all_of_them_an_error() -> None:
    wild = dataclasses.replace(MLP, learning_rate=1e30, optimizer="sgd")
    lines: list[str] = []
    with pytest.raises(DivergedError, match="none of 2 trials has a result: all diverged"):
        TuningSearch(TrainingRequest(Supervised, wild, device="cpu", threads=1), MINUTES, most_trials=2).run(
            lines.append
        )
    assert lines[0].startswith("trial 1: the recipe as it is: diverged")


def test_a_search_that_is_stopped_keeps_nothing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise Interrupted("stopped, and saved. Go on with: porism train --resume /tmp/porism-tune/run")

    monkeypatch.setattr(tuning, "begin", stopped)
    with pytest.raises(Interrupted, match="stopped while tuning, after 0 trials, of which nothing is kept") as told:
        search().run()
    assert "--resume" not in str(told.value)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that was tuned, by three trials."""
    with pytest.MonkeyPatch.context() as patch:
        original = tuning.TuningSearch.run
        patch.setattr(
            tuning.TuningSearch, "run", lambda self, tell: original(dataclasses.replace(self, most_trials=3), tell)
        )
        out = tmp_path_factory.mktemp("tuned") / "run"
        return porism.train(
            "supervised", epochs=3, dropout=0.1, tune=MINUTES, threads=1, device="cpu", out=out, progress=False
        )


def test_python_tunes_and_the_run_keeps_every_trial(run: Any) -> None:
    kept = run.tuning
    assert [trial.number for trial in kept.trials] == [1, 2, 3]
    assert json.loads((run.path / "tuning.json").read_text())["trials"][1]["fields"] == {"learning_rate": 0.000333}
    assert run.recipe == with_fields(MLP, {"dropout": 0.1, **kept.fields})


def test_the_command_that_repeats_it_names_the_chosen_fields(run: Any) -> None:
    assert all(f"--set {name}={value}" in run.command for name, value in run.tuning.fields.items())
    assert "--set dropout=0.1" in run.command
    assert "--tune" not in run.command


def test_the_report_shows_the_trials(run: Any) -> None:
    text = page([read_run(run.path)])
    assert "Tuned before training" in text
    assert "learning_rate=0.003" in text
    assert f"all within {duration(60 * MINUTES)}, and was judged on valid alone" in text


def test_trials_that_were_altered_are_found(run: Any, tmp_path: Path) -> None:
    import shutil

    other = tmp_path / "altered"
    shutil.copytree(run.path, other)
    (other / "tuning.json").write_text((other / "tuning.json").read_text().replace('"value": 0', '"value": 1'))
    with pytest.raises(RunError, match=r"tuning\.json: its content was altered"):
        read_run(other)


@pytest.mark.parametrize("more", [{"resume": True}, {"fast_dev_run": True}])
def test_python_refuses_to_tune_what_is_no_new_run(more: dict[str, bool], tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="is for a new run"):
        porism.train("supervised", tune=1, out=tmp_path / "run", **more)  # type: ignore[call-overload]


def test_a_taken_folder_is_refused_before_the_search(run: Any) -> None:
    with pytest.raises(RunError, match="already holds a run"):
        porism.train("supervised", tune=1, out=run.path)
