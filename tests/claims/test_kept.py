"""Kept results are read with care, and decide what their seeds carry."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from porism.claims.claim import Empirical, Ruling
from porism.claims.decide import decide
from porism.claims.kept import rulings
from porism.claims.kept.experiments import EXPERIMENTS
from porism.claims.kept.result import KeptResult, KeptRun, decode_kept, encode_kept, kept_results, read_kept
from porism.claims.kept.timing import longer_with_heads, quadratic_in_length
from porism.claims.ledger import all_claims
from porism.claims.topics.images import rulings as images
from porism.claims.topics.recurrent import rulings as language
from porism.claims.topics.speech import rulings as speech
from porism.errors import ClaimError
from porism.tasks import find
from porism.tasks.images.recipes import PUBLISHED as IMAGES
from porism.tasks.language.published import PUBLISHED, PUBLISHED_EPOCHS, TABLE_RUNS
from porism.tasks.speech.recipes import PUBLISHED as SPEECH

EMPIRICAL = [claim for claim in all_claims().values() if isinstance(claim, Empirical)]
ANSWERS = {
    "000-18": True,
    "000-25b": False,
    "000-27": False,
    "000-29": False,
    "001-32": True,
    "001-34a": False,
    "001-34b": True,
    "001-35": False,
    "002-07a": True,
    "002-20": True,
    "002-21": True,
    "003-35a": True,
    "003-36a": True,
    "003-38": True,
    "003-39b": True,
    "003-44": False,
    "003-53": False,
    "004-06b": True,
    "004-07": True,
}
"""What the results in the package decide."""


def result(*runs: tuple[dict[str, Any], list[dict[str, float]]], name: str = "test") -> KeptResult:
    """Settings with the numbers of seed 1, 2, ..."""
    found = [KeptRun(settings, seed, numbers) for settings, seeds in runs for seed, numbers in enumerate(seeds, 1)]
    return KeptResult(name, "porism x", "digits", {"cpu": "a"}, {"porism": "0.2"}, tuple(found))


def seeds(number: str, *values: float) -> list[dict[str, float]]:
    return [{number: value} for value in values]


def around(middle: float, step: float = 1) -> list[float]:
    """Numbers of five seeds, enough to decide."""
    return [middle + step * off for off in (-1, 0, 1, 0, 0)]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kept = result(({"recipe": "a", "learning_rate": 0.1}, seeds("test.accuracy", 0.5, 0.6)))
    (tmp_path / "test.json").write_bytes(encode_kept(kept))
    assert read_kept("test", tmp_path) == kept
    assert read_kept("other", tmp_path) is None
    assert kept.number({"recipe": "a"}, "test.accuracy") == [0.5, 0.6]
    assert (kept.seeds, kept.fewest_seeds) == (2, 2)
    with pytest.raises(ClaimError, match="has no test.loss"):
        kept.number({"recipe": "a"}, "test.loss")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": []}, "holds no run"),
        ({"extra": 1}, "not a kept result"),
        ({"runs": [{"settings": {}, "seed": 1, "numbers": {}}] * 2}, "of seed 1 twice"),
        ({"runs": [{"settings": {}, "seed": "1", "numbers": {}}]}, "not a kept result"),
        ({"command": None}, "not a kept result"),
    ],
)
def test_a_broken_result_is_refused(change: dict[str, Any], message: str) -> None:
    whole = msgspec.to_builtins(result(({}, seeds("x", 1.0))))
    with pytest.raises(ClaimError, match=message):
        decode_kept(json.dumps(whole | change).encode(), "here")


def test_numbers_that_are_not_finite_are_refused() -> None:
    text = encode_kept(result(({}, seeds("x", 1.0)))).replace(b"1.0", b"1e999")
    with pytest.raises(ClaimError, match="no finite number|not a kept result"):
        decode_kept(text, "here")


def test_all_results_of_the_package_decide_what_the_ledger_says() -> None:
    found = {claim.id: decide(claim) for claim in EMPIRICAL}
    assert {number: one.answer for number, one in found.items() if one.by} == ANSWERS
    assert not [number for number, one in found.items() if one.outcome == "fail"]
    used = {claim.kept for claim in EMPIRICAL}
    assert set(kept_results()) <= used
    for name in kept_results():
        kept = read_kept(name)
        assert kept is not None
        assert kept.name == name
        assert kept.command
        assert {"porism", "python", "torch"} <= kept.versions.keys()


def test_every_empirical_claim_says_how_it_could_be_decided() -> None:
    for claim in EMPIRICAL:
        if claim.way == "not by training":
            assert claim.reason, claim.id
        else:
            assert claim.command, claim.id
        if claim.way == "other data":
            assert claim.reason, claim.id
        if claim.kept:
            assert claim.kept in EXPERIMENTS, claim.id


def test_experiments_name_what_the_tasks_have() -> None:
    for experiment in EXPERIMENTS.values():
        for comparison in experiment.comparisons:
            task = find(comparison.task)
            assert set(comparison.recipes) <= {*task.recipes, *task.experiments}, experiment.name


def test_a_missing_result_leaves_a_claim_open(tmp_path: Path) -> None:
    claim = all_claims()["001-32"]
    decision = decide(claim, tmp_path)
    assert (decision.outcome, decision.kept) == ("open", "no result language-table is kept yet")


def test_ranks() -> None:
    assert rulings.rank_correlation([1, 2, 3, 4], [1, 2, 3, 4]) == 1
    assert rulings.rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == -1
    # By hand: 1 - 6 (1 + 1) / (4 15).
    assert rulings.rank_correlation([1, 2, 3, 4], [2, 1, 3, 4]) == pytest.approx(0.8)
    assert rulings.rank_correlation([1, 1, 2], [1, 1, 2]) == pytest.approx(1)
    assert rulings.chance_of_rank(range(8), range(8)) < 0.01
    assert rulings.chance_of_rank(range(8), [3, 6, 1, 4, 7, 0, 5, 2]) > 0.05


def test_about_is_a_tenth_with_the_interval() -> None:
    assert rulings.is_about([200.0, 201.0, 199.0], 200) is True
    assert rulings.is_about([300.0, 301.0, 299.0], 200) is False
    assert rulings.is_about([150.0, 250.0, 200.0], 200) is None


def table(change: dict[str, list[dict[str, float]]] | None = None, count: int = 5) -> KeptResult:
    """The published table as if it were ours."""
    rows = []
    for name, published in ((name, PUBLISHED[name]) for name in TABLE_RUNS):
        numbers = {f"{split}.perplexity": scores["perplexity"] for split, scores in published.items()}
        epochs = {**dict.fromkeys(TABLE_RUNS, 20), "table-07": 5, **PUBLISHED_EPOCHS}[name]
        rows.append(
            (
                {"recipe": name},
                (change or {}).get(name, [numbers | {"epochs": epochs + seed} for seed in (-1, 0, 1, 0, 0)]),
            )
        )
    return result(*((settings, runs[:count]) for settings, runs in rows))


def test_the_table_is_judged_by_its_order() -> None:
    assert language.order_of_the_table(table()).answer is True
    splits = ("train", "valid", "test")
    turned = {
        name: [{f"{split}.perplexity": 1 / PUBLISHED[name][split]["perplexity"] for split in splits}]
        for name in TABLE_RUNS
    }
    assert language.order_of_the_table(table(turned)).answer is False


def test_epochs_are_judged_over_seeds() -> None:
    epochs = language.epochs_as_published("table-09", "table-10", "table-12")
    assert language.fewer_epochs_with_larger_rate(table()).answer is True
    assert epochs(table()).answer is True
    for rule in (language.fewer_epochs_with_larger_rate, epochs):
        few = rule(table(count=1))
        assert few.answer is None
        assert "1 seed, where 5 are needed" in few.evidence
    slow = {"table-09": seeds("epochs", *around(41)), "table-10": seeds("epochs", *around(26))}
    assert language.fewer_epochs_with_larger_rate(table(slow)).answer is False
    assert epochs(table(slow)).answer is False


WIDTHS = ({"embedding_dim": 256, "hidden_size": 512}, {"embedding_dim": 2048, "hidden_size": 4096})


def widths(wide: float, widest: float, seconds: float) -> KeptResult:
    def numbers(perplexity: float, seconds: float) -> list[dict[str, float]]:
        return [{"test.perplexity": p, "epoch_seconds": seconds} for p in around(perplexity)]

    return result((WIDTHS[0], numbers(wide, 10)), (WIDTHS[1], numbers(widest, seconds)))


def test_widths() -> None:
    about = language.perplexity_about(200.0)
    assert [about(widths(wide, 140, 1)).answer for wide in (200, 164)] == [True, False]
    rule = language.widest_is_better_and_slower
    assert [rule(widths(164, 140, seconds)).answer for seconds in (120, 50)] == [True, False]
    assert rule(widths(164, 180, 120)).answer is False


def test_steps_rates_and_batches() -> None:
    def steps(*perplexities: float) -> KeptResult:
        lengths = zip((1, 3, 30), perplexities, strict=True)
        return result(*(({"seq_len": n}, seeds("test.perplexity", *around(p))) for n, p in lengths))

    rule: Any = language.steps_make_little_difference
    assert [rule(steps(900, 160, p)).answer for p in (162, 200)] == [True, False]

    def rates(*perplexities: float) -> KeptResult:
        grid = [(rate, batch) for rate in (0.001, 0.01) for batch in (64, 128)]
        settings = [{"recipe": "a", "learning_rate": rate, "batch_size": batch} for rate, batch in grid]
        both = zip(settings, perplexities, strict=True)
        return result(*((one, seeds("test.perplexity", *around(p))) for one, p in both))

    rule = language.rate_and_batch_make_little_difference
    assert rule(rates(160, 161, 162, 160)).answer is True
    refused = rule(rates(160, 161, 200, 201))
    assert refused.answer is False
    assert "a, learning rate: 1.25 times, a, batch: 1.01 times" in refused.evidence


def pooling(pooled: float, strided: float) -> KeptResult:
    runs = []
    for recipe, best in (("pooled", pooled), ("strided", strided)):
        for rate, less in ((0.1, 0.2), (0.01, 0.0), (0.001, 0.1)):
            accuracies = around(best - less, 0.001)
            numbers = [{"valid.accuracy": a, "test.accuracy": a} for a in accuracies]
            runs.append(({"recipe": recipe, "learning_rate": rate}, numbers))
    return result(*runs)


def test_pools_and_strides() -> None:
    assert images.best_rate("pooled")(pooling(0.9, 0.8)).answer is True
    assert images.strides_are_worse(pooling(0.9, 0.8)).answer is True
    assert images.strides_are_worse(pooling(0.8, 0.9)).answer is False
    assert images.nets_differ(pooling(0.8, 0.9)).answer is True
    even = pooling(0.9, 0.9)
    assert images.strides_are_worse(even).answer is images.nets_differ(even).answer is None
    others = {run.settings["learning_rate"]: run for run in pooling(0.9, 0.8).runs}
    other_best = result(*(({"recipe": "pooled", "learning_rate": {0.1: 0.01, 0.01: 0.1}.get(float(rate), rate)},
                           [run.numbers] * 5) for rate, run in others.items()))  # fmt: skip
    assert images.best_rate("pooled")(other_best).answer is False


def test_overfitting_is_less_more_or_as_much() -> None:
    def gaps(more: float, spread: float = 0.001) -> KeptResult:
        def numbers(gaps: list[float]) -> list[dict[str, float]]:
            return [{"test.accuracy": 0.8, "train.accuracy": 0.8 + gap} for gap in gaps]

        pooled, strided = numbers([0.05] * 5), numbers(around(0.05 + more, spread))
        return result(({"recipe": "pooled"}, pooled), ({"recipe": "strided"}, strided))

    answers = {0.01: True, -0.01: False, 0.0: False}
    assert {more: images.pools_overfit_less(gaps(more)).answer for more in answers} == answers
    assert images.pools_overfit_less(gaps(0.0, spread=0.01)).answer is None, "it may be more than a tenth of the gap"


def completion(grid: float, sequence: float, convolution: float) -> KeptResult:
    """Each net at two rates, of which the second has 0.1 bits more."""
    wiggle = (0.001, 0.0, 0.002, 0.0, 0.001)
    return result(
        *(
            (
                {"recipe": recipe, "learning_rate": rate},
                [{f"{split}.bits_per_dimension": n + more + place * w for split in ("valid", "test")} for w in wiggle],
            )
            for place, (recipe, n) in enumerate(
                {"complete": grid, "complete-sequence": sequence, "complete-convolution": convolution}.items()
            )
            for rate, more in ((0.01, 0.0), (0.001, 0.1))
        )
    )


def test_completion_by_the_grid_is_compared_with_every_other_net() -> None:
    rule = images.grid_completes_better
    assert rule(completion(2.0, 2.2, 2.1)).answer is True
    assert rule(completion(2.0, 2.2, 1.9)).answer is False
    assert rule(completion(2.0, 2.2, 1.9992)).answer is None, "one of the others is neither better nor worse"
    alone = result(({"recipe": "complete", "learning_rate": 0.01}, seeds("valid.bits_per_dimension", *around(2.0))))
    assert rule(alone).answer is None


def test_the_grid() -> None:
    def nets(grid: float) -> KeptResult:
        return result(
            ({"recipe": "grid-4"}, seeds("train.cross_entropy", *around(grid + 0.01, 0.01))),
            ({"recipe": "convolution-equal"}, seeds("train.cross_entropy", 0.3, 0.311, 0.32, 0.311, 0.31)),
        )

    assert [images.grid_learns_less(nets(grid)).answer for grid in (0.5, 0.1)] == [True, False]
    embedded = images.grid_learns_less(msgspec.structs.replace(nets(0.5), data=""))
    assert embedded.answer is None
    assert "a grid of 4 x 4 patches" in embedded.evidence


def decoders(lstm: dict[str, float], attention: dict[str, float]) -> KeptResult:
    wiggle = (0.999, 1.0, 1.0015, 1.0, 0.9995)
    return result(
        *(
            ({"recipe": name}, [{key: value * w**place for key, value in numbers.items()} for w in wiggle])
            for place, (name, numbers) in enumerate({"lstm-guided": lstm, "attention": attention}.items(), 1)
        )
    )


def test_decoders() -> None:
    def losses(*values: float) -> dict[str, float]:
        return {f"valid.loss@{epoch}": value for epoch, value in enumerate(values, 1)} | {"valid.loss": values[-1]}

    rule: Any = speech.lstm_is_lower_at_first
    lower = losses(2.0, 2.0, 2.0, 2.0, 2.0)
    assert rule(decoders(lower, losses(2.5, 2.6, 3.0, 2.3, 1.9))).answer is True
    assert rule(decoders(losses(2.5, 2.6, 3.0, 2.3, 1.9), lower)).answer is False
    assert rule(decoders(lower, losses(2.5, 3.0, 2.9, 2.3, 1.9))).answer is False, "it is widest in the second epoch"
    assert rule(decoders(lower, losses(2.5, 2.6, 3.0, 3.1, 3.2))).answer is False, "it stays behind"
    words = {speech.WORDS: 0.9, speech.SIMILARITY: 0.5, speech.REPLACED: 0.4}
    close = {speech.WORDS: 0.7, speech.SIMILARITY: 0.8, speech.REPLACED: 0.1}
    for rule in (speech.lstm_writes_words_attention_is_closer, speech.errors_are_of_other_kinds):
        assert rule(decoders(words, close)).answer is True
        assert rule(decoders(close, words)).answer is False


def test_times() -> None:
    def lengths(*times: float) -> KeptResult:
        sizes = zip((1024, 4096, 8192), times, strict=True)
        return result(*(({"T": T}, [{"milliseconds": time}]) for T, time in sizes))

    assert [quadratic_in_length(lengths(1, 10, time)).answer for time in (39, 20)] == [True, False]
    short = result(({"T": 64}, [{"milliseconds": 1}]), ({"T": 128}, [{"milliseconds": 4}]))
    assert quadratic_in_length(short).answer is None

    def heads(*factors: float) -> KeptResult:
        turns = [1.0 + turn / 10 for turn in range(11)]
        counts = zip((1, 2, 4), (1.0, *factors), strict=True)
        return result(*(({"A": A}, seeds("milliseconds", *(f * turn for turn in turns))) for A, f in counts))

    assert [longer_with_heads(heads(1.2, f)).answer for f in (1.5, 0.8)] == [True, False]
    few = result(({"A": 1}, seeds("milliseconds", 1.0)), ({"A": 2}, seeds("milliseconds", 2.0)))
    assert longer_with_heads(few) == Ruling(None, "1 turns, where 11 are needed")
    either = result(*(({"A": A}, seeds("milliseconds", *range(A, 12 * A, A)[:: 3 - 2 * A])) for A in (1, 2)))
    assert longer_with_heads(either).answer is None


def relabelled(kept: KeptResult, setting: str, exchanged: dict[Any, Any]) -> KeptResult:
    """The result with values of a setting in each other's place."""
    runs = [
        msgspec.structs.replace(
            run, settings=run.settings | {setting: exchanged.get(run.settings[setting], run.settings[setting])}
        )
        for run in kept.runs
        if setting in run.settings
    ]
    return msgspec.structs.replace(kept, runs=tuple(runs))


def scaled(kept: KeptResult, factor: float, *names: str) -> KeptResult:
    """The result with some of its numbers, all of them without a name, times a factor."""
    runs = [
        msgspec.structs.replace(
            run, numbers={name: n * (factor if name in names else 1) for name, n in run.numbers.items()}
        )
        for run in kept.runs
    ]
    return msgspec.structs.replace(kept, runs=tuple(runs))


def exchanged(kept: KeptResult, first: str, second: str) -> KeptResult:
    """The result with two numbers of every run in each other's place."""
    runs = [
        msgspec.structs.replace(run, numbers=run.numbers | {first: run.numbers[second], second: run.numbers[first]})
        for run in kept.runs
    ]
    return msgspec.structs.replace(kept, runs=tuple(runs))


def turned(kept: KeptResult) -> KeptResult:
    """The rows of the table in the opposite order."""
    return relabelled(kept, "recipe", dict(zip(TABLE_RUNS, reversed(TABLE_RUNS), strict=True)))


def evened(kept: KeptResult) -> KeptResult:
    """All settings with the numbers of the first."""
    first = {run.seed: run.numbers for run in kept.runs if run.settings == kept.runs[0].settings}
    return msgspec.structs.replace(
        kept, runs=tuple(msgspec.structs.replace(run, numbers=first[run.seed]) for run in kept.runs)
    )


EPOCHS = {"table-02": "table-07", "table-07": "table-02", "table-09": "table-10", "table-10": "table-09"}
NETS = {"pooled": "strided", "strided": "pooled"}
RATES = {0.01: 0.1, 0.1: 0.01}
MUTANTS: dict[str, Callable[[KeptResult], KeptResult]] = {
    "000-18": lambda kept: relabelled(kept, "A", {1: 64, 64: 1}),
    "000-25b": lambda kept: scaled(kept, 200 / 135, "test.perplexity"),
    "000-27": evened,
    # Half as long an epoch of the narrower net, and less: then ten times as long is too little.
    "000-29": lambda kept: msgspec.structs.replace(
        kept,
        runs=tuple(
            run if run.settings["hidden_size"] != 512 else scaled_run(run, 1 / 3, "epoch_seconds") for run in kept.runs
        ),
    ),
    "001-32": turned,
    "001-34a": lambda kept: scaled(kept, 4 / 5, "epochs"),
    "001-34b": lambda kept: relabelled(kept, "recipe", EPOCHS),
    "001-35": lambda kept: scaled(kept, 17 / 18, "epochs"),
    "002-07a": lambda kept: relabelled(kept, "T", {8192: 16384, 16384: 8192}),
    "002-20": lambda kept: relabelled(kept, "learning_rate", RATES),
    "002-21": lambda kept: relabelled(kept, "learning_rate", RATES),
    "003-35a": lambda kept: relabelled(kept, "learning_rate", RATES),
    "003-36a": lambda kept: relabelled(kept, "recipe", NETS),
    "003-38": evened,
    "003-39b": lambda kept: relabelled(kept, "recipe", NETS),
    "003-44": lambda kept: exchanged(kept, "valid.loss@2", "valid.loss@3"),
    "003-53": evened,
    "004-06b": lambda kept: relabelled(
        kept, "recipe", {"complete": "complete-convolution", "complete-convolution": "complete"}
    ),
    "004-07": lambda kept: relabelled(kept, "recipe", {"grid-4": "convolution-equal", "convolution-equal": "grid-4"}),
}
"""For every claim that a kept run decides, a change of the run's numbers that it must notice."""


def scaled_run(run: KeptRun, factor: float, name: str) -> KeptRun:
    return msgspec.structs.replace(run, numbers=run.numbers | {name: run.numbers[name] * factor})


def test_every_claim_that_a_run_decides_has_a_mutant() -> None:
    assert MUTANTS.keys() == ANSWERS.keys()


@pytest.mark.parametrize("number", MUTANTS)
def test_other_numbers_of_a_run_change_what_it_decides(number: str, tmp_path: Path) -> None:
    claim = all_claims()[number]
    assert isinstance(claim, Empirical)
    kept = read_kept(claim.kept)
    assert kept is not None
    (tmp_path / f"{claim.kept}.json").write_bytes(encode_kept(MUTANTS[number](kept)))
    decision = decide(claim, tmp_path)
    assert decision.outcome != "fail", decision.why
    assert decision.answer is not ANSWERS[number], decision.kept


def test_a_time_is_repeated_in_turns() -> None:
    assert "(101 turns, " in decide(all_claims()["000-18"]).kept
    assert "5 seeds" in decide(all_claims()["001-32"]).kept


def test_published_accuracies_and_similarities_are_judged_with_their_intervals() -> None:
    accuracy = IMAGES["pooled"]["test"]["accuracy"]

    def nets(factor: float, step: float = 0.001) -> KeptResult:
        return result(({"recipe": "pooled"}, seeds("test.accuracy", *around(accuracy * factor, step))))

    rule = images.reaches_published("pooled")
    assert [rule(nets(factor)).answer for factor in (1.0, 1.2, 0.8)] == [True, False, False]
    assert rule(nets(1.1, 0.05)).answer is None
    decoder = speech.reaches_published("lstm-ljspeech")

    def lstm(**changes: float) -> KeptResult:
        numbers = SPEECH["lstm-ljspeech"]["test"] | changes
        found = {f"test.{name}": value for name, value in numbers.items()}
        return result(({"recipe": "lstm-ljspeech"}, [{k: v * w for k, v in found.items()} for w in around(1, 0.001)]))

    assert decoder(lstm()).answer is True
    for metric, number in SPEECH["lstm-ljspeech"]["test"].items():
        assert decoder(lstm(**{metric: 1.3 * number})).answer is False, metric
