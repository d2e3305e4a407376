"""The summary says what the runs show, and how far that can be trusted."""

import json
import math
from pathlib import Path

import pytest
from tests.report.conftest import WriteRun, epoch, metrics, start

from porism.report import numbers
from porism.report.comparison import entries_of, group_runs
from porism.report.sections import story
from porism.report.summary import one_seed, summarise
from porism.runs.record import read_run


def summary_of(*folders: Path) -> str:
    (group,) = group_runs(entries_of([read_run(folder) for folder in folders]))
    return summarise(group)


def one_seed_of(folder: Path) -> str:
    (group,) = group_runs(entries_of([read_run(folder)]))
    return one_seed(group)


def test_one_run(write_run: WriteRun) -> None:
    assert summary_of(write_run(metrics=metrics(154.92))) == (
        "table-02 reaches a test perplexity of 154.9 after 3 epochs, of which number 2 counts, and 3 min 12 s of "
        "training on cpu, "
        "with 1,525,100 parameters and 30.0 kFLOP forward per token. That is 4.7 below the published 159.6. "
        "One seed: how far seeds differ cannot be concluded from it."
    )


@pytest.mark.parametrize(
    ("lower", "opening"),
    [
        (
            True,
            "b comes first of 2 models on valid: its test perplexity of 150.0 is 10.0 (6.2 %) below that of",
        ),
        (
            False,
            "a comes first of 2 models on valid: its test perplexity of 160.0 is 10.0 (6.7 %) above that of",
        ),
    ],
)
def test_two_models(write_run: WriteRun, lower: bool, opening: str) -> None:
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(160.0, lower_is_better=lower)),
        write_run("2", recipe="b", metrics=metrics(150.0, lower_is_better=lower)),
    )
    assert text.startswith(opening)
    assert " has as many parameters and as many forward FLOPs per token." in text
    assert "Published numbers bettered: 1 of 2." in text
    assert "One seed each" in text


def test_the_cost_of_being_best_and_the_smallest_are_named(write_run: WriteRun) -> None:
    text = summary_of(
        write_run("1", recipe="big", metrics=metrics(140.0, parameters=3_000_000)),
        write_run("2", recipe="middle", metrics=metrics(150.0, parameters=2_000_000)),
        write_run("3", recipe="small", metrics=metrics(160.0, parameters=1_000_000)),
    )
    assert "big has 1.5 times the parameters" in text
    assert "The smallest, small, comes to 160.0 with 1,000,000 parameters." in text


def seeds(write_run: WriteRun, recipe: str, *scores: float) -> list[Path]:
    return [
        write_run(f"{recipe}-{seed}", recipe=recipe, seed=seed, metrics=metrics(score))
        for seed, score in enumerate(scores, 1)
    ]


def test_several_seeds(write_run: WriteRun) -> None:
    text = summary_of(*seeds(write_run, "a", 140, 150), *seeds(write_run, "b", 160, 171))
    assert text.startswith("a comes first of 2 models on valid: its test perplexity of 145 is 20 (12 %) below")
    assert "Means over 2 seeds; those of a run from 140.0 to 150.0." in text
    assert "Which is better is not decided: that takes 5 seeds." in text
    assert "One seed" not in text
    assert "Published numbers bettered: 1 of 2, by the mean over seeds." in text


def test_five_seeds_may_decide(write_run: WriteRun) -> None:
    leader = seeds(write_run, "a", 140, 141, 142, 143, 144)
    text = summary_of(*leader, *seeds(write_run, "b", 151, 152, 152, 154, 155))
    assert text.startswith(
        "a is best of 2 models: its test perplexity of 142.0 is 10.8 (7.1 %) below that of the next, b."
    )
    assert "So a is the better of the two on this data." in text
    text = summary_of(*leader, *seeds(write_run, "c", 140, 142, 142, 143, 144.5))
    assert text.startswith("a comes first of 2 models on valid")


def test_a_winner_on_test_alone_is_none(write_run: WriteRun) -> None:
    splits = {"valid": {"perplexity": 200.0}, "test": {"perplexity": 100.0}}
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(150.0)), write_run("2", recipe="b", metrics=metrics(metrics=splits))
    )
    assert text.startswith(
        "a comes first of 2 models on valid, but not on test: its test perplexity of 150.0 is 50.0 (50 %) above that"
    )


def test_models_that_are_level_on_valid_are_said_to_be(write_run: WriteRun) -> None:
    splits = {"valid": {"perplexity": 150.0}, "test": {"perplexity": 100.0}}
    tied = metrics(metrics={"valid": {"perplexity": 150.0}, "test": {"perplexity": 120.0}})
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(metrics=splits)), write_run("2", recipe="b", metrics=tied)
    )
    assert text.startswith(
        "a and b are level on valid: the test perplexity of a, 100.0, is 20.0 (17 %) below that of b."
    )
    worse = write_run("3", recipe="c", metrics=metrics(160.0))
    runs = [write_run(name, recipe=name, metrics=metrics(metrics=splits)) for name in "ab"]
    assert summary_of(*runs, worse).startswith(
        "a and b are level on valid, ahead of 1 other model: the test perplexity of a, 100.0, is that of b, too."
    )


def test_models_that_are_level_on_valid_are_not_called_ahead_there(write_run: WriteRun) -> None:
    """Five seeds each, level on valid; b is ahead on test, by more than chance."""
    runs = [
        write_run(
            f"{name}-{seed}",
            recipe=name,
            seed=seed,
            metrics=metrics(metrics={"valid": {"perplexity": 150.0}, "test": {"perplexity": test + seed % 3}}),
        )
        for name, test in (("a", 120.0), ("b", 100.0))
        for seed in range(1, 6)
    ]
    text = summary_of(*runs)
    assert "was ahead on valid" not in text
    assert "They are level on valid, so which is better is not decided." in text


def test_of_models_that_diverged_the_one_with_fewer_lost_seeds_leads(write_run: WriteRun) -> None:
    """Then the better mean of the others: none is level with another because both are last."""
    lost = [start(), epoch(1, 301.2), {"event": "diverge", "time": 0.0, "text": "the loss is nan"}]
    runs = [write_run(f"{name}-9", recipe=name, seed=9, events=lost) for name in "abc"]
    runs += [write_run("c-8", recipe="c", seed=8, events=lost)]
    runs += seeds(write_run, "a", 150, 151) + seeds(write_run, "b", 140, 141) + seeds(write_run, "c", 100, 101)
    text = summary_of(*runs)
    assert text.startswith("b comes first of 3 models on valid: its test perplexity of 140.5 is 10.0")
    assert "Diverged, so worst on valid: " in text


def test_means_over_other_seeds_are_not_set_against_each_other(write_run: WriteRun) -> None:
    """b lost the seeds that were hardest: on those that both have, the two are level."""
    lost = [start(), epoch(1, 301.2), {"event": "diverge", "time": 0.0, "text": "the loss is nan"}]
    runs = [*seeds(write_run, "a", 140, 142, 150, 152), *seeds(write_run, "b", 140, 142)]
    runs += [write_run(f"b-{seed}", recipe="b", seed=seed, events=lost) for seed in (3, 4)]
    text = summary_of(*runs)
    assert text.startswith(
        "a comes first of 2 models on valid: the test perplexity of a is 146.0 over 4 seeds, that of b 141.0 over 2 "
        "seeds, which are not the same seeds."
    )
    assert "a and b are level on test in pairs over 2 seeds" in text


def test_without_a_test_split_the_numbers_are_told_to_flatter(write_run: WriteRun) -> None:
    run = write_run(metrics=metrics(metrics={"train": {"perplexity": 90.0}, "valid": {"perplexity": 100.0}}))
    text = summary_of(run)
    assert text.startswith("table-02 reaches a valid perplexity of 100.0")
    assert "There is no test split, and valid chose the epochs: on other examples expect less." in text


def test_a_seed_counts_once(write_run: WriteRun) -> None:
    """Two folders of one seed are not two seeds, however often they agree."""
    again = [
        write_run(f"again-{name}", recipe=name, metrics=metrics(score)) for name, score in (("a", 101), ("b", 104))
    ]
    text = summary_of(*seeds(write_run, "a", 101), *seeds(write_run, "b", 104), *again)
    assert "seeds;" not in text
    assert "One seed each" in text
    assert "Left out, since a run of the same seed is there: a · again-a, b · again-b." in text


def test_runs_on_another_kind_of_machine_are_another_model(write_run: WriteRun) -> None:
    there = write_run("gpu", recipe="a", seed=2, metrics=metrics(150.0))
    recipe = there / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('"cpu"', '"cuda:0"').replace('"fp32"', '"bf16"'))
    text = summary_of(*seeds(write_run, "a", 140), there)
    assert "that of a · bf16 on cuda 150.0 over 1 seed, which are not the same seeds." in text
    assert "Means over" not in text


def test_a_precision_that_was_asked_for_and_one_that_the_machine_chose_are_one(write_run: WriteRun) -> None:
    """The command that repeats a run names the precision, where the run itself may have had `auto`."""
    runs = [
        write_run(f"run-{seed}", recipe="a", seed=seed, metrics=metrics(150.0 + seed), precision=precision)
        for seed, precision in enumerate(("auto", "fp32"), 1)
    ]
    assert summary_of(*runs).startswith("a reaches a test perplexity of 151.5 ")
    other = write_run("other", recipe="b", metrics=metrics(150.0), precision="fp32")
    assert "Beside the model they differ" not in summary_of(runs[0], other)


@pytest.mark.parametrize("recipes", [("a", "b"), ("a", "a")])
def test_different_machines_are_told_from_one_seed_on(write_run: WriteRun, recipes: tuple[str, str]) -> None:
    """Of two models from one seed each, and of one from two seeds."""
    runs = [
        write_run(
            f"run-{seed}",
            recipe=recipe,
            seed=seed if recipes == ("a", "a") else 1,
            metrics=metrics(140.0, hardware={"cpu": f"processor {seed}"}, versions={"torch": f"2.1{seed}"}),
        )
        for seed, recipe in enumerate(recipes, 1)
    ]
    text = summary_of(*runs)
    assert "They were trained on different machines: processor 1, processor 2." in text
    assert "They were trained with different versions of torch: 2.11, 2.12." in text


def test_seeds_that_were_trained_on_other_data_are_another_model(write_run: WriteRun) -> None:
    """The same text is scored, but train.txt has changed in between."""
    runs = [
        write_run(f"run-{seed}", seed=seed, fingerprint=data, metrics=metrics(140.0 + seed, evaluation="one test"))
        for seed, data in ((1, "ab12"), (2, "cd34"))
    ]
    text = summary_of(*runs)
    assert "table-02 · data ab12 comes first of 2 models" in text
    assert "They were trained on different data, so this is no comparison of the models alone." in text


def test_words_cut_in_other_ways_are_one_text(write_run: WriteRun) -> None:
    runs = [
        write_run(f"run-{n}", fingerprint=data, min_count=n, metrics=metrics(140.0, evaluation="one test"))
        for n, data in ((1, "ab12"), (2, "cd34"))
    ]
    text = summary_of(*runs)
    assert "data" not in text.replace("on this data", "")


@pytest.mark.parametrize(("other", "verdict"), [("1" * 9 + "0" * 11, "does not show"), ("0" * 20, "shows")])
def test_two_runs_are_compared_on_the_same_examples(write_run: WriteRun, other: str, verdict: str) -> None:
    runs = []
    for name, digits in (("a", "1" * 10 + "0" * 10), ("b", other)):
        share = digits.count("1") / 20
        splits = {"valid": {"accuracy": share}, "test": {"accuracy": share}}
        content = metrics(metrics=splits, metric="accuracy", lower_is_better=False)
        runs.append(write_run(name, task="images", recipe=name, metrics=content))
        (runs[-1] / "outcomes.json").write_text(json.dumps({"test": digits}))
    text = summary_of(*runs)
    assert f"Of these two runs McNemar's test on the same 20 images {verdict} a ahead." in text
    # That takes five seeds.
    assert "better" not in text


def test_few_test_examples_leave_a_wide_interval(write_run: WriteRun) -> None:
    splits = {"valid": {"accuracy": 0.8333}, "test": {"accuracy": 1.0}}
    run = write_run(task="images", metrics=metrics(metrics=splits, metric="accuracy", lower_is_better=False))
    (run / "outcomes.json").write_text(json.dumps({"test": "1" * 12}))
    assert (
        "reaches a test accuracy of 1.000 (12 of 12 images; 95 % confidence interval by the choice of test examples "
        "alone: 0.74 to 1.00)" in summary_of(run)
    )


def test_examples_that_are_all_alike_leave_an_interval_with_the_digits_of_the_number(write_run: WriteRun) -> None:
    """It was `6.613 (10 passages of 50 words; ...: 7 to 7)`."""
    run = write_run(metrics=metrics(math.exp(94.45 / 50)))
    scores = {"metric": "perplexity", "unit": "passage of 50 words", "numerators": [94.45] * 10}
    told = {"test": {**scores, "denominators": [50] * 10, "exponential": True}}
    (run / "examples.json").write_text(json.dumps(told))
    text = summary_of(run)
    assert "perplexity of 6.613 (10 passages of 50 words; " in text
    assert "alone: 6.613 to 6.613)" in text


def test_a_single_run_has_a_short_sentence_with_its_interval(write_run: WriteRun) -> None:
    splits = {"valid": {"accuracy": 0.8333}, "test": {"accuracy": 20 / 24}}
    found = metrics(metrics=splits, metric="accuracy", lower_is_better=False)
    run = write_run(task="graphs", metrics=found)
    (run / "outcomes.json").write_text(json.dumps({"test": "1" * 20 + "0" * 4}))
    assert one_seed_of(run) == "Test accuracy of one seed: 0.8333 (95 % interval over 24 nodes: 0.63 to 0.95)."
    assert "95 % confidence interval by the choice of test examples alone: 0.63 to 0.95)" in summary_of(run)


def test_few_test_examples_leave_no_interval_and_no_verdict(write_run: WriteRun) -> None:
    """It was `95 % interval over 2 passages of 50 words`, which holds the truth half of the time."""
    for count, told in ((9, False), (10, True)):
        runs = []
        for name, loss in (("a", 90.0), ("b", 95.0)):
            run = write_run(f"{name}{count}", recipe=name, metrics=metrics(math.exp(loss / 50)))
            scores = {"metric": "perplexity", "unit": "passage of 50 words", "exponential": True}
            told_of = {**scores, "numerators": [loss] * count, "denominators": [50] * count}
            (run / "examples.json").write_text(json.dumps({"test": told_of}))
            runs.append(run)
        few = "(too few test examples for an interval)"
        assert [few in one_seed_of(runs[0]), few in summary_of(runs[0])] == [not told, not told]
        assert ("a paired bootstrap on the same" in summary_of(*runs)) == told


def test_a_single_run_without_known_examples_is_said_to_be_of_one_seed(write_run: WriteRun) -> None:
    assert one_seed_of(write_run("kept", metrics=metrics(154.92))) == "Test perplexity of one seed: 154.9."
    assert one_seed_of(write_run("stopped")) == ""


def test_the_limit_is_told(write_run: WriteRun) -> None:
    text = summary_of(write_run(metrics=metrics(150.0, limit={"test": {"perplexity": 120.0}})))
    assert "The best that any model can expect on this data is 120.0." in text


def test_unfinished_and_astray_runs_are_not_ranked(write_run: WriteRun) -> None:
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(150.0)),
        write_run("2", recipe="b"),
        write_run("3", recipe="c", metrics=metrics(float("inf"))),
    )
    assert text.startswith("a reaches a test perplexity of 150.0")
    assert text.endswith("Not ranked for want of a final number: b, c.")


def test_nothing_finished(write_run: WriteRun) -> None:
    assert summary_of(write_run()) == "No run has come to a final number yet; below is what there is so far."


def test_runs_that_were_scored_on_other_examples_are_apart(write_run: WriteRun) -> None:
    runs = [
        write_run("1", recipe="a", metrics=metrics(150.0)),
        write_run("2", recipe="b", metrics=metrics(140.0), fingerprint="cd34"),
        write_run("3", recipe="c", metrics=metrics(130.0, evaluation="ef56")),
        write_run("4", recipe="d", fingerprint="cd34"),
    ]
    groups = group_runs(entries_of([read_run(run) for run in runs]))
    assert [[entry.name for entry in group.entries] for group in groups] == [["a"], ["b", "d"], ["c"]]
    assert [group.place for group in groups[:2]] == ["language on ptb (data ab12)", "language on ptb (data cd34)"]


def test_old_runs_of_words_are_apart_by_what_was_scored(write_run: WriteRun) -> None:
    """Runs of 0.1 do not say on which pairs: the vocabulary and two fields do."""
    facts = [{"sha256 of the vocabulary": name, "vocabulary": size} for name, size in (("aa", 76), ("bb", 1102))]
    runs = [
        write_run("1", task="words", window=5, metrics=metrics(4.0, facts=facts[0])),
        write_run("2", task="words", window=5, metrics=metrics(6.0, facts=facts[1])),
        write_run("3", task="words", window=2, metrics=metrics(6.0, facts=facts[1])),
        write_run("4", task="words", window=2, seed=2, metrics=metrics(6.1, facts=facts[1])),
    ]
    groups = group_runs(entries_of([read_run(run) for run in runs]))
    assert [[entry.number for entry in group.entries] for group in groups] == [[1], [2], [3, 4]]
    assert groups[1].place == "words on ptb (data ab12, vocabulary of 1,102 words, window=5)"


def test_copies_of_training_examples_are_told(write_run: WriteRun) -> None:
    run = write_run(metrics=metrics(150.0, examples={"train": 90, "test": 12}, copies={"test": 3}))
    assert "Of 12 test examples 3 are in train too: of new ones they say little." in summary_of(run)


def test_a_run_that_diverged_is_named(write_run: WriteRun) -> None:
    lost = [start(), epoch(1, 301.2), {"event": "diverge", "time": 0.0, "text": "the loss is nan"}]
    text = summary_of(write_run("1", metrics=metrics(150.0)), write_run("2", recipe="b", events=lost))
    assert text.startswith("table-02 reaches a test perplexity of 150.0")
    assert "Diverged, so worst on valid: b." in text


def test_a_run_that_diverged_alone_is_not_called_the_worst(write_run: WriteRun) -> None:
    lost = [start(), epoch(1, 301.2), {"event": "diverge", "time": 0.0, "text": "the loss is nan"}]
    text = summary_of(*(write_run(name, recipe=name, events=lost) for name in ("a", "b")))
    assert text.endswith("Diverged: a, b.")


def test_the_last_epoch_counts_without_being_called_the_best(write_run: WriteRun) -> None:
    """Without restore_best_weights the last epoch is measured, whichever was best on valid."""
    told = story(read_run(write_run(metrics=metrics(epochs=3, best_epoch=3), restore_best_weights=False)))
    assert told.startswith("3 epochs, number 3 counts")
    assert "best" not in told


def test_one_epoch_is_no_plural(write_run: WriteRun) -> None:
    assert " after 1 epoch and " in summary_of(write_run(metrics=metrics(154.92, epochs=1, best_epoch=1)))


def test_a_mean_has_the_digits_of_its_interval(write_run: WriteRun) -> None:
    alone = summary_of(*seeds(write_run, "a", 140, 150, 145))
    assert alone.startswith("a reaches a test perplexity of 145 ± 12, with ")
    sizes = {"big": 3_000_000, "middle": 2_000_000, "small": 1_000_000}
    runs = [
        write_run(f"{name}-{seed}", recipe=name, seed=seed, metrics=metrics(score + 7 * seed, parameters=size))
        for score, (name, size) in zip((140, 150, 160), sizes.items(), strict=True)
        for seed in (1, 2)
    ]
    assert "The smallest, small, comes to 170 ± 44 with 1,000,000 parameters." in summary_of(*runs)


def test_a_difference_that_may_be_none_has_no_share(write_run: WriteRun) -> None:
    text = summary_of(*seeds(write_run, "a", 140, 160, 150), *seeds(write_run, "b", 170, 140, 150))
    assert "is 3 below that of the next, b." in text


@pytest.mark.parametrize(
    ("tests", "told"),
    [
        ((1e-9, 2.5e-8), "its test perplexity of 0.0000000010 is 0.0000000240 (96 %) below that of the next"),
        ((0.0, 2.5e-8), "its test perplexity of 0.0000 is 0.000000025 (100 %) below that of the next"),
        ((4e17, 5.6e17), "its test perplexity of 4e+17 is 1.6e+17 (29 %) below that of the next"),
    ],
)
def test_numbers_of_other_scales_keep_their_digits(write_run: WriteRun, tests: tuple[float, float], told: str) -> None:
    """As squared errors have where targets are small or large: all were 0.0000, or had eighteen digits."""
    runs = []
    for name, test in zip("ab", tests, strict=True):
        scores = {split: {"perplexity": test} for split in ("valid", "test")}
        runs.append(write_run(name, recipe=name, metrics=metrics(metrics=scores, published={})))
    assert told in summary_of(*runs)


def test_equal_numbers_are_called_so(write_run: WriteRun) -> None:
    text = summary_of(*seeds(write_run, "a", 140, 150), *seeds(write_run, "b", 140, 150))
    assert text.startswith("a and b are level on valid: the test perplexity of a, 145, is that of b, too.")
    assert "a and b are level on test in pairs over 2 seeds" in text
    published = write_run("p", metrics=metrics(150.0, published={"test": {"perplexity": 150.0}}))
    assert "That is the published 150.0." in summary_of(published)


def test_examples_are_counted_in_their_own_words() -> None:
    assert numbers.counted(140, "passage of 50 words") == "140 passages of 50 words"
    assert numbers.counted(1, "image") == "1 image"
