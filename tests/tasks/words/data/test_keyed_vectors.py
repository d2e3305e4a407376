"""Vectors of words answer as gensim's KeyedVectors do."""

from pathlib import Path

import numpy as np
import pytest

from porism.errors import DataError
from porism.tasks.words.data.keyed_vectors import KeyedVectors
from porism.tasks.words.data.word2vec import load

WORDS = ["man", "king", "woman", "queen", "car", "road", "tree"]


@pytest.fixture(scope="module")
def ours() -> KeyedVectors:
    return KeyedVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32))


def test_it_is_a_mapping_of_words(ours: KeyedVectors) -> None:
    assert (len(ours), ours.vector_size, "king" in ours, "duke" in ours) == (7, 5, True, False)
    assert ours.index_to_key[ours.key_to_index["queen"]] == "queen"
    assert np.array_equal(ours["king"], ours.vectors[1])
    assert ours[["king", "car"]].shape == (2, 5)
    assert np.linalg.norm(ours.get_vector("king", norm=True)) == pytest.approx(1)
    assert repr(ours) == "KeyedVectors<vector_size=5, 7 keys>"
    with pytest.raises(DataError, match="'kings' is not among the 7 words with a vector. Did you mean king?"):
        ours["kings"]


def test_gensim_answers_the_same(ours: KeyedVectors) -> None:
    gensim = pytest.importorskip("gensim.models", reason="gensim, of the bench extra, is not installed")
    theirs = gensim.KeyedVectors(5)
    theirs.add_vectors(WORDS, ours.vectors)
    for given in ({"positive": ["king", "woman"], "negative": ["man"]}, {"positive": "car"}):
        found, known = ours.most_similar(**given, topn=3), theirs.most_similar(**given, topn=3)
        assert [word for word, _ in found] == [word for word, _ in known]
        assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in known], abs=1e-6)
    assert ours.similarity("man", "road") == pytest.approx(theirs.similarity("man", "road"), abs=1e-6)


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin"])
def test_it_is_written_as_word2vec_writes(ours: KeyedVectors, name: str, tmp_path: Path) -> None:
    ours.save_word2vec_format(tmp_path / name)
    words, vectors = load(tmp_path / name)
    assert words == WORDS
    assert np.allclose(vectors.numpy(), ours.vectors, atol=1e-6)
