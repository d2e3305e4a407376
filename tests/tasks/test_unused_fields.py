"""Fields that a recipe says its model has no use for: with any other value the model is the same to the bit."""

from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor, nn

from porism.runs.recipe import Recipe, settings, unused_fields
from porism.tasks import TASKS, choices
from porism.tasks.images.data.image_set import Shape
from porism.tasks.images.model.build import build as build_images
from porism.tasks.images.recipes import RECIPES as IMAGES
from porism.tasks.images.recipes import ImagesRecipe
from porism.tasks.language.model.build import build as build_language
from porism.tasks.language.recipes import RECIPES as LANGUAGE
from porism.tasks.language.recipes import LanguageRecipe

OTHER: dict[str, Any] = {
    "nonlinearity": "relu",
    "weight_init": "orthogonal",
    "num_heads": 2,
    "dim_feedforward": 24,
    "window_size": 3,
    "order": 4,
    "hidden_size": 12,
    "num_layers": 3,
    "directions": 1,
    "cell": "lstm",
    "patch_size": 3,
    "levels": 4,
    "dropout": 0.9,
}
"""Another value than the recipes below have. Those that other models refuse are left out."""
REFUSED = {"weight_dropout", "feature_map", "layer"}


def language(recipe: Recipe) -> tuple[list[Tensor], Tensor]:
    assert isinstance(recipe, LanguageRecipe)
    torch.manual_seed(1)
    model = build_language(recipe, 9).train()
    tokens = torch.arange(12).view(6, 2) % 9
    return list(model.state_dict().values()), model.loss(tokens, tokens, model.start(2))[0]


def images(recipe: Recipe) -> tuple[list[Tensor], Tensor]:
    assert isinstance(recipe, ImagesRecipe)
    torch.manual_seed(1)
    model: nn.Module = build_images(recipe, Shape(1, 12, 12), 3).train()
    pixels = torch.arange(288).view(2, 1, 12, 12) % 4
    return list(model.state_dict().values()), model(pixels.float())


SMALL: dict[str, tuple[Any, Recipe, tuple[str, ...]]] = {
    "language": (
        language,
        replace(LANGUAGE["attention"], embedding_dim=8, hidden_size=8, dropout=0.5, seq_len=6),
        ("elman", "lstm", "attention", "window", "taylor", "hybrid"),
    ),
    "images": (
        images,
        replace(
            IMAGES["grid-4"],
            label_smoothing=0.0,
            degrees=0.0,
            scale=0.0,
            hidden_size=4,
            num_layers=2,
            dropout=0.5,
            levels=16,
        ),
        ("pooled", "strided", "residual", "grid", "convolution", "complete"),
    ),
}
CASES = [(task, model) for task, (_, _, models) in SMALL.items() for model in models]


@pytest.mark.parametrize(("task", "model"), CASES)
def test_a_field_without_use_changes_no_bit(task: str, model: str) -> None:
    result_of, base, _ = SMALL[task]
    recipe = replace(base, model=model)  # type: ignore[call-arg]
    unused = unused_fields(type(recipe), settings(recipe)) - REFUSED
    weights, output = result_of(recipe)
    for name in unused:
        assert getattr(recipe, name) != OTHER[name], name
        other_weights, other_output = result_of(replace(recipe, **{name: OTHER[name]}))
        assert all(torch.equal(a, b) for a, b in zip(weights, other_weights, strict=True)), name
        assert torch.equal(output, other_output), name


@pytest.mark.parametrize("task", TASKS)
def test_names_and_values_are_those_of_the_recipe(task: str) -> None:
    kind = type(next(iter(choices(task).recipes.values())))
    known, hints = {field.name for field in fields(kind)}, get_type_hints(kind)
    for name, deciding in kind.used_with.items():
        assert name in known
        for other, values in deciding.items():
            assert get_origin(hints[other]) is Literal
            assert set(values) < set(get_args(hints[other]))


def test_a_run_that_does_not_say_what_decides_shows_the_field() -> None:
    assert unused_fields(LanguageRecipe, {"window_size": 32}) == set()
    assert unused_fields(LanguageRecipe, {"window_size": 32, "model": "attention"}) == {"window_size"}
    assert unused_fields(ImagesRecipe, {"model": "grid", "cell": "lstm", "nonlinearity": "tanh"}) == {"nonlinearity"}
