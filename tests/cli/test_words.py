"""Word vectors from the command line: trained, queried and exported."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Say

from porism.tasks.words.data import word2vec

TINY = [f"--set={field}" for field in ("vector_size=6", "epochs=2", "validation_split=0.1", "batch_size=100")]


@pytest.fixture
def run(say: Say, text: Path) -> str:
    completed = say("train", "words", "--data", text, "--out", "run", TINY, "--json")
    assert completed.code == 0, completed.err
    result = json.loads(completed.out.splitlines()[-1])
    assert result["words_per_second"] > 0
    assert {"cross_entropy", "loss"} <= set(result["metrics"]["test"])
    return "run"


def test_neighbours_analogies_and_files(say: Say, run: str) -> None:
    completed = say("predict", run, "cat", "DOG", "--set", "count=2", "--json")
    first, second = json.loads(completed.out.splitlines()[-1])["predictions"]
    assert (first["prompt"], second["prompt"]) == ("cat", "dog")
    assert len(first["details"]["neighbours"]) == 2
    completed = say("predict", run, "--analogy", "cat", "sees", "dog")
    assert completed.out.startswith("cat is to sees as dog is to -> ")
    completed = say("predict", run, "--set", "out=vectors.txt")
    assert completed.out == "vectors.txt -> 5 vectors of width 6\n"
    assert sorted(word2vec.load(Path("vectors.txt"))[0]) == ["cat", "dog", "hears", "sees", "the"]
    assert "'horse' is not among the 5 words" in say("predict", run, "horse").err


def test_a_recipe_has_a_cost(say: Say) -> None:
    completed = say("cost", "words/skipgram", "--json")
    result = json.loads(completed.out.splitlines()[-1])
    assert (result["parameters"], result["flops"]) == ("2*D*V", "12*B*D")
    assert result["uncounted"] == []
