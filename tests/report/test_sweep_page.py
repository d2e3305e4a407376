"""The report of a sweep: what it concludes, shows and leaves open."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from porism.report.drawing import INK, role
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
SPREAD_ANEW = tuple(5 + spread for spread in (0.1, 0.05, -0.05, -0.1, 0.0))
BETTER = trial(1, tuple(5 + spread for spread in SPREAD), hidden_size=4, learning_rate=0.01)
WORSE = trial(2, tuple(9 - spread for spread in SPREAD), hidden_size=8, learning_rate=1.0)
LOST = trial(3, (), "diverged", hidden_size=16, learning_rate=1.0)


def test_five_seeds_decide_and_fewer_do_not() -> None:
    found = decide(record(BETTER, WORSE, LOST))
    assert found is not None
    assert found.leader_is_best
    said = " ".join(conclusions(record(WORSE, BETTER, LOST)))
    assert said.startswith("Trial 1 (hidden_size=4, learning_rate=0.01) is best of 2 on valid: perplexity 5.000 ±")
    assert "on valid in pairs over 5 seeds" in said  # and not on test, which no other setting has
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
    assert "It is decided to be better than 1 of the 2 other settings." in partly
    level = [alike, trial(5, SPREAD_ANEW, hidden_size=6, learning_rate=0.1)]
    assert "None of the 2 other settings is decided to be worse." in conclusions(record(BETTER, *level))
    few = [trial(one.number, one.scores[:4], **one.setting) for one in (BETTER, WORSE, third)]
    said = "None of the 2 other settings is decided to be worse, which takes 5 seeds or more."
    assert said in conclusions(record(*few, seeds=SEEDS[:4]))


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


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def heights(path: ElementTree.Element) -> list[float]:
    """Of the corners of a line, from the top down."""
    return [float(y) for y in re.findall(r",([\d.]+)", path.get("d") or "")]


MIDDLE = trial(4, (7.0,) * 5, hidden_size=6, learning_rate=0.1)


def test_each_trial_with_a_result_is_a_line_over_all_axes_and_the_chosen_one_stands_out() -> None:
    parallel = drawn(plots(record(WORSE, LOST, BETTER, MIDDLE))[0].svg)
    lines = [path for path in parallel.findall("path") if len(heights(path)) == 3]
    # The worst first, so that better ones lie over it; all three fields and the metric rise together.
    first, second, third = ([pytest.approx(heights(line)[0])] * 3 for line in lines)
    assert [heights(line) for line in lines] == [first, second, third]
    assert heights(lines[0])[0] < heights(lines[1])[0] < heights(lines[2])[0]
    assert [line.get("stroke") for line in lines] == [INK, INK, role(1)]
    shades = [float(line.get("stroke-opacity", 1)) for line in lines]
    assert shades == sorted(set(shades))
    assert shades[-1] == 1
    assert float(lines[-1].get("stroke-width", 0)) > float(lines[0].get("stroke-width", 0))
    assert [text.text for text in parallel.findall("text")] == [
        *("hidden_size", "learning_rate", "valid perplexity"),
        *("4", "6", "8"),
        *("0.01", "0.1", "1"),
        *("5", "7", "9"),
    ]


def test_importances_are_bars_the_largest_on_top() -> None:
    made = replace(record(BETTER, WORSE), importances={"hidden_size": 0.25, "learning_rate": 0.7, "dropout": 0.05})
    both = plots(made)
    assert [plot.title for plot in both] == [
        "Trials in parallel coordinates, by perplexity on valid",
        "Importance of each field for perplexity on valid",
    ]
    importance = drawn(both[1].svg)
    (bars,) = (path.get("d") or "" for path in importance.findall("path") if path.get("fill") == role(1))
    corners = [list(map(float, re.findall(r"[\d.]+", bar))) for bar in bars.split("z")[:-1]]
    widths = [right - left for left, _, right, _, _ in corners]
    assert [width / widths[2] for width in widths] == [
        pytest.approx(share / 0.7, abs=0.01) for share in (0.05, 0.25, 0.7)
    ]
    names = [text for text in importance.findall("text") if text.get("text-anchor") == "end"]
    assert [name.text for name in names] == ["dropout", "hidden_size", "learning_rate"]
    # The drawing counts down from the top.
    tops = [min(low, high) for _, low, _, high, _ in corners]
    assert tops == sorted(tops, reverse=True)
    for name, (_, low, _, high, _) in zip(names, corners, strict=True):
        assert min(low, high) < float(name.get("y", 0)) < max(low, high)


def test_the_page_shows_both_plots_or_says_why_there_are_no_importances(tmp_path: Path) -> None:
    page = write_sweep(record(BETTER, WORSE), tmp_path / "both.html", "porism sweep").read_text()
    titles = [
        "Trials in parallel coordinates, by perplexity on valid",
        "Importance of each field for perplexity on valid",
    ]
    assert re.findall(r'<svg [^>]*aria-label="([^"]*)"', page) == titles
    parallel, importance = (found.group() for found in re.finditer(r"<svg .*?</svg>", page, re.DOTALL))
    for drawn, texts in (
        (parallel, ["valid perplexity", "0.01", "9"]),
        (importance, ["share of the variance over trials"]),
    ):
        assert all(f">{text}</text>" in drawn for text in ["hidden_size", "learning_rate", *texts])
        assert "var(--series-1)" in drawn
    assert "functional ANOVA" in page
    why = replace(record(BETTER, WORSE), importances=None, why_no_importances="one field alone is tried")
    page = write_sweep(why, tmp_path / "one.html", "porism sweep").read_text()
    assert re.findall(r'<svg [^>]*aria-label="([^"]*)"', page) == titles[:1]
    assert "No importances: one field alone is tried." in page
    assert "functional ANOVA" not in page
