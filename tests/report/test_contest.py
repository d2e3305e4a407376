"""Which model is better, and how often that is said of models that are equal."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest

from porism.report import contest as contest_module
from porism.report.comparison import entries_of, group_runs
from porism.report.contest import contest, describe, p_text, reached
from porism.report.seeds import models_of
from porism.runs.example_scores import ExampleScores
from porism.runs.record import Metrics, RunRecord
from porism.runs.run import RunFacts
from porism.runs.statistics import SIGNIFICANCE, holm, t_test

DRAWS = 400


def record(
    recipe: str,
    seed: int,
    valid: float,
    test: float,
    *,
    lower_is_better: bool = False,
    metric: str = "accuracy",
    outcomes: str = "",
    examples: ExampleScores | None = None,
    diverged: str | None = None,
    **facts: str,
) -> RunRecord:
    """A run in memory. Keywords that are not named are its circumstances."""
    known: dict[str, Any] = {"source": "data", "device": "cpu", "precision": "fp32", "fingerprint": "ab12", **facts}
    scores: dict[str, dict[str, float | None]] = {"valid": {metric: valid}, "test": {metric: test}}
    return RunRecord(
        path=Path(f"{recipe}-{seed}"),
        facts=RunFacts(task="images", recipe=recipe, seed=seed, threads=1, overrides=[], **known),
        fields={"name": recipe},
        metrics=None if diverged else Metrics(metric, lower_is_better, scores),
        outcomes={"test": outcomes} if outcomes else {},
        examples={"test": examples} if examples else {},
        diverged=diverged,
    )


def compared(records: Sequence[RunRecord]) -> str:
    """What is said of the leader and the others."""
    (group,) = group_runs(entries_of(records))
    found = contest(group, models_of(group))
    return " ".join(describe(group, pair) for pair in found.comparisons)


def is_anything_better(records: Sequence[RunRecord]) -> bool:
    (group,) = group_runs(entries_of(records))
    return any(pair.decided for pair in contest(group, models_of(group)).pairs)


def by_luck(random: Random, recipes: int, shared: float, growth: float = 1.0) -> list[RunRecord]:
    """Models without a difference, over five seeds.

    shared: the correlation of luck on valid and on test. growth: how much more each model varies than the one before.
    """

    def run(number: int, seed: int) -> RunRecord:
        luck, more = growth**number * random.gauss(0, 1), growth**number * random.gauss(0, 1)
        return record("abcdefg"[number], seed, luck, shared * luck + sqrt(1 - shared**2) * more)

    return [run(number, seed) for number in range(recipes) for seed in range(5)]


def by_examples(random: Random, recipes: int, examples: int, known: bool) -> list[RunRecord]:
    """Models without a difference on so few examples, some hard for all, that many scores are equal.

    known: whether single examples are, so that both tests are made.
    """
    hard = {split: [random.gauss(0, 1) for _ in range(examples)] for split in ("valid", "test")}

    def run(recipe: str, seed: int) -> RunRecord:
        skill = random.gauss(0.8, 0.15)
        right = {split: [skill - one + random.gauss(0, 0.3) > 0 for one in hard[split]] for split in hard}
        outcomes = "".join("01"[one] for one in right["test"]) if known else ""
        return record(recipe, seed, fmean(right["valid"]), fmean(right["test"]), outcomes=outcomes)

    return [run(recipe, seed) for recipe in "abcdefg"[:recipes] for seed in range(5)]


EQUAL: dict[str, Callable[[Random, int], list[RunRecord]]] = {
    # The worst case: the leader is lucky on test as well.
    "all luck shared": lambda random, recipes: by_luck(random, recipes, 1.0),
    "correlated": lambda random, recipes: by_luck(random, recipes, 0.8),
    "unequal variances": lambda random, recipes: by_luck(random, recipes, 0.8, growth=2.0),
    "ties": lambda random, recipes: by_examples(random, recipes, 24, known=False),
    "ties, both tests": lambda random, recipes: by_examples(random, recipes, 24, known=True),
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("recipes", [2, 4, 7])
@pytest.mark.parametrize("equal", EQUAL)
def test_equal_models_are_seldom_told_apart(equal: str, recipes: int) -> None:
    """In 5 % of experiments at most.

    That is 34 of 400 or fewer in 999 of 1,000 cases. Without a correction it is 38 % of them for seven recipes.
    """
    random = Random(recipes)
    false = sum(is_anything_better(EQUAL[equal](random, recipes)) for _ in range(DRAWS))
    assert false <= 34


@pytest.mark.parametrize(("apart", "at_least"), [(1.0, 0.15), (3.0, 0.8)])
def test_the_power_of_five_seeds(apart: float, at_least: float) -> None:
    """Models that differ by one deviation of their seeds are told apart in a fifth of cases, by three in most."""
    random = Random(5)

    def runs() -> list[RunRecord]:
        better = [(seed, random.gauss(apart, 1)) for seed in range(5)]
        other = [(seed, random.gauss(0, 1)) for seed in range(5)]
        return [record("a", seed, score, score) for seed, score in better] + [
            record("b", seed, score, score) for seed, score in other
        ]

    found = sum(is_anything_better(runs()) for _ in range(200)) / 200
    assert at_least <= found <= at_least + 0.2


POWER = {2: (23, 66, 94), 4: (6, 27, 61), 7: (2, 10, 28)}
"""Recipes: in how many % one that is better by one, two or three deviations is found to be better than another."""


@pytest.mark.sweep(1)
@pytest.mark.parametrize("recipes", POWER)
def test_the_stated_power_is_that_of_simulated_experiments(recipes: int) -> None:
    """Within three deviations of a share over as many experiments, and half a per cent of rounding."""
    stated = POWER[recipes]
    assert f"{stated[0]}, {stated[1]} and {stated[2]} %" in " ".join((contest_module.__doc__ or "").split())
    random, experiments = Random(recipes), 2000
    for apart, share in enumerate(stated, 1):
        found = 0
        for _ in range(experiments):
            scores = [[random.gauss(apart * (number == 0), 1) for _ in range(5)] for number in range(recipes)]
            leads = [[a - b for a, b in zip(*two, strict=True)] for two in combinations(scores, 2)]
            # The first pair is that of the better model and a given other one.
            found += holm([t_test(lead) or 0.0 for lead in leads])[0] < SIGNIFICANCE and fmean(leads[0]) > 0
        error = 100 * sqrt(share / 100 * (1 - share / 100) / experiments)
        assert 100 * found / experiments == pytest.approx(share, abs=3 * error + 0.5)


def pair(first: Sequence[float], second: Sequence[float], **changes: object) -> list[RunRecord]:
    """Runs of a and b, a number a seed; on valid they are as on test."""
    return [
        record(recipe, seed, score, score, **changes)  # type: ignore[arg-type]
        for recipe, scores in (("a", first), ("b", second))
        for seed, score in enumerate(scores, 1)
    ]


AHEAD = ([0.90, 0.91, 0.92, 0.90, 0.91], [0.80, 0.805, 0.82, 0.79, 0.81])


def test_a_lead_larger_than_chance_is_decided() -> None:
    text = compared(pair(*AHEAD))
    assert text.startswith("a is ahead of b by 0.1030 (0.0974 to 0.1086) on test in pairs over 5 seeds, p < 0.0001")
    assert text.endswith("So a is the better of the two on this data.")


def test_fewer_than_five_seeds_decide_nothing() -> None:
    text = compared(pair(AHEAD[0][:4], AHEAD[1][:4]))
    assert "the better of the two" not in text
    assert "Which is better is not decided: that takes 5 seeds." in text


def test_the_leader_is_chosen_on_valid() -> None:
    """b is ahead on test, in all seeds; but it was not chosen by that."""
    runs = [
        record(one.facts.recipe, one.facts.seed, 1 - one.score("test", "accuracy"), one.score("test", "accuracy"))  # type: ignore[operator,arg-type]
        for one in pair(*reversed(AHEAD))
    ]
    text = compared(runs)
    assert text.startswith("a is behind b by 0.103")
    assert "a was ahead on valid, so which is better is not decided." in text


def test_comparisons_are_corrected_for_their_number() -> None:
    """What two models show is too little among four, where any could have come to lead."""
    ours, theirs = [0.90, 0.91, 0.92, 0.90, 0.91], [0.89, 0.905, 0.91, 0.89, 0.909]
    assert "So a is the better of the two" in compared(pair(ours, theirs))
    more = [replace(one, facts=replace(one.facts, recipe=name)) for name in "cd" for one in pair([], theirs)]
    text = compared([*pair(ours, theirs), *more])
    assert "after Holm's correction for 6 comparisons" in text
    assert "better of the two" not in text


def test_seeds_that_do_not_meet_are_said_to() -> None:
    first, second = pair(*AHEAD)[:2], pair(*AHEAD)[7:9]
    assert compared([*first, *second]) == (
        "a and b have no seed in common: a has 1, 2 and b has 3, 4. Train both from the same seeds."
    )


def sentences_right(of: int) -> str:
    return "1" * of + "0" * (400 - of)


def test_examples_that_speak_for_the_other_model_do_not_count_as_agreement() -> None:
    """On test b has more right answers than a, by a margin that has a tiny p-value, for b."""
    runs = [
        record(
            one.facts.recipe,
            one.facts.seed,
            (one.facts.recipe == "a") + 0.0,
            right / 400,
            outcomes=sentences_right(right),
        )
        for one, right in zip(pair([0.0] * 5, [0.0] * 5), [100] * 5 + [160] * 5, strict=True)
    ]
    text = compared(runs)
    assert (
        "McNemar's test of the accuracy on the same 400 images shows a ahead with p below 0.05 in 0 of 5 seeds" in text
    )
    assert "better of the two" not in text


def test_what_is_tested_is_the_metric_that_is_reported() -> None:
    """Error rates with the sentences that were right beside them: of those no test is made."""
    runs = [
        record(
            one.facts.recipe,
            one.facts.seed,
            rate,
            rate,
            lower_is_better=True,
            metric="cer",
            outcomes=sentences_right(right),
        )
        for one, rate, right in zip(
            pair([0.0] * 5, [0.0] * 5),
            [0.10, 0.11, 0.10, 0.11, 0.10, 0.12, 0.14, 0.13, 0.12, 0.13],
            [100] * 5 + [160] * 5,
            strict=True,
        )
    ]
    text = compared(runs)
    assert "McNemar" not in text
    assert "So a is the better of the two" in text


@pytest.mark.parametrize(("other", "decided"), [(0.30, True), (0.105, False)])
def test_error_rates_are_compared_utterance_by_utterance(other: float, decided: bool) -> None:
    """0.10 against 0.30, with hardly a sentence right, is no draw."""
    runs = []
    for recipe, rate in (("a", 0.10), ("b", other)):
        for seed in range(1, 6):
            # The same utterances for all.
            random = Random(0)
            lengths = [float(random.randint(20, 60)) for _ in range(80)]
            random.seed(f"{recipe} {seed}")
            wrong = [float(sum(random.random() < rate for _ in range(int(length)))) for length in lengths]
            scores = ExampleScores(metric="cer", unit="utterance", numerators=wrong, denominators=lengths)
            runs.append(record(recipe, seed, rate, scores.value, lower_is_better=True, metric="cer", examples=scores))
    text = compared(runs)
    assert ("So a is the better of the two" in text) is decided
    shown = "5 of 5" if decided else "0 of 5"
    assert f"a paired bootstrap of the CER on the same 80 utterances shows a ahead with p below 0.05 in {shown}" in text


def test_a_bootstrap_that_speaks_for_the_other_model_does_not_count_as_agreement() -> None:
    """a leads on valid; on test each utterance has one error more than with b."""
    runs = [
        record(recipe, seed, valid, scores.value, lower_is_better=True, metric="cer", examples=scores)
        for recipe, valid, wrong in (("a", 0.1, 2.0), ("b", 0.2, 1.0))
        for scores in [ExampleScores(metric="cer", unit="utterance", numerators=[wrong] * 50, denominators=[10.0] * 50)]
        for seed in range(1, 6)
    ]
    text = compared(runs)
    assert "a paired bootstrap of the CER on the same 50 utterances shows a ahead with p below 0.05 in 0 of 5" in text
    assert "a was ahead on valid, so which is better is not decided." in text


def test_a_diverged_seed_makes_a_model_the_worst_on_valid() -> None:
    runs = [*pair([0.99] * 4, AHEAD[1]), record("a", 5, 0, 0, diverged="the loss is nan")]
    (group,) = group_runs(entries_of(runs))
    assert [model.name for model in models_of(group)] == ["b", "a"]


def test_a_leader_that_lost_a_seed_is_not_called_the_worst() -> None:
    runs = [*pair(AHEAD[0][:4], AHEAD[1][:3]), record("a", 5, 0, 0, diverged="the loss is nan")]
    runs += [record("b", seed, 0, 0, diverged="the loss is nan") for seed in (4, 5)]
    (group,) = group_runs(entries_of(runs))
    leader = models_of(group)[0]
    assert leader.name == "a"
    assert reached(group, leader).endswith(
        "It diverged in 1 further seed, which counts as worse than any number on valid."
    )


def test_a_model_that_always_diverges_is_named() -> None:
    runs = pair(AHEAD[0], [])
    runs += [record("b", seed, 0, 0, diverged="the loss is nan") for seed in range(1, 6)]
    assert compared(runs) == "b diverged, so there is no number to compare."


@pytest.mark.parametrize(
    ("p", "text"), [(0.0312, "= 0.031"), (1e-9, "< 0.0001"), (0.0499, "= 0.0499"), (0.3, "= 0.30")]
)
def test_p_values_are_not_rounded_across_the_line(p: float, text: str) -> None:
    assert p_text(p) == text


def test_means_that_differ_by_rounding_are_level() -> None:
    scores = {"a": (0.1 + 0.2, 0.3, 0.5), "b": (0.3, 0.1 + 0.2, 0.5 - 1e-16)}
    text = compared(
        [record(name, seed, 0.5, score) for name, seen in scores.items() for seed, score in enumerate(seen, 1)]
    )
    assert text.startswith("a and b are level on test in pairs over 3 seeds, p ")


def test_rounding_that_all_seeds_share_decides_nothing() -> None:
    """Without a spread Student's test has p = 0 for a difference of any size."""
    text = compared(pair([0.1 + 0.2] * 5, [0.3] * 5))
    assert text == (
        "a and b are level on test in pairs over 5 seeds, p = 1.00. Which is better is not decided by these runs."
    )


def test_seeds_that_change_no_number_count_as_one_run() -> None:
    """Without anything random five runs are one: Student's test of a difference without a spread has p = 0."""
    text = compared(pair([0.91] * 5, [0.9] * 5))
    assert text.endswith("No seed changed the number of a or of b, so which is better is not decided by seeds.")
    assert "So a is the better of the two" in compared(pair([0.91] * 5, [0.90, 0.89, 0.90, 0.89, 0.90]))


def right_of_20(recipe: str, *counts: int) -> list[RunRecord]:
    """Runs that got the first so many of 20 examples right."""
    return [
        record(recipe, seed, count / 20, count / 20, outcomes="1" * count + "0" * (20 - count))
        for seed, count in enumerate(counts, 1)
    ]


def test_seeds_and_examples_both_stand_behind_the_p_value() -> None:
    """An interval over seeds without zero beside a large p-value is no contradiction: the text says whose it is."""
    two = right_of_20("a", 19, 19, 20, 18, 19) + right_of_20("b", 18, 18, 18, 18, 18)
    text = compared(two)
    assert (
        "a is ahead of b by 0.050 (0.006 to 0.094) on test in pairs over 5 seeds; McNemar's test of the accuracy"
        in text
    )
    assert "p below 0.05 in 0 of 5 seeds. The larger p-value of the two tests: p = 1.00. " in text
    assert "So a comes out ahead over seeds, but test sets this small do not decide between it and b." in text
    # Of several comparisons one such lead comes by chance.
    four = two + right_of_20("c", 10, 10, 10, 10, 10) + right_of_20("d", 9, 9, 9, 9, 9)
    of_b = compared(four).partition("a is ahead of c")[0]
    assert "Holm's correction for 6 comparisons. Which is better is not decided by these runs." in of_b
