"""Error rates and similarities, against a library's and against cases worked out by hand."""

import random

import numpy as np
import pytest
import textdistance

from porism.runs.statistics import bootstrap_interval, resample
from porism.tasks.speech.exhibits.transcripts import _metrics
from porism.tasks.speech.metric import (
    SIMILARITIES,
    between_sos_and_eos,
    character_errors,
    cosine,
    damerau_levenshtein,
    intervals,
    jaccard,
    measure,
    reported_interval,
    shares,
)

THEIRS = {
    "jaccard": textdistance.Jaccard(qval=1),
    "cosine": textdistance.Cosine(qval=1),
    "damerau_levenshtein": textdistance.DamerauLevenshtein(qval=1, restricted=True),
}


def random_pairs(count: int) -> list[tuple[list[str], list[str]]]:
    """Sequences of few letters and any length, half of them little changed from one to the other."""
    draw = random.Random(1)
    pairs = []
    for number in range(count):
        first = [draw.choice("abcd ") for _ in range(draw.randrange(1, 30))]
        second = [draw.choice("abcd ") for _ in range(draw.randrange(1, 30))]
        if number % 2:
            second = list(first)
            index = draw.randrange(len(second))
            second[index : index + 2] = reversed(second[index : index + 2])
            second.insert(draw.randrange(len(second)), "e")
        pairs.append((between_sos_and_eos("".join(first)), between_sos_and_eos("".join(second))))
    return pairs


@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_similarities_are_those_of_textdistance(name: str) -> None:
    for first, second in random_pairs(1000):
        assert SIMILARITIES[name](first, second) == pytest.approx(THEIRS[name].normalized_similarity(first, second))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("abc", "abc", (1, 1, 1)),
        ("abc", "xyz", (0, 0, 0)),
        ("aab", "abb", (2 / 4, 2 / 3, 2 / 3)),
        ("ab", "ba", (1, 1, 1 / 2)),
        # Without the restriction two steps would do: ca, ac, abc.
        ("ca", "abc", (2 / 3, 2 / 6**0.5, 0)),
        ("a", "aaaa", (1 / 4, 1 / 2, 1 / 4)),
        ("", "ab", (0, 0, 0)),
        ("", "", (1, 1, 1)),
    ],
)
def test_cases_by_hand(first: str, second: str, expected: tuple[float, float, float]) -> None:
    assert (jaccard(first, second), cosine(first, second), damerau_levenshtein(first, second)) == pytest.approx(
        expected
    )
    assert (jaccard(second, first), cosine(second, first), damerau_levenshtein(second, first)) == pytest.approx(
        expected
    )


def test_jaccard_and_cosine_do_not_see_the_order() -> None:
    sentence = "where is the small red box"
    for seed in range(20):
        shuffled = "".join(random.Random(seed).sample(sentence, len(sentence)))
        metrics = measure([sentence], [shuffled])
        assert metrics["jaccard"] == metrics["cosine"] == 1
        assert metrics["damerau_levenshtein"] < 0.6
        assert metrics["cer"] > 0.4


def test_error_rates_are_summed_before_they_are_divided() -> None:
    """One edit in eleven characters and none in one: 1/12, where the mean of the two rates would be 1/22."""
    metrics = measure(["the red box", "a"], ["the red fox", "a"])
    assert metrics["cer"] == 1 / 12
    assert metrics["wer"] == 1 / 4
    assert metrics["exact"] == 1 / 2


def test_insertions_can_make_more_errors_than_there_are_words() -> None:
    assert measure(["go"], ["go go go"])["wer"] == 2


def test_similarities_are_means_over_sentences_between_sos_and_eos() -> None:
    metrics = measure(["ab", "a"], ["ba", "b"])
    # <ab>, <ba>: all four alike; <a>, <b>: sos and eos of four different symbols.
    assert metrics["jaccard"] == pytest.approx((1 + 2 / 4) / 2)
    assert metrics["damerau_levenshtein"] == pytest.approx((3 / 4 + 2 / 3) / 2)


def test_words_are_compared_without_marks() -> None:
    metrics = measure(["put the box here"], ["put box the there"])
    assert metrics["word_jaccard"] == pytest.approx(3 / 5)
    assert metrics["word_cosine"] == pytest.approx(3 / 4)
    # the and box are swapped, here is replaced.
    assert metrics["word_damerau_levenshtein"] == pytest.approx(1 - 2 / 4)


def test_what_is_silent_has_no_errors_to_divide() -> None:
    assert measure([""], [""])["cer"] == 0
    assert measure([""], ["a"])["cer"] == float("inf")


def test_every_hypothesis_needs_a_reference() -> None:
    with pytest.raises(ValueError, match="shorter"):
        measure(["a", "b"], ["a"])


def test_an_interval_holds_the_value_and_repeats() -> None:
    draw = random.Random(2)
    references = ["".join(draw.choices("abcdef ", k=20)) for _ in range(60)]
    hypotheses = [text.replace("a", "b") for text in references]
    values = measure(references, hypotheses)
    metrics = intervals(references, hypotheses, seed=3)
    assert metrics == intervals(references, hypotheses, seed=3)
    assert metrics["cer"] != intervals(references, hypotheses, seed=4)["cer"]
    assert metrics.keys() == values.keys()
    for name in ("cer", "wer", "jaccard", "damerau_levenshtein"):
        low, high = metrics[name]
        assert low < values[name] < high


def test_an_interval_narrows_with_more_sentences() -> None:
    """With 16 times as many sentences it is about a quarter as wide."""
    draw = random.Random(5)
    references = ["".join(draw.choices("abcd", k=10)) for _ in range(40)]
    hypotheses = [text.replace("a", "") for text in references]
    few, many = (intervals(references * times, hypotheses * times)["cer"] for times in (1, 16))
    assert (few[1] - few[0]) / (many[1] - many[0]) == pytest.approx(4, rel=0.2)


def test_an_interval_is_wide_where_sentences_differ() -> None:
    """Half of them all wrong, half all right: the spread of a coin tossed 100 times, 1.96 x 0.05 to either side."""
    low, high = intervals(["a"] * 100, ["a", "b"] * 50)["cer"]
    assert (low, high) == pytest.approx((0.402, 0.598), abs=0.02)


def test_no_sentence_without_an_error_is_no_proof_that_there_is_none() -> None:
    """Clopper and Pearson's interval for 0 of 40; a bootstrap's would be 0 to 0."""
    assert intervals(["ab"] * 40, ["a"] * 40)["exact"] == pytest.approx((0, 0.0881), abs=1e-4)


@pytest.mark.parametrize("references", [[], ["ab", ""]], ids=["no sentence", "an empty one"])
def test_a_report_draws_no_test_sets_without_what_to_divide_by(references: list[str]) -> None:
    assert reported_interval(references, references) is None


def test_the_table_and_the_summary_of_a_report_have_one_interval() -> None:
    draw = random.Random(5)
    references = ["".join(draw.choices("abcd", k=draw.randrange(5, 15))) for _ in range(30)]
    hypotheses = [text.replace("a", "") for text in references]
    cer = shares(references, hypotheses)["cer"]
    expected = bootstrap_interval(resample(np.stack([cer.part, cer.whole], 1)))
    assert reported_interval(references, hypotheses) == expected
    table = _metrics(references, hypotheses, {"ab"})
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["cer"] == [cer.value(), *expected]


def test_the_errors_of_each_sentence() -> None:
    assert character_errors(["abc", "abc", ""], ["abc", "b", "xy"]) == [0, 2, 2]
    assert shares(["abc", "ab"], ["abc", "b"])["cer"].whole.tolist() == [3, 2]
