"""The sentence that says from which length on a mechanism pays, held against what is counted of the models."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from porism.costing.alphabet import T
from porism.costing.counting.count import count
from porism.runs.recipe import with_fields
from porism.runs.record import read_run
from porism.tasks.language.model.cost import LanguageModelWithLoss
from porism.tasks.language.model.crossing import LONGEST, cheaper_from, crossing_notes, mechanism_flops
from porism.tasks.language.recipes import RECIPES, LanguageRecipe
from porism.tasks.language.task import MECHANISMS, Language
from porism.training import session
from porism.training.request import TrainingRequest

WORDS = 50


def forward_flops(recipe: LanguageRecipe, length: int) -> int:
    """What is counted of a forward pass over one row."""
    with torch.device("meta"):
        tokens = torch.zeros(length, 1, dtype=torch.long)
        return count(LanguageModelWithLoss(recipe, WORDS), tokens, tokens, backward=False).flops


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    "fields",
    [
        {"model": "window", "window_size": 16},
        {"model": "window", "window_size": 33, "num_heads": 2},
        {"model": "taylor", "num_heads": 8},
        {"model": "taylor", "num_heads": 8, "feature_map": "diagonal"},
        {"model": "taylor", "num_heads": 32, "order": 4},
        {"model": "hybrid", "window_size": 16, "num_heads": 8},
        {"model": "hybrid", "window_size": 7, "num_heads": 4},
    ],
    ids=lambda fields: "-".join(str(value) for value in fields.values()),
)
def test_the_length_in_the_sentence_is_where_the_counts_cross(fields: dict[str, Any]) -> None:
    softmax = with_fields(RECIPES["attention"], {"num_heads": fields.get("num_heads", 4)})
    own = with_fields(softmax, fields)
    (sentence,) = crossing_notes(own)
    (found,) = re.findall(r"fewer forward FLOPs than .* from T=([\d,]+) on; here T=40\.$", sentence)
    start = int(found.replace(",", ""))
    assert forward_flops(own, start - 1) >= forward_flops(softmax, start - 1)
    for length in (start, start + 1, start + 129):
        assert forward_flops(own, length) < forward_flops(softmax, length)


def test_it_names_the_last_of_several_crossings() -> None:
    # Below T^2 from 11 to 19 and from 31 on.
    assert cheaper_from((T - 10) * (T - 20) * (30 - T) + T**2, T**2) == 31


def test_where_it_never_pays_the_sentence_says_so() -> None:
    assert cheaper_from(T**2 + 1, T**2) is None
    wide = with_fields(RECIPES["taylor"], {"hidden_size": 2048, "embedding_dim": 2048, "num_heads": 1})
    (sentence,) = crossing_notes(wide)
    assert f"at no length up to T={LONGEST:,}" in sentence


@pytest.mark.parametrize("name", ["elman", "lstm", "attention"])
def test_models_without_another_mechanism_have_no_sentence(name: str) -> None:
    assert crossing_notes(RECIPES[name]) == []


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_asks_for_the_sentence_where_there_is_one(name: str) -> None:
    recipe = RECIPES[name]
    assert (mechanism_flops(recipe) is not None) == (recipe.model in MECHANISMS)


def test_a_run_keeps_the_sentence_beside_its_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sees a dog and the dog hears the cat\n" * 60)
    monkeypatch.setattr(session, "cost_table", lambda task: {"flops": {"formula": "T", "value": 1, "terms": {}}})
    fields = {"hidden_size": 8, "embedding_dim": 8, "num_heads": 2, "epochs": 1, "batch_size": 2, "seq_len": 5}
    recipe = with_fields(RECIPES["window"], fields)
    request = TrainingRequest(Language, recipe, source=str(text), device="cpu", seed=1, threads=1)
    session.complete(session.begin(request, tmp_path / "run"))
    metrics = read_run(tmp_path / "run").metrics
    assert metrics is not None
    assert list(metrics.cost_notes) == crossing_notes(recipe)
    assert "here T=5." in metrics.cost_notes[0]
