import dataclasses

import pytest
import torch
from torch import nn

from porism.runs.recipe import override
from porism.tasks.language.recipes import RECIPES
from porism.training import optimizer

RECIPE = dataclasses.replace(RECIPES["elman"], learning_rate=0.5, lr_scheduler="constant")


def test_rates_rise_and_fall_as_the_schedule_says() -> None:
    linear = dataclasses.replace(RECIPE, lr_scheduler="linear", warmup_steps=4)
    assert [optimizer.rate_at(linear, step, 14) for step in (0, 1, 3, 4, 9, 14)] == [0.125, 0.25, 0.5, 0.5, 0.25, 0.0]
    cosine = dataclasses.replace(RECIPE, lr_scheduler="cosine")
    assert optimizer.rate_at(cosine, 0, 10) == 0.5
    assert optimizer.rate_at(cosine, 5, 10) == pytest.approx(0.25)
    assert optimizer.rate_at(cosine, 10, 10) == pytest.approx(0.0)
    assert optimizer.rate_at(RECIPE, 7, 10) == 0.5


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_a_group_learns_at_its_share_of_the_rate(name: str) -> None:
    recipe = override(RECIPE, [f"optimizer={name}", "learning_rate=0.01"])
    first, second, frozen = (nn.Parameter(torch.ones(2), requires_grad=n < 2) for n in range(3))
    groups = [optimizer.ParameterGroup([first]), optimizer.ParameterGroup([second, frozen], lr_scale=0.25)]
    maker = optimizer.make(recipe, groups, torch.device("cpu"))
    assert [group["lr"] for group in maker.param_groups] == [0.01, 0.0025]
    optimizer.set_rate(maker, 0.004)
    first.grad, second.grad = torch.ones(2), torch.ones(2)
    maker.step()
    torch.testing.assert_close(1 - second, 0.25 * (1 - first))
    assert torch.equal(frozen, torch.ones(2))
    assert first.tolist() == pytest.approx([1 - 0.004] * 2)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_its_memory_comes_back_to_the_bit(name: str) -> None:
    recipe = override(RECIPE, [f"optimizer={name}", "learning_rate=0.01", "weight_decay=0.1"])

    def step(model: nn.Linear, maker: torch.optim.Optimizer) -> None:
        maker.zero_grad()
        model(torch.ones(2, 3)).square().sum().backward()
        maker.step()

    def build() -> tuple[nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        return model, optimizer.make(recipe, model.parameters(), torch.device("cpu"))

    straight, first = build()
    for _ in range(4):
        step(straight, first)
    stopped, before = build()
    step(stopped, before)
    step(stopped, before)
    resumed, after = build()
    resumed.load_state_dict(stopped.state_dict())
    optimizer.load_state(after, {key: x.clone() for key, x in optimizer.state_tensors(before).items()})
    step(resumed, after)
    step(resumed, after)
    assert torch.equal(straight.weight, resumed.weight)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_it_steps_as_torchs_own_to_the_bit(kind: type[torch.optim.Optimizer]) -> None:
    recipe = override(RECIPE, [f"optimizer={kind.__name__.lower()}", "learning_rate=0.01", "weight_decay=0.1"])
    own, expected = (nn.Parameter(torch.linspace(-1, 1, 7)) for _ in range(2))
    makers = (
        optimizer.make(recipe, [own], torch.device("cpu")),
        kind([expected], lr=0.01, weight_decay=0.1, fused=True),  # type: ignore[call-arg]
    )
    for number in range(5):
        for maker, x in zip(makers, (own, expected), strict=True):
            maker.zero_grad()
            (x.sin() * (number + 1)).sum().backward()
            maker.step()
    assert torch.equal(own, expected)
    assert torch.is_grad_enabled()
    memory = [optimizer.state_tensors(maker) for maker in makers]
    assert memory[0].keys() == memory[1].keys()
    assert all(torch.equal(memory[0][name], memory[1][name]) for name in memory[0])
