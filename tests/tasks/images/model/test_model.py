"""The models as the questions need them: sizes, costs, and how far they see."""

from collections.abc import Callable

import pytest
import torch

from porism.costing.counting.target import Target
from porism.errors import DataError
from porism.runs.recipe import override
from porism.tasks.images.data import Shape
from porism.tasks.images.model.build import build
from porism.tasks.images.model.cost import subject
from porism.tasks.images.model.receptive_field import receptive_field
from porism.tasks.images.recipes import EXPERIMENTS, RECIPES
from porism.tasks.images.task import Images
from porism.training.session import count_parameters

CLASSIFIERS = [name for name, recipe in RECIPES.items() if recipe.model != "complete"]


@pytest.mark.parametrize(("name", "multiply_adds"), [("pooled", 445_536), ("strided", 278_784)])
def test_the_nets_of_the_pooling_question(name: str, multiply_adds: int) -> None:
    assert count_parameters(build(RECIPES[name], Shape(1, 28, 28), 4)) == 224_892
    counted = subject(RECIPES[name])
    found = Target(counted.target, counted.inputs).quantities({"B": 1, "C": 1, "Y": 28, "X": 28, "V": 4})
    assert found["parameters "] == 224_892
    assert found["flops "] == 2 * multiply_adds


@pytest.mark.parametrize("size", [(5, 5), (7, 8), (8, 8), (9, 13), (28, 28), (63, 30)])
def test_pooling_and_strides_leave_the_same_sizes(size: tuple[int, int]) -> None:
    pooled, strided = (build(RECIPES[name], Shape(3, *size), 7) for name in ("pooled", "strided"))
    assert count_parameters(pooled) == count_parameters(strided)
    for model in (pooled, strided):
        assert model(torch.rand(2, 3, *size)).shape == (2, 7)


def test_the_question_asks_for_the_published_protocol() -> None:
    for name in EXPERIMENTS["pooling-question"].recipes:
        recipe = RECIPES[name]
        settings = (recipe.optimizer, recipe.batch_size, recipe.epochs, recipe.restore_best_weights, recipe.dropout)
        assert settings == ("sgd", 8, 15, False, 0.7)
    assert EXPERIMENTS["pooling-question"].over == {"learning_rate": (0.1, 0.01, 0.001)}


def test_the_convolutional_net_is_small() -> None:
    assert count_parameters(build(RECIPES["convolutional"], Shape(1, 28, 28), 10)) <= 250_000


@pytest.mark.parametrize("size", [8, 28])
def test_convolutions_against_walks_have_as_many_parameters(size: int) -> None:
    scans, convolutions = (
        count_parameters(build(RECIPES[name], Shape(1, size, size), 10))
        for name in EXPERIMENTS["grid-question"].recipes
    )
    assert abs(scans - convolutions) / scans < 0.005


@pytest.mark.parametrize("size", [8, 28])
def test_nets_that_complete_images_have_as_many_parameters(size: int) -> None:
    grid, *others = (
        count_parameters(build(RECIPES[name], Shape(1, size, size), 10))
        for name in EXPERIMENTS["completion-question"].recipes
    )
    assert all(abs(other - grid) / grid < 0.05 for other in others)


@pytest.mark.parametrize("name", EXPERIMENTS["completion-question"].recipes)
def test_a_predicted_pixel_sees_as_far_as_it_is_said_to(name: str) -> None:
    recipe, shape = override(RECIPES[name], ["hidden_size=9"]), Shape(1, 12, 19)
    torch.manual_seed(1)
    first, *others = build(recipe, shape, 10).double().get_submodule("layers").children()
    x = torch.rand(1, 2, 12, 19, dtype=torch.float64, requires_grad=True)
    states = first(x)
    for layer in others:
        states = states + layer(states)
    row, column = 11, 9
    states[0, :, row, column].square().sum().backward()
    assert x.grad is not None
    seen = (x.grad[0] != 0).any(0)
    assert not seen[row, column:].any()
    rows, columns = (int(seen.any(dim).sum()) for dim in (1, 0))
    assert (rows, columns) == receptive_field(recipe, shape).field


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_state_sees_as_far_as_it_is_said_to(name: str, digits_task: Callable[[str], Images]) -> None:
    """The gradients of one of the last states reach as many rows and columns as the facts tell."""
    torch.manual_seed(0)
    recipe = override(digits_task(name).recipe, ["nonlinearity=tanh"])
    shape = Shape(1, 40, 40)
    model = build(recipe, shape, 10).eval().double()
    last: list[torch.Tensor] = []
    pools = {"residual": "blocks", "pooled": "net.5", "strided": "net.4"}
    watched = model.get_submodule(pools.get(recipe.model, f"norms.{recipe.num_layers - 1}"))
    watched.register_forward_hook(lambda module, args, out: last.append(out))
    seen = torch.zeros(40, 40, dtype=torch.bool)
    # Of one image a rectifier may let nothing of an edge through.
    for _ in range(5):
        x = torch.rand(1, 1, 40, 40, dtype=torch.float64, requires_grad=True)
        model(x)
        states = last[-1]
        # A scan from the top left has seen all of it at the end.
        row, column = (-1, -1) if name == "grid" else (states.shape[2] // 2, states.shape[3] // 2)
        states[0, :, row, column].square().sum().backward()
        assert x.grad is not None
        seen |= x.grad[0, 0] != 0
    field = receptive_field(recipe, shape).field
    rows, columns = (int(seen.any(dim).nonzero().flatten().diff().sum()) + 1 for dim in (1, 0))
    if recipe.model == "pooled":
        # Of four maxima one counts: the field is what may be seen.
        assert rows <= field[0]
        assert columns <= field[1]
    else:
        assert (rows, columns) == field


@pytest.mark.parametrize("name", ["pooled", "strided", "convolutional"])
def test_images_that_are_too_small(name: str) -> None:
    with pytest.raises(DataError, match="images of 4 x 9: this model needs 5 x 5 or more"):
        build(RECIPES[name], Shape(1, 4, 9), 10)


def test_images_that_do_not_divide_into_patches_get_a_border() -> None:
    torch.manual_seed(1)
    model = build(override(RECIPES["grid-4"], ["patch_size=3", "hidden_size=8"]), Shape(1, 7, 8), 10).eval()
    image = torch.rand(2, 1, 7, 8)
    bordered = torch.zeros(2, 1, 9, 9)
    bordered[:, :, :7, :8] = image
    assert torch.equal(model(image), model(bordered))
