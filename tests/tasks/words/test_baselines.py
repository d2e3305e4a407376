"""Word vectors by counts and by gensim, scored as ours are."""

import sys
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from porism.tasks.words import baselines
from porism.tasks.words import task as words_task
from porism.tasks.words.baselines import GensimVectors, WordsData, baseline_notes, positive_pmi, words_read
from porism.tasks.words.recipes import RECIPES, WordsRecipe
from porism.tasks.words.task import Words


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Words:
    """Sentences of two topics, whose words do not meet: a context is known by its topic."""
    generator = np.random.default_rng(1)
    topics = [["rain", "wind", "snow", "cloud", "storm", "sun"], ["bread", "salt", "soup", "rice", "tea", "milk"]]
    lines = [" ".join(generator.choice(topics[number % 2], 6)) for number in range(1200)]
    file: Path = tmp_path_factory.mktemp("topics") / "topics.txt"
    file.write_text("\n".join(lines) + "\n")
    fields = {"vector_size": 2, "epochs": 3, "validation_split": 0.05, "sample": 0.0}
    return Words.load(type(RECIPES["small"])(**{**RECIPES["small"].__dict__, **fields}), str(file))


def test_what_knows_the_topic_beats_frequencies(task: Words) -> None:
    found = task.baselines()
    # Twelve words of about the same frequency, of which six can follow. Within a topic s is log 2, and a is 2 at most:
    # p is 4 / (6 * 4 + 6).
    assert found["unigram"]["test"]["cross_entropy"] == pytest.approx(np.log(12), abs=0.02)
    assert found["PPMI and SVD"]["test"]["cross_entropy"] == pytest.approx(np.log(7.5), abs=0.03)
    assert set(found["unigram"]) == {"valid", "test"}


def test_gensim_is_trained_and_scored_or_a_line_says_why_not(task: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gensim", reason="gensim, of the dev extra, is not installed")
    found = task.baselines()
    assert found["gensim"]["test"]["cross_entropy"] < found["unigram"]["test"]["cross_entropy"]
    assert found == task.baselines()
    assert baseline_notes(task.corpus, task.recipe) == []
    monkeypatch.setattr(baselines, "find_spec", lambda name: None if name == "gensim" else find_spec(name))
    assert "gensim" not in task.baselines()
    assert baseline_notes(task.corpus, task.recipe) == [
        'Without gensim\'s skip-gram: gensim is not installed, pip install "porism[baselines]" brings it.'
    ]


def test_what_gensim_has_begun_is_taken_once_and_is_the_same(task: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gensim", reason="gensim, of the dev extra, is not installed")
    expected, begun = task.baselines(), list[WordsData]()

    def begin(data: WordsData, recipe: WordsRecipe) -> Future[GensimVectors] | None:
        begun.append(data)
        return baselines.begin_gensim(data, recipe)

    monkeypatch.setattr(words_task, "begin_gensim", begin)
    drawn = torch.random.get_rng_state()
    task.begin_baselines()
    assert torch.equal(torch.random.get_rng_state(), drawn)
    found = task.baselines()
    assert len(begun) == 1
    assert found == expected
    assert task.baselines() == expected
    assert len(begun) == 2


def test_counts_are_those_of_the_pairs(task: Words) -> None:
    data = baselines.WordsData(task.corpus, task._chunks, task._keep, {})
    counts = baselines.count_pairs(data, task.recipe.window)
    assert counts.sum() > 2 * task.corpus.words
    topics = [[task.vocabulary.words.index(word) for word in ("rain", "snow")], [task.vocabulary.words.index("tea")]]
    assert counts[topics[0][0], topics[0][1]] > 0
    assert counts[topics[0][0], topics[1][0]] == 0


def test_pmi_of_independent_words_is_zero() -> None:
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    independent = np.outer([1.0, 3.0], [2.0, 5.0])
    assert positive_pmi(csr_matrix(independent)).toarray() == pytest.approx(np.zeros((2, 2)))


def test_a_part_of_a_long_text_is_read_and_told(task: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, (first, *_) = task.corpus.words, words_read(task.corpus)
    assert sum(words_read(task.corpus)) == whole
    monkeypatch.setattr(baselines, "MOST_WORDS", first)
    assert words_read(task.corpus) == [first]
    told = baseline_notes(task.corpus, task.recipe)
    assert told[0] == f"Baselines read the first {first} of {whole} words."
    monkeypatch.setattr(baselines, "MOST_IN_MATRIX", len(task.vocabulary) - 1)
    monkeypatch.setattr(baselines, "MOST_WORDS", 2 * first)
    assert words_read(task.corpus) == [first]


def test_measuring_them_leaves_the_random_numbers_as_they_are(task: Words) -> None:
    from porism.training.baselines import baselines_of

    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    assert baselines_of(task) is baselines_of(task)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_without_scikit_learn_the_rest_is_measured_and_drawn(task: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = task.baselines()
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert task.baselines() == {"unigram": whole["unigram"]}
    assert "Without PPMI and SVD: scikit-learn is not installed" in " ".join(task.baseline_notes())
    assert [shown.title for shown in task.exhibits(task.build())][:2] == ["A map of words", "Most similar words"]
