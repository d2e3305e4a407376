"""Evaluation sets: correlations as scipy has them, analogies as gensim counts them, bad files reported."""

import lzma
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from porism.errors import DataError
from porism.tasks.blocks.ranks import ranks
from porism.tasks.words.data import evaluation_sets as judgements
from porism.tasks.words.data.evaluation_sets import (
    Section,
    Similarity,
    analogies,
    evaluate,
    similarity,
    spearman,
)

EXPERIMENTS = """: capitals
Athens Greece Oslo Norway
Oslo Norway Athens Greece
Oslo Norway Paris France
: family
boy girl man woman
man woman boy girl
"""
# Corners of parallelograms, and a trap beside one of them.
PLACES = {
    "athens": [1.0, 0.0, 0.0, 0.0], "greece": [1.0, 1.0, 0.0, 0.0], "oslo": [1.0, 0.0, 0.2, 0.0],
    "norway": [1.0, 1.0, 0.2, 0.0], "boy": [0.0, 0.0, 1.0, 0.1], "girl": [0.0, 0.0, 1.0, 1.0],
    "man": [0.0, -1.0, 0.5, 0.1], "woman": [0.0, -1.0, 0.5, 1.0], "trap": [0.0, -1.0, 0.2, 0.8],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wordsim353.tsv").write_text(
        "# A and B\tmean\nathens\toslo\t9\nBoy\tman\t7\nboy\tgirl\t8\ncar\tboy\t1\n"
    )
    (tmp_path / "questions-words.txt.xz").write_bytes(lzma.compress(EXPERIMENTS.encode()))
    return tmp_path


@pytest.fixture
def vectors() -> Tensor:
    return torch.tensor(list(PLACES.values()))


WORDS = list(PLACES)


@pytest.mark.parametrize("count", [2, 7, 63])
@pytest.mark.parametrize("kinds", [2, 5, 1000])
def test_spearman_is_that_of_scipy(count: int, kinds: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = torch.Generator().manual_seed(count + kinds)
    x, y = torch.randint(kinds, (2, count), generator=draw).double()
    x[0], y[0] = kinds, kinds  # never all the same
    assert ranks(x).tolist() == stats.rankdata(x).tolist()
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert spearman(x, -x) == pytest.approx(-1)


def test_a_correlation_of_fewer_than_two_pairs_is_not_a_number() -> None:
    for values in (torch.zeros(0), torch.ones(1), torch.ones(5)):
        assert math.isnan(spearman(values, torch.arange(len(values))))


def test_pairs_with_an_unknown_word_are_left_out_and_counted(folder: Path, vectors: Tensor) -> None:
    found = similarity(folder / "wordsim353.tsv", WORDS, vectors)
    # The cosines are 0.98, 0.45 and 0.74: the order that people have.
    assert found == Similarity("wordsim353", 1.0, known=3, pairs=4)


def test_analogies_are_counted_by_section(folder: Path, vectors: Tensor) -> None:
    found = evaluate(folder, WORDS, vectors)
    # Paris is unknown; girl - boy + man ends nearer to the trap than to the woman.
    assert found.sections == (Section("capitals", 2, 2, 3), Section("family", 1, 2, 2))
    assert found.total == Section("total", 3, 4, 5)
    assert found.metrics() == {"wordsim353": 1.0, "analogies": 0.75}


def test_the_report_gets_a_table_each(folder: Path, vectors: Tensor) -> None:
    pairs, questions = evaluate(folder, WORDS, vectors).tables()
    assert pairs.rows == [["wordsim353", 4, 3, 1.0]]
    assert questions.rows == [["capitals", 3, 2, 2, 1.0], ["family", 2, 2, 1, 0.5], ["total", 5, 4, 3, 0.75]]
    scores = evaluate(folder, ["of"], torch.ones(1, 4))
    assert scores.metrics() == {}
    assert [row[-1] for table in scores.tables() for row in table.rows] == ["", "", "", ""]


@pytest.mark.parametrize("block", [1, 1000, 2**24])
def test_analogies_are_those_of_gensim(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = pytest.importorskip("gensim.models", reason="gensim, of the dev extra, is not installed")
    monkeypatch.setattr(judgements, "BLOCK", block)
    draw = torch.Generator().manual_seed(0)
    # Pairs of words that differ nearly alike, so that about half of the questions come out.
    firsts = torch.randn(63, 7, generator=draw)
    seconds = firsts + torch.ones(7) + 0.5 * torch.randn(63, 7, generator=draw)
    words = [f"{kind}{number}" for number in range(63) for kind in "ab"]
    vectors = torch.stack([firsts, seconds], 1).flatten(0, 1)
    lines = [f"a{i} b{i} a{j} b{j}" for i in range(0, 63, 3) for j in range(0, 66, 7) if i != j]
    half = len(lines) // 2
    file = tmp_path / "questions-words.txt"
    file.write_text("\n".join([": one", *lines[:half], ": two", *lines[half:]]))
    theirs = module.KeyedVectors(7)
    theirs.add_vectors(words, vectors.numpy())
    _, expected = theirs.evaluate_word_analogies(str(file))
    ours = analogies(file, words, vectors)
    assert [section.right for section in ours] == [len(section["correct"]) for section in expected[:2]]
    assert [section.known - section.right for section in ours] == [
        len(section["incorrect"]) for section in expected[:2]
    ]
    assert 0.2 < sum(section.right for section in ours) / len(lines) < 0.8


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "wordsim353.tsv",
            b"# head\ncat\tdog\t7\ncat dog 7\n",
            "wordsim353.tsv, line 3: 'cat dog 7', expected word, tab, w",
        ),
        ("wordsim353.tsv", b"cat\tdog\tseven\n", r"line 1: 'cat\\tdog\\tseven', expected .*number. Mend the line."),
        ("wordsim353.tsv", b"cat\tdog\tnan\n", "line 1: .*expected word"),
        ("wordsim353.tsv", b"# head\n", "wordsim353.tsv: no pair of words in it. Give a line a pair"),
        ("wordsim353.tsv", b"cat\tdog\t7\ncaf\xe9\ttea\t7\n", "line 2: byte 0xe9 is not UTF-8. Give a text file"),
        ("questions-words.txt", b"a b c d\n", "line 1: 'a b c d' belongs to no section. Begin with a line such as"),
        (
            "questions-words.txt",
            b": one\na b c d\n\na b c\n",
            "line 4: 3 words, expected four: a is to b as c is to d.",
        ),
        ("questions-words.txt", b": one\n", "questions-words.txt: no question in it. Give a line a question"),
    ],
)
def test_a_bad_file_is_told_in_one_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        evaluate(tmp_path, ["a"], torch.ones(1, 2))
    assert "\n" not in str(caught.value)


def test_a_folder_without_judgements(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no evaluation set in it. Put wordsim353.tsv, simlex999.txt or questions-"):
        evaluate(tmp_path, ["a"], torch.ones(1, 2))
