"""The cost of classifiers of texts: the formulas are what is counted, frozen layers and other encoders too."""

from pathlib import Path
from typing import Any

import pytest

from porism.costing.counting.target import Target
from porism.runs.recipe import override
from porism.tasks.sentiment.model.cost import model_cost, model_letters, subject
from porism.tasks.sentiment.model.pretrained import make_config
from porism.tasks.sentiment.recipes import RECIPES, SentimentRecipe

KINDS = ("parameters", "flops", "backward_flops")


def counted(recipe: SentimentRecipe, sizes: dict[str, int]) -> dict[str, int]:
    factory, inputs, _ = subject(recipe)
    found = Target(factory, inputs).quantities(sizes)
    return {kind: found[f"{kind} "] for kind in KINDS}


@pytest.mark.parametrize(
    ("name", "frozen"), [("attention", 0), ("attention", 2), ("window", 1), ("taylor", 0), ("hybrid", 1)]
)
def test_the_cost_of_our_encoders_is_what_is_counted(name: str, frozen: int) -> None:
    recipe = override(RECIPES[name], ["dim_feedforward=24", f"num_frozen_layers={frozen}", "window_size=4"])
    hand = model_cost(recipe, None, 0)
    for sizes in ({"B": 3, "T": 63, "V": 11, "A": 2, "D": 8}, {"B": 1, "T": 7, "V": 5, "A": 1, "D": 6}):
        ours = hand.at(B=sizes["B"], T=sizes["T"], V=sizes["V"], A=sizes["A"], H=sizes["A"] * sizes["D"])
        assert {kind: ours[kind] for kind in KINDS} == counted(recipe, sizes)


def tiny(**changed: Any) -> dict[str, Any]:
    return {
        "model_type": "bert",
        "vocab_size": 40,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 80,
    } | changed


@pytest.mark.parametrize(
    ("kind", "frozen"),
    [
        *(("bert", 0), ("bert", 1), ("bert", 2), ("roberta", 0), ("xlm-roberta", 1), ("camembert", 1)),
        *(("distilbert", 0), ("electra", 1), ("albert", 0)),
    ],
)
def test_the_cost_of_a_pretrained_encoder_is_what_is_counted(kind: str, frozen: int) -> None:
    pytest.importorskip("transformers", reason="the encoders are those of the transformers package")
    config = tiny(model_type=kind)
    if kind == "distilbert":
        config = {"model_type": kind, "vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
    if kind == "camembert":
        config["attention_probs_dropout_prob"] = 0.0
    recipe = override(RECIPES["bert"], [f"num_frozen_layers={frozen}"])
    full = make_config(config)
    hand = model_cost(recipe, config, length=33)
    letters = model_letters(recipe, config, 40, 33)
    found = Target(loss_of(recipe, full), ("B T : int < 40", "B : int", "B : int < 3")).quantities({"B": 3, "T": 33})
    ours = hand.at(**letters | {"B": 3})
    assert {kind: ours[kind] for kind in KINDS} == {kind: found[f"{kind} "] for kind in KINDS}


def loss_of(recipe: SentimentRecipe, config: Any) -> Any:
    from porism.tasks.sentiment.model.cost import ClassifierLoss

    return ClassifierLoss(recipe, config.vocab_size, config)


def test_the_published_encoder_has_its_published_size() -> None:
    """110 million parameters is what its authors write."""
    pytest.importorskip("transformers", reason="the encoder is one of the transformers package")
    recipe = RECIPES["bert"]
    factory, inputs, sizes = subject(recipe)
    assert sizes == {"B": 16, "T": 160, "A": 12, "D": 64, "V": 28_996}
    config = {"model_type": "bert", "vocab_size": 28_996}
    parameters = model_cost(recipe, config, 160).at(**model_letters(recipe, config, 28_996, 160))["parameters"]
    assert parameters == 108_310_272 + 3 * 769
    small = Target(factory, inputs).quantities({"B": 1, "T": 3, "V": 7, "A": 2, "D": 2})
    hand = model_cost(recipe, {**config, "hidden_size": 4, "num_attention_heads": 2, "intermediate_size": 16}, 3)
    ours = hand.at(B=1, T=3, V=7, H=4, A=2)
    assert {kind: ours[kind] for kind in KINDS} == {kind: small[f"{kind} "] for kind in KINDS}


def test_the_tiny_encoder_of_the_tests_is_counted_as_well(tiny_bert: Path) -> None:
    import json

    config = json.loads((tiny_bert / "config.json").read_text())
    hand = model_cost(RECIPES["bert"], config, 9).at(B=1, T=9, V=28, H=16, A=2)
    weights = sum(x.numel() for x in loss_of(RECIPES["bert"], make_config(config)).parameters())
    assert hand["parameters"] == weights
