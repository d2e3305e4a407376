"""Attending language models: no word sees the future, what came before is carried."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from porism.errors import RecipeError
from porism.tasks.language.data.vocabulary import Vocabulary
from porism.tasks.language.model.base import LanguageModel
from porism.tasks.language.model.build import build
from porism.tasks.language.predict import generate
from porism.tasks.language.recipes import RECIPES, LanguageRecipe

ATTENDING = ("attention", "window", "taylor", "hybrid")
V, T, B = 11, 14, 3


def small(name: str, **changes: object) -> LanguageRecipe:
    fields = {
        "embedding_dim": 8,
        "hidden_size": 8,
        "num_heads": 2,
        "seq_len": T,
        "window_size": 4,
        "batch_size": B,
    } | changes
    return replace(RECIPES[name], **fields)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(V, (T, B), generator=torch.Generator().manual_seed(1))


def model_of(name: str, **changes: object) -> LanguageModel:
    return build(small(name, **changes), V).double().eval()


@pytest.mark.parametrize("name", ATTENDING)
def test_a_word_depends_on_those_before_it_and_on_none_after(name: str, tokens: Tensor) -> None:
    model = model_of(name)
    changed = tokens.clone()
    changed[7] = (changed[7] + 1) % V
    before, after = (model.logits(words, model.start(B))[0] for words in (tokens, changed))
    torch.testing.assert_close(before[:7], after[:7], rtol=0, atol=1e-12)
    # Within reach of the window all later words notice.
    assert all(not torch.allclose(before[t], after[t]) for t in range(7, 10))


@pytest.mark.parametrize("name", ATTENDING)
def test_what_came_before_a_window_is_read_with_it(name: str, tokens: Tensor) -> None:
    model = model_of(name)
    whole, _ = model.logits(tokens, model.start(B))
    half = model.evaluation_steps
    first, carry = model.logits(tokens[:half], model.start(B))
    second, _ = model.logits(tokens[half:], carry)
    torch.testing.assert_close(torch.cat([first, second]), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ATTENDING)
def test_no_context_while_training_so_that_every_step_is_alike(name: str, tokens: Tensor) -> None:
    model = model_of(name).train()
    _, carry = model.loss(tokens, tokens, model.start(B))
    assert carry["context"].shape == (0, B)


@pytest.mark.parametrize(
    ("feature_map", "order"), [("rolled", 2), ("exact", 2), ("ordered", 2), ("diagonal", 2), ("exact", 4)]
)
def test_every_feature_map_of_the_series_trains(feature_map: str, order: int, tokens: Tensor) -> None:
    model = build(small("taylor", feature_map=feature_map, order=order, dropout=0.0), V).double()
    loss, _ = model.loss(tokens, tokens, model.start(B))
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_model_goes_on_from_a_prompt() -> None:
    vocabulary = Vocabulary(("<eos>", "<unk>", *"abcdefghi"))
    prediction = generate(model_of("taylor"), vocabulary, "a b", max_new_tokens=40)
    assert prediction.details["words"] <= 40


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding_dim": 4}, "got embedding_dim=4 and hidden_size=8. Use --set embedding_dim=8."),
        ({"num_heads": 3}, "hidden_size=8 does not split into 3 heads. Use --set num_heads=2."),
        ({"feature_map": "exact"}, "feature_map=exact is for model=taylor only, got model=attention"),
        ({"weight_dropout": 0.5}, "weight_dropout=0.5 is for model=elman only, got model=attention"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        small("attention", **changes)
