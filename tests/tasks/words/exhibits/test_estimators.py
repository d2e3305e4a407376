"""What sampling costs: the exact ways agree with each other and with measuring, which tells biased ones from others."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from porism.layers.skipgram.estimators import ESTIMATORS, NEED_THE_NORMALISER
from porism.layers.skipgram.noise import Noise
from porism.tasks.words.exhibits.estimators import (
    INDEPENDENT,
    EstimationError,
    enumerated,
    estimation_errors,
    independent,
    table,
)

V, D, SAMPLES = 30, 5, 2
UNBIASED = ("uniform", "importance")


def model(vocabulary: int = V, width: int = D) -> tuple[Tensor, Tensor, Noise, Tensor]:
    draw = torch.Generator().manual_seed(0)
    words, contexts = torch.randn(2, vocabulary, width, generator=draw)
    noise = Noise.of_frequencies(1000 / torch.arange(1, vocabulary + 1))
    return words, contexts, noise, torch.randint(vocabulary, (7, 2), generator=draw)


@pytest.fixture(scope="module")
def measured() -> dict[str, EstimationError]:
    return {one.estimator: one for one in estimation_errors(*model(), SAMPLES, draws=20_000, exact=False)}


@pytest.fixture(scope="module")
def exact() -> dict[str, EstimationError]:
    return {one.estimator: one for one in estimation_errors(*model(), SAMPLES)}


@pytest.mark.parametrize("estimator", UNBIASED)
def test_the_measured_bias_of_an_unbiased_estimator_is_noise(
    estimator: str, measured: dict[str, EstimationError]
) -> None:
    found = measured[estimator]
    assert 0 < found.standard_error < 0.05
    assert found.bias < 4 * found.standard_error


@pytest.mark.parametrize("estimator", [name for name in ESTIMATORS if name not in UNBIASED])
def test_the_measured_bias_of_a_biased_estimator_is_not(estimator: str, measured: dict[str, EstimationError]) -> None:
    found = measured[estimator]
    assert 0 < found.standard_error < 0.05
    assert found.bias > 4 * found.standard_error


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_what_is_measured_is_what_is_exact(
    estimator: str, measured: dict[str, EstimationError], exact: dict[str, EstimationError]
) -> None:
    found, expected = measured[estimator], exact[estimator]
    assert expected.standard_error == 0
    assert abs(found.bias - expected.bias) < 4 * found.standard_error
    assert found.deviation == pytest.approx(expected.deviation, rel=0.05)


def test_the_exact_bias_of_an_unbiased_estimator_is_0(exact: dict[str, EstimationError]) -> None:
    assert {name for name, found in exact.items() if found.bias < 1e-12} == {"full", *UNBIASED}


@pytest.mark.parametrize("estimator", INDEPENDENT)
@pytest.mark.parametrize("samples", [1, 2, 7])
def test_one_word_at_a_time_gives_what_all_ways_to_draw_do(estimator: str, samples: int) -> None:
    words, contexts, noise, _ = model(5, 3)
    v, U, q = words[2].double(), contexts.double(), noise.probabilities
    if estimator == "uniform":
        q = torch.full_like(q, 1 / 5)
    found, expected = independent(estimator, v, U, 4, q, samples), enumerated(estimator, v, U, 4, q, samples)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_bias_is_relative_to_the_length_of_the_exact_gradient() -> None:
    words, contexts, noise, _ = model(4, 3)
    (found,) = (one for one in estimation_errors(words, contexts, noise, torch.tensor([[1, 2]]), SAMPLES)
                if one.estimator == "self-normalised")  # fmt: skip
    moments = enumerated("self-normalised", words[1].double(), contexts.double(), 2, noise.probabilities, SAMPLES)
    length = (moments.mean - moments.bias).norm()
    assert found.bias == pytest.approx(float(moments.bias.norm() / length))
    assert found.deviation == pytest.approx(float(moments.variance**0.5 / length))


def test_noise_does_not_lengthen_the_bias_on_average() -> None:
    def self_normalised(**how: Any) -> EstimationError:
        (found,) = (one for one in estimation_errors(*model(8), 1, **how) if one.estimator == "self-normalised")
        return found

    expected = self_normalised()
    found = torch.tensor([self_normalised(draws=3, seed=seed, exact=False).bias ** 2 for seed in range(40)])
    tolerance = 4 * float(found.std()) / len(found) ** 0.5
    assert abs(float(found.mean()) - expected.bias**2) < tolerance
    assert tolerance < expected.deviation**2 / 3, "more than chance would add"


def test_what_needs_the_normaliser_reads_every_row(exact: dict[str, EstimationError]) -> None:
    for name, found in exact.items():
        assert found.rows_read == (V if name in ("full", *NEED_THE_NORMALISER) else 1 + SAMPLES)
        assert found.rows_changed == {"full": V, "uniform": SAMPLES}.get(name, 1 + SAMPLES)


def test_the_table_tells_what_is_exact_and_what_was_measured() -> None:
    words, contexts, noise, pairs = model(200)
    shown = table(estimation_errors(words, contexts, noise, pairs, SAMPLES, draws=100))
    rows = {row[0]: dict(zip(shown.columns, row, strict=True)) for row in shown.rows}
    assert list(rows) == ["full", *ESTIMATORS]
    assert {name for name, row in rows.items() if row["known"] == "exactly"} == {"full", *INDEPENDENT}
    known, bias = rows["self-normalised"]["known"], rows["self-normalised"]["relative bias"]
    assert re.fullmatch(r"within 0\.0*[1-9]", str(known))
    assert len(str(bias)) == len(str(known).removeprefix("within ")), "as many decimals as its standard error"
    assert [name for name, row in rows.items() if row["relative bias"] == 0] == ["full", *UNBIASED]


def test_a_model_without_a_gradient_has_no_relative_error() -> None:
    words, contexts, noise, pairs = model(4, 3)
    found = estimation_errors(words, torch.zeros_like(contexts), noise, pairs, SAMPLES)
    assert [row[3] for row in table(found).rows] == [0.0, *[""] * len(ESTIMATORS)]


def test_the_errors_are_the_same_however_many_threads_there_are() -> None:
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(estimation_errors(*model(200), SAMPLES, draws=5000))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]
