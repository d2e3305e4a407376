"""What is concluded from the runs of an experiment: no more than they show."""

import json
from pathlib import Path

import pytest
from tests.report.conftest import WriteRun, metrics

from porism.report.experiment import answer
from porism.report.page import write_report
from porism.runs.record import read_run
from porism.tasks import TASKS, find
from porism.training.experiment import Experiment

EXPERIMENT = Experiment(
    "rates", "Is pooling better than strides?", ("pooled", "strided"), {"rate": (0.1, 0.01)}, seeds=5
)


def runs(write_run: WriteRun, tests: dict[str, list[float]], outcomes: dict[str, str] | None = None) -> list[Path]:
    """Accuracies by `recipe rate`, one a seed; `valid` is a tenth less than `test`."""
    paths = []
    for name, scores in tests.items():
        recipe, rate = name.split()
        for seed, score in enumerate(scores, 1):
            splits = {"valid": {"accuracy": score - 0.1}, "test": {"accuracy": score}}
            content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
            path = write_run(f"{recipe}-{rate}-{seed}", metrics=content, recipe=recipe, seed=seed, rate=float(rate))
            if outcomes:
                (path / "outcomes.json").write_text(json.dumps({"test": outcomes[recipe]}))
            paths.append(path)
    return paths


def conclusion(paths: list[Path]) -> str:
    return " ".join(answer(EXPERIMENT, [read_run(path) for path in paths]).sentences)


POOLED, STRIDED = [0.90, 0.91, 0.92, 0.90, 0.91], [0.80, 0.805, 0.82, 0.79, 0.81]


def test_each_recipe_takes_the_setting_that_suits_it_on_valid(write_run: WriteRun) -> None:
    scores = {
        "pooled 0.1": [0.70, 0.71, 0.72],
        "pooled 0.01": [0.80, 0.81, 0.82],
        "strided 0.1": [0.78, 0.79, 0.80],
        "strided 0.01": [0.60, 0.61, 0.62],
    }
    found = answer(EXPERIMENT, [read_run(path) for path in runs(write_run, scores)])
    assert [model.name for model in found.models] == ["pooled · rate=0.01", "strided · rate=0.1"]


def test_what_else_was_measured_stands_beside_the_metric(write_run: WriteRun, tmp_path: Path) -> None:
    splits = {"valid": {"accuracy": 0.7}, "test": {"accuracy": 0.8, "gradient_bias": 0.125}}
    content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
    path = write_run("pooled-1", metrics=content, recipe="pooled", seed=1)
    page = write_report([path], tmp_path / "page.html", experiment=EXPERIMENT).read_text()
    assert "gradient bias" in page
    assert "0.1250" in page


def test_values_of_a_field_are_compared_with_one_another(write_run: WriteRun) -> None:
    """A question about a field of one recipe is answered about its values, not with the best of them alone."""
    rates = Experiment("rate", "Does the rate matter?", ("pooled",), values={"rate": (0.1, 0.01, 0.001)})
    scores = {"pooled 0.1": POOLED, "pooled 0.01": STRIDED, "pooled 0.001": [score + 1e-3 for score in POOLED]}
    found = answer(rates, [read_run(path) for path in runs(write_run, scores)])
    (contest,) = found.contests
    assert [model.name for model in contest.models] == ["rate=0.001", "rate=0.1", "rate=0.01"]
    text = " ".join(found.sentences)
    assert "rate=0.001 is ahead of rate=0.01 by 0.1040" in text
    assert "for 3 comparisons" in text


def test_several_fields_are_compared_one_by_one(write_run: WriteRun) -> None:
    """Meanwhile the other field is chosen on valid; the correction is for all comparisons."""
    both = Experiment("both", "Which matters?", ("a", "b"), values={"rate": (0.1, 0.01), "width": (8, 16)}, seeds=2)
    paths = []
    for number, trial in enumerate(both.trials(1)):
        rate, width = (float(text.partition("=")[2]) for text in trial.assignments)
        score = rate + width / 100 + number / 1000
        splits = {"valid": {"accuracy": score}, "test": {"accuracy": score}}
        content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
        paths.append(
            write_run(trial.folder, metrics=content, recipe=trial.recipe, seed=trial.seed, rate=rate, width=int(width))
        )
    found = answer(both, [read_run(path) for path in paths])
    assert [one.title for one in found.contests] == [
        f"{field}, recipe {recipe}" for recipe in "ab" for field in ("rate", "width")
    ]
    assert [model.name for model in found.contests[0].models] == ["rate=0.1 · width=16", "rate=0.01 · width=16"]
    assert "for 4 comparisons" in " ".join(found.sentences)


def test_a_lead_larger_than_chance_is_called_one(write_run: WriteRun) -> None:
    text = conclusion(runs(write_run, {"pooled 0.1": POOLED, "strided 0.1": STRIDED}))
    assert text.startswith("pooled is best of 2 on valid, and better than strided. pooled: test accuracy 0.908 ± 0.010")
    assert "pooled is ahead of strided" in text
    assert "So pooled is the better of the two on this data." in text


def test_a_lead_within_chance_allows_no_conclusion(write_run: WriteRun) -> None:
    scores = {"pooled 0.1": [0.80, 0.84, 0.82, 0.83, 0.81], "strided 0.1": [0.83, 0.80, 0.82, 0.81, 0.82]}
    text = conclusion(runs(write_run, scores))
    assert text.startswith("pooled is best of 2 on valid, but that it is better than the other is not decided.")
    assert "better of the two" not in text


def test_settings_that_are_level_on_valid_are_all_named(write_run: WriteRun) -> None:
    scores = {"pooled 0.1": POOLED, "strided 0.1": POOLED, "third 0.1": POOLED, "fourth 0.1": STRIDED}
    assert conclusion(runs(write_run, scores)).startswith("pooled is best of 4 on valid, level with strided and third")


def test_a_lead_that_single_test_sets_do_not_show_is_said_to_be_one(write_run: WriteRun) -> None:
    scores = {"pooled 0.1": [0.75] * 5, "strided 0.1": [0.5] * 5}
    text = conclusion(runs(write_run, scores, {"pooled": "1110", "strided": "1100"}))
    assert "McNemar's test of the accuracy on the same 4 examples" in text
    assert "below 0.05 in 0 of 5 seeds" in text
    assert "test sets this small do not decide between it and strided" in text


def test_one_seed_decides_nothing(write_run: WriteRun) -> None:
    text = conclusion(runs(write_run, {"pooled 0.1": [0.99], "strided 0.1": [0.10]}))
    assert "One seed cannot tell pooled from strided: add seeds, up to 5." in text


def test_runs_on_other_data_are_answered_apart(write_run: WriteRun) -> None:
    paths = runs(write_run, {"pooled 0.1": POOLED})
    for seed, score in enumerate(STRIDED, 1):
        splits = {"valid": {"accuracy": score}, "test": {"accuracy": score}}
        content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
        paths.append(write_run(f"other-{seed}", metrics=content, recipe="strided", seed=seed, fingerprint="cd34"))
    text = conclusion(paths)
    assert "not all scored on the same examples" in text
    assert "better" not in text


def test_what_has_no_result_is_told(write_run: WriteRun) -> None:
    """A recipe that chose among two rates stands beside one that had no choice, from fewer seeds."""
    scores = {"pooled 0.1": POOLED, "pooled 0.01": STRIDED, "strided 0.1": STRIDED[:4]}
    text = conclusion(runs(write_run, scores))
    assert text.startswith("pooled · rate=0.1 is best of 2 on valid")
    assert "No result, so not compared: strided · rate=0.01." in text
    assert "From fewer seeds than 5: strided · rate=0.1 (4)." in text
    assert "Recipes that chose among more settings had a better chance to lead." in text


def test_where_all_have_results_nothing_is_told_to_lack(write_run: WriteRun) -> None:
    whole = {f"{recipe} {rate}": POOLED for recipe in ("pooled", "strided") for rate in (0.1, 0.01)}
    assert answer(EXPERIMENT, [read_run(run) for run in runs(write_run, whole)]).caveats == ()


def test_values_without_a_result_are_told(write_run: WriteRun) -> None:
    rates = Experiment("rate", "Does the rate matter?", ("pooled",), values={"rate": (0.1, 1, 0.001)})
    scores = {"pooled 0.1": POOLED, "pooled 1.0": STRIDED}
    found = answer(rates, [read_run(path) for path in runs(write_run, scores)])
    assert found.caveats == ("No result, so not compared: pooled · rate=0.001.",)


def test_what_must_be_known_of_the_runs_stands_beside_the_answer(write_run: WriteRun, tmp_path: Path) -> None:
    """Copies of training examples, other machines, a seed that is there twice."""
    paths = []
    known = (("pooled", 1, "one"), ("strided", 1, "two"), ("again", 1, "one"))
    for name, seed, cpu in (*known, *((f"more-{seed}", seed, "one") for seed in range(2, 6))):
        score = 0.95 + seed / 1000
        splits = {"valid": {"accuracy": score}, "test": {"accuracy": score}}
        content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
        content |= {"baselines": {"majority class": {"test": {"accuracy": 0.9}}}}
        content |= {"examples": {"train": 90, "test": 12}, "copies": {"test": 3}, "hardware": {"cpu": cpu}}
        recipe = "strided" if name == "strided" else "pooled"
        paths.append(write_run(name, metrics=content, recipe=recipe, seed=seed, rate=0.1))
    page = write_report(paths, tmp_path / "report.html", experiment=EXPERIMENT).read_text(encoding="utf-8")
    assert "Of 12 test examples 3 are in train too" in page
    assert "They were trained on different machines: one, two." in page
    assert "Left out, since a run of the same seed is there: " in page
    said = page.partition("The best baseline on test, ")[2].partition("</p>")[0]
    assert said.startswith("majority class, reaches 0.9000; pooled beats it; strided is ahead of it, ")


def test_runs_of_a_recipe_that_is_no_longer_asked_about_are_answered_too(write_run: WriteRun) -> None:
    rates = Experiment("rate", "Does the rate matter?", ("pooled",), values={"rate": (0.1, 0.01)})
    found = answer(rates, [read_run(path) for path in runs(write_run, {"former 0.1": POOLED, "former 0.01": STRIDED})])
    assert [one.title for one in found.contests] == [""]


def test_the_answer_is_the_summary_of_the_page(write_run: WriteRun, tmp_path: Path) -> None:
    """On test alone strided at the other rate would come first."""
    paths = runs(write_run, {"pooled 0.1": POOLED, "strided 0.1": STRIDED})
    splits = {"valid": {"accuracy": 0.1}, "test": {"accuracy": 0.99}}
    content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
    paths += [
        write_run(f"lucky-{seed}", metrics=content, recipe="strided", seed=seed, rate=0.01) for seed in range(1, 6)
    ]
    page = write_report(paths, tmp_path / "report.html", experiment=EXPERIMENT).read_text(encoding="utf-8")
    opening = page.partition("<header>")[2].partition("</header>")[0]
    assert "pooled is best of 2 on valid, and better than strided" in opening
    assert "0.99" not in opening
    assert opening.count('class="summary"') == 1
    assert "<h2>Is pooling better than strides?</h2>" in page
    assert "So pooled is the better of the two" in page
    assert "0.908 ± 0.010" in page
    rows = page.partition("<h2>Over seeds</h2>")[2]
    assert rows.index("pooled") < rows.index("strided · rate=0.1<") < rows.index("strided · rate=0.01<")


ASKED: dict[str, str] = {
    "steps-question": "seq_len",
    "rate-question": "learning_rate batch_size",
    "self-loops-question": "add_self_loops",
    "completion-question": "complete",
    "attention-question": "attention",
    "estimators": "full",
    "normalisation-question": "",
    "pooling-question": "",
    "grid-question": "",
    "decoder-question": "",
}
"""What each shipped question compares: the values of fields, all recipes with one, or the leader with the others."""
SHIPPED = {one.name: one for task in TASKS for one in find(task).experiments.values()}


def test_shipped_questions_compare_what_they_ask_about() -> None:
    assert {name: " ".join(one.values) or one.reference for name, one in SHIPPED.items()} == ASKED
    assert all(one.reference in ("", *one.recipes) for one in SHIPPED.values())


@pytest.mark.parametrize("name", [name for name, asked in ASKED.items() if asked])
def test_a_shipped_question_is_answered_about_that_whoever_leads(name: str, write_run: WriteRun) -> None:
    """The reference is third on valid, the values are in no order."""
    experiment, paths = SHIPPED[name], []
    ranks = [recipe for recipe in experiment.recipes if recipe != experiment.reference]
    ranks[2:2] = [experiment.reference] if experiment.reference else []
    for number, trial in enumerate(experiment.trials(1, 2)):
        score = 0.9 - 0.1 * ranks.index(trial.recipe) + (7 * number % 5) / 1000
        splits = {"valid": {"accuracy": score}, "test": {"accuracy": score}}
        content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
        fields = dict(text.split("=") for text in trial.assignments)
        paths.append(write_run(trial.folder, metrics=content, recipe=trial.recipe, seed=trial.seed, **fields))
    found = answer(experiment, [read_run(path) for path in paths])
    told = [{pair.first.name, pair.second.name} for one in found.contests for pair in one.told]
    assert len(found.sentences) == len(told) + len(found.contests)
    if experiment.reference:
        beside = {one for pair in told for one in pair if any(experiment.reference == n.split(" ")[0] for n in pair)}
        assert {one.split(" ")[0] for one in beside} == set(experiment.recipes)
    else:
        for recipe in experiment.recipes:
            for field, values in experiment.values.items():
                (one,) = (c for c in found.contests if set(c.title.split(", ")) >= _title(experiment, field, recipe))
                shown = " ".join(" ".join((pair.first.name, pair.second.name)) for pair in one.told)
                assert all(f"{field}={value}" in shown for value in values)


def _title(experiment: Experiment, field: str, recipe: str) -> set[str]:
    return ({field} if len(experiment.values) > 1 else set()) | (
        {f"recipe {recipe}"} if len(experiment.recipes) > 1 else set()
    )
