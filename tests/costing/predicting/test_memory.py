"""The predicted peak of a training step is the measured one, to the byte where kernels allocate no workspace."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from porism.costing.predicting.memory import Fit, will_it_fit
from porism.errors import DeviceError, RecipeError

B, D, H, V = 63, 7, 31, 101


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """With more of them kernels take scratch memory for each, and how many there are is up to the tests before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(D, H), nn.GELU(), nn.Linear(H, D))


def words() -> nn.Module:
    return nn.Sequential(nn.Embedding(V, D), nn.LayerNorm(D), nn.Linear(D, V))


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, H, batch_first=True)


def alike() -> nn.Module:
    """So many more weights than rows that the update is the worst moment."""
    return nn.Sequential(nn.Linear(H, H, bias=False), nn.Linear(H, H, bias=False))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "mlp": (mlp, lambda: torch.randn(B, D)),
    "mlp inside a model": (mlp, lambda: torch.randn(B, D, requires_grad=True)),
    "words": (words, lambda: torch.randint(V, (B,))),
    "two alike": (alike, lambda: torch.randn(1, H)),
    "encoder layer": (encoder, lambda: torch.randn(2, 7, 8)),
}


@pytest.mark.sweep(1, each="name")
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"])
@pytest.mark.parametrize("name", MODELS)
def test_the_predicted_peak_is_the_measured_one(name: str, optimizer: str) -> None:
    build, make = MODELS[name]
    fit = will_it_fit(build(), make(), optimizer=optimizer, measure=True)
    assert fit.measured is not None
    # A scalar or two of the optimizer's step come and go.
    assert abs(fit.measured - fit.total) <= 64
    assert fit.fits


@pytest.mark.parametrize(("optimizer", "times"), [("sgd", 0), ("momentum", 1), ("adam", 2), ("adamw", 2)])
def test_states_and_gradients_are_those_of_trainable_parameters(optimizer: str, times: int) -> None:
    model = mlp()
    model[0].requires_grad_(False)  # type: ignore[index]
    trainable = 4 * (H * D + D)
    fit = will_it_fit(model, torch.randn(1, D), device=10**6, optimizer=optimizer)
    assert fit.parameters == 4 * (D * H + H) + trainable
    assert fit.gradients <= trainable
    assert fit.optimizer == times * trainable + (8 if optimizer.startswith("adam") else 0)  # two step counters


def test_a_large_batch_peaks_in_the_backward_pass_and_a_small_one_in_the_update() -> None:
    assert will_it_fit(mlp(), torch.randn(1000, D)).moment == "backward pass"
    assert will_it_fit(mlp(), torch.randn(1, D)).moment == "optimizer's step"


def test_more_rows_take_more() -> None:
    totals = [will_it_fit(mlp(), torch.randn(rows, D)).total for rows in (1, 2, 7, 63, 1000)]
    assert totals == sorted(totals)
    assert totals[-1] > totals[0]


def test_a_model_larger_than_this_machine_is_answered_at_once() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(2**16, 2**16, bias=False) for _ in range(4)))
        fit = will_it_fit(model, torch.randn(8, 2**16), device=80 * 2**30)
    assert not fit.fits
    assert fit.parameters == 4 * 4 * 2**32
    assert fit.total >= 4 * fit.parameters


def test_the_module_and_its_gradients_are_left_alone() -> None:
    model = mlp()
    before = [parameter.clone() for parameter in model.parameters()]
    will_it_fit(model, torch.randn(B, D), measure=True)
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_function_has_no_parameters() -> None:
    fit = will_it_fit(lambda x: (x @ x.mT).softmax(-1), torch.randn(B, D, requires_grad=True), device=10**6)
    assert (fit.parameters, fit.gradients, fit.optimizer) == (0, 0, 0)
    assert fit.activations >= 4 * B * B


def test_the_answer_in_words() -> None:
    part = 2**20
    fit = Fit("backward pass", part, part, 2 * part, 3 * part, part, available=8 * part)
    assert (fit.total, fit.fits, fit.residue) == (8 * part, True, None)
    assert str(fit) == (
        "fits: 8.0 MiB of 8.0 MiB, at the backward pass: "
        "parameters 1.0, gradients 1.0, optimizer 2.0, activations 3.0, transient 1.0"
    )
    more = Fit("backward pass", part, part, 2 * part, 3 * part, part, available=8 * part, measured=9 * part)
    assert (more.fits, more.residue) == (False, part)
    assert str(more).startswith("does not fit: 8.0 MiB of 8.0 MiB")
    assert str(more).endswith("; measured 9.0, residue +1.0 (inside kernels, rounding)")


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(RecipeError, match="^cost: 'adan' is no optimizer known here. Choose from sgd"):
        will_it_fit(mlp(), torch.randn(B, D), optimizer="adan")
    with pytest.raises(DeviceError, match="^fit: 1024 bytes are no device to measure on. Name one"):
        will_it_fit(mlp(), torch.randn(B, D), device=1024, measure=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("build", "make"),
    [
        (
            lambda: nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)),
            lambda: torch.randn(16384, 1024),
        ),
        (lambda: nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), lambda: torch.randn(32, 512, 512)),
    ],
    ids=["mlp", "encoder layer"],
)
def test_on_a_gpu_the_kernels_are_its_own(build: Callable[[], nn.Module], make: Callable[[], Tensor]) -> None:
    fit = will_it_fit(build(), make(), device="cuda", measure=True)
    assert fit.measured is not None
    # Never too much, as the CPU's kernels would have it; what kernels take inside, for partial sums, is hidden.
    assert 0.85 * fit.measured <= fit.total <= fit.measured, str(fit)
