"""The report of a sweep: what it concludes, shows and leaves open."""

from pathlib import Path

import pytest

from porism.report.sweep_page import conclusions, decide, write_sweep
from porism.report.sweep_plots import columns, plots
from porism.runs.sweep import Outcome, SweepRecord, SweepTrial

SEEDS = (1, 2, 3, 4, 5)


def trial(number: int, scores: tuple[float, ...], outcome: Outcome = "done", **setting: object) -> SweepTrial:
    value = sum(scores) / len(scores) if scores else None
    return SweepTrial(number, setting, outcome, value, scores, reason="the loss is nan" if not scores else "")


def record(*trials: SweepTrial, seeds: tuple[int, ...] = SEEDS) -> SweepRecord:
    importances = {"hidden_size": 0.75, "learning_rate": 0.25}
    return SweepRecord("language", None, "perplexity", True, seeds, tuple(importances), trials, importances)


SPREAD = (0.0, 0.1, -0.1, 0.05, -0.05)
BETTER = trial(1, tuple(5 + spread for spread in SPREAD), hidden_size=4, learning_rate=0.01)
WORSE = trial(2, tuple(9 - spread for spread in SPREAD), hidden_size=8, learning_rate=1.0)
LOST = trial(3, (), "diverged", hidden_size=16, learning_rate=1.0)


def test_five_seeds_decide_and_fewer_do_not() -> None:
    found = decide(record(BETTER, WORSE, LOST))
    assert found is not None
    assert found.leader_is_best
    said = " ".join(conclusions(record(WORSE, BETTER, LOST)))
    assert said.startswith("Trial 1 (hidden_size=4, learning_rate=0.01) is best of 2 on valid: perplexity 5.000 ±")
    assert "So trial 1 is the better of the two" in said
    assert "Without a result: trial 3 diverged." in said
    few = [trial(one.number, one.scores[:4], **one.setting) for one in (BETTER, WORSE)]
    said = " ".join(conclusions(record(*few, seeds=SEEDS[:4])))
    assert "Which is better is not decided: that takes 5 seeds." in said


def test_of_several_settings_it_says_how_many_are_worse() -> None:
    third = trial(4, tuple(9.5 - spread for spread in SPREAD), hidden_size=8, learning_rate=0.1)
    alike = trial(4, BETTER.scores[::-1], hidden_size=5, learning_rate=0.1)
    assert "It is decided to be better than each of the 2 other settings." in conclusions(record(BETTER, WORSE, third))
    partly = conclusions(record(BETTER, WORSE, alike))
    assert "It is decided to be better than 1 of the 2 other settings, which takes 5 seeds or more." in partly


def test_the_chosen_setting_alone_has_figures_on_test(tmp_path: Path) -> None:
    tests = [{"metrics": {"valid": {"perplexity": 5.0}, "test": {"perplexity": 6.0 + number}}} for number in range(2)]
    said = conclusions(record(BETTER, WORSE), tests)
    assert any(sentence.startswith("On test, for this setting: perplexity 6.5") for sentence in said)
    page = write_sweep(record(WORSE, BETTER, LOST), tmp_path / "report.html", "porism sweep", tests).read_text()
    assert page.index("trial</th>") < page.index(">1</th>") < page.index(">2</th>") < page.index(">3</th>")
    assert "diverged: the loss is nan" in page
    assert "done (chosen)" in page
    assert page.count("<svg") == 2


def test_lines_cross_each_axis_at_their_value_on_the_scale_that_fits() -> None:
    middle = trial(4, (7.0,) * 5, hidden_size=6, learning_rate=0.1)
    size, rate, value = columns(record(BETTER, WORSE, middle))
    # Best first: trials 1, 4 and 2.
    assert size.heights == [0.0, 0.5, 1.0]
    assert rate.heights == pytest.approx([0.0, 0.5, 1.0])  # on a log scale
    assert value.heights == pytest.approx([0.0, 0.5, 1.0])
    assert [text for _, text in rate.ticks] == ["0.01", "0.1", "1"]
    near = trial(4, (5.01,) * 5, hidden_size=6, learning_rate=0.1)
    labels = [text for _, text in columns(record(BETTER, WORSE, near))[2].ticks]
    assert labels == [f"{one.value:.4g}" for one in (BETTER, WORSE)]  # that of the third would overlap


def test_one_trial_has_no_lines_and_none_no_page_of_plots() -> None:
    assert [plot.title for plot in plots(record(BETTER))] == ["Importance of each field for perplexity on valid"]
    assert conclusions(record(LOST)) == ["None of 1 trials has a result."]
    assert decide(record(BETTER)) is None


def test_settings_that_are_level_on_valid_are_named() -> None:
    trials = (trial(1, (0.95,), rate=1), trial(2, (0.9,), rate=2), trial(3, (0.9,), rate=3))
    first = conclusions(record(*trials, seeds=(1,)))[0]
    assert first.startswith("Trial 2 (rate=2) is best of 3 on valid, level with trial 3 (rate=3): ")
