"""The cost of classifiers of texts: the model that is trained is counted, frozen layers and other encoders too."""

import json
from pathlib import Path
from typing import Any

import pytest

from porism.costing.counting.target import Target
from porism.runs.recipe import override
from porism.tasks.sentiment.model.cost import ClassifierLoss, subject
from porism.tasks.sentiment.model.pretrained import make_config
from porism.tasks.sentiment.recipes import RECIPES
from porism.training.recipe_cost import run_cost

KINDS = ("parameters", "flops", "backward_flops")


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


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kind", "frozen"), [("bert", 0), ("roberta", 2), ("camembert", 1), ("distilbert", 0), ("electra", 1)]
)
def test_a_pretrained_encoder_is_counted_as_it_is_configured(kind: str, frozen: int) -> None:
    pytest.importorskip("transformers", reason="the encoders are those of the transformers package")
    config = tiny(model_type=kind)
    if kind == "distilbert":
        config = {"model_type": kind, "vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
    recipe = override(RECIPES["bert"], [f"num_frozen_layers={frozen}", "batch_size=3"])
    counted = subject(recipe, config, length=33)
    target = Target(counted.target, counted.inputs)
    found = target.quantities({letter: counted.sizes[letter] for letter in target.letters})
    trained = ClassifierLoss(recipe, 40, make_config(config))
    really = Target(trained, ("B T : int < 40", "B : int", "B : int < 3")).quantities({"B": 3, "T": 33})
    assert [found[f"{kind} "] for kind in KINDS] == [really[f"{kind} "] for kind in KINDS]


@pytest.mark.sweep(0)
def test_the_published_encoder_has_its_published_size() -> None:
    """110 million parameters is what its authors write."""
    pytest.importorskip("transformers", reason="the encoder is one of the transformers package")
    counted = subject(RECIPES["bert"])
    assert counted.sizes == {"B": 16, "T": 160, "H": 768}
    # The fewest tokens: the encoder looks at numbers, so that it is run, and a batch of the recipe takes minutes.
    found = Target(counted.target, counted.inputs).quantities({"B": 1, "T": 2, "H": 768})
    assert found["parameters "] == 108_310_272 + 3 * 769


@pytest.mark.sweep(0)
def test_the_formulas_of_a_small_encoder_are_found(tiny_bert: Path) -> None:
    config, recipe = json.loads((tiny_bert / "config.json").read_text()), RECIPES["bert"]
    counted = subject(recipe, config, length=9)
    cost = run_cost(recipe, counted, counted.sizes)
    weights = sum(x.numel() for x in ClassifierLoss(recipe, 28, make_config(config)).parameters())
    assert int(cost.at().parameters) == weights
