import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from porism.runs.recipe import override
from porism.tasks.language.recipes import LanguageRecipe
from porism.tasks.language.task import Language
from porism.training import optimizer
from porism.training.capture import capture
from porism.training.request import TrainingRequest
from porism.training.session import begin
from porism.training.step import EagerStep, make_step

CPU = torch.device("cpu")


def gradient_norm_after_a_step(recipe: LanguageRecipe, text: str, precision: str = "fp32") -> float:
    torch.manual_seed(1)
    task = Language.load(recipe, text)
    model = task.build()
    step = make_step(task, model, optimizer.make(recipe, model.parameters(), CPU), CPU, precision)
    loss, carry = step(task.batches(1, 1)[0], task.start(model))
    assert math.isfinite(loss.item())
    assert not loss.requires_grad
    assert set(carry) == {"h"}
    return torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]).item()


def test_the_whole_gradient_is_clipped_and_otherwise_left_alone(tiny: LanguageRecipe, text: str) -> None:
    free = gradient_norm_after_a_step(tiny, text)
    assert free > 0.01
    assert gradient_norm_after_a_step(override(tiny, [f"max_grad_norm={free / 3}"]), text) == pytest.approx(
        free / 3, rel=1e-4
    )
    assert gradient_norm_after_a_step(override(tiny, [f"max_grad_norm={free * 3}"]), text) == free


def test_bf16_rounds_the_products_and_keeps_the_gradient_close(tiny: LanguageRecipe, text: str) -> None:
    exact, rounded = (gradient_norm_after_a_step(tiny, text, precision) for precision in ("fp32", "bf16"))
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=2**-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_captured_step_learns_what_the_written_one_does(tiny: LanguageRecipe, text: str) -> None:
    device, losses = torch.device("cuda"), []
    recipe = override(tiny, ["dropout=0"])
    for captured in (False, True):
        torch.manual_seed(1)
        task = Language.load(recipe, text)
        model = task.build().to(device)
        step = make_step(task, model, optimizer.make(recipe, model.parameters(), device), device, "fp32")
        chosen = step if captured else step.eager  # type: ignore[attr-defined]
        carry = {name: x.to(device) for name, x in task.start(model).items()}
        for index in range(20):
            # Two shapes in turn: each gets a graph of its own.
            short = slice(None, 3 if index % 2 else None)
            batch = tuple(x[short].to(device) for x in task.batches(1, 1)[index])
            loss, carry = chosen(batch, carry)
        assert not captured or len(step.graphs) == 2  # type: ignore[attr-defined]
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_what_is_compiled_first_is_before_the_clock_and_changes_no_bit(
    tiny: LanguageRecipe, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, loss = [0.0], Language.loss
    calls: list[int] = []

    def compiling(*given: Any) -> Any:
        now[0] += 0.001 if calls else 1000.0
        calls.append(1)
        return loss(*given)

    monkeypatch.setattr("porism.training.loop.time.monotonic", lambda: now[0])
    monkeypatch.setattr(Language, "loss", compiling)
    found = []
    for name in ("warm", "cold"):
        calls.clear()
        if name == "cold":
            monkeypatch.setattr(EagerStep, "warm_up", lambda *_: None)
        recipe = override(tiny, ["epochs=1", "dropout=0.5"])
        training = begin(
            TrainingRequest(Language, recipe, source=text, device="cpu", seed=3, threads=1), tmp_path / name
        )
        training.fit(checkpoint_every=math.inf)
        found.append(training)
    warm, cold = found
    assert warm.position.seconds < 10
    assert cold.position.seconds > 1000
    assert all(torch.equal(a, b) for a, b in zip(warm.model.parameters(), cold.model.parameters(), strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_capture_that_fails_leaves_the_stream_and_the_generator_as_they_were() -> None:
    stream = torch.cuda.current_stream()
    torch.cuda.manual_seed(1)
    expected = torch.rand(3, device="cuda")
    torch.cuda.manual_seed(1)
    with pytest.raises(RuntimeError), capture(torch.cuda.CUDAGraph()):
        torch.rand(1, device="cuda").item()  # a copy to the host cannot be captured
    assert torch.cuda.current_stream() == stream
    assert torch.equal(torch.rand(3, device="cuda"), expected)


HELD = 20


class HeldGradients:
    """Holds the first gradients of a parameter, and beside them copies; of those that come after, where they lie."""

    def __init__(self, parameter: nn.Parameter, update: Callable[[], Any]) -> None:
        self.parameter, self.update = parameter, update
        self.gradients: list[tuple[Tensor, Tensor]] = []
        self.addresses: set[int] = set()

    def step(self) -> None:
        gradient = self.parameter.grad
        assert gradient is not None
        if len(self.gradients) < HELD:
            self.gradients.append((gradient, gradient.clone()))
        else:
            self.addresses.add(gradient.data_ptr())
        self.update()


def test_a_training_that_reuses_memory_has_the_same_bits_and_leaves_held_gradients_alone(
    tiny: LanguageRecipe, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("porism.layers.reused_memory.LARGE", 0)
    # A window with fewer words than half of the vocabulary: four of eleven and the end of a line.
    recipe = override(tiny, ["epochs=1", "batch_size=1", "seq_len=4", "max_grad_norm=0.1", "tie_weights=false"])
    found = []
    for name in ("reused", "new"):
        if name == "new":
            monkeypatch.setattr("porism.training.step.reusing", lambda _: nullcontext())
        request = TrainingRequest(Language, recipe, source=text, device="cpu", seed=3, threads=1)
        training = begin(request, tmp_path / name)
        held = HeldGradients(training.model.get_parameter("embedding.weight"), training.optimizer.step)
        monkeypatch.setattr(training.optimizer, "step", held.step)
        training.fit(checkpoint_every=math.inf)
        assert len(held.gradients) == HELD
        assert all(torch.equal(then, now) for then, now in held.gradients)
        assert (len(held.addresses) == 1) == (name == "reused")
        found.append(training)
    reused, new = found
    assert all(torch.equal(a, b) for a, b in zip(reused.model.parameters(), new.model.parameters(), strict=True))
