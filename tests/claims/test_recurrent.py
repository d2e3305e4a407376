"""What the checks on recurrent nets stand on: their truth is that of the layers, and what they say in words holds."""

import math
import re

import pytest
import torch

from porism.claims.checks.compare import ROUNDING, difference
from porism.claims.claim import Claim, Empirical
from porism.claims.topics.recurrent import CLAIMS
from porism.claims.topics.recurrent.perplexity import measured_perplexity, nats, one_word_each, predictions
from porism.claims.topics.recurrent.scores import BY_LABEL
from porism.claims.topics.recurrent.sizes import model_of, weights_of
from porism.claims.topics.recurrent.states import STATED
from porism.claims.topics.recurrent.step import STEPS, ElmanStep, derivative, random_step
from porism.claims.topics.recurrent.training import pairs_by
from porism.layers.recurrent.elman.gradient import local_gradient
from porism.layers.recurrent.elman.naive import LanguageModelWeights, language_model
from porism.tasks.language.recipes import EXPERIMENTS, RECIPES


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_step_is_that_of_the_layers(step: ElmanStep) -> None:
    word = torch.zeros(1, 1, dtype=torch.long)
    weights = LanguageModelWeights(step.e, step.I, step.H, step.U, step.b1[0], step.b2[0], step.before)
    layers = local_gradient(weights, word, step.y.argmax()[None, None], t=0)
    assert math.isclose(step.E, language_model(weights, word, step.y.argmax()[None, None]), rel_tol=ROUNDING)
    for name in ("I", "H", "U", "b1", "b2"):
        found = derivative(step, "E", name)
        assert difference(getattr(layers, name), found.reshape(getattr(layers, name).shape)) <= ROUNDING


def test_parameters_as_rows_make_the_model() -> None:
    model = model_of(V=9, D=7, H=2).double().eval()
    tokens, targets = torch.randint(9, (2, 5, 3))
    weights = LanguageModelWeights._make(weight.detach().double() for weight in weights_of(model, B=3))
    with torch.no_grad():
        loss, _carry = model.loss(tokens, targets, model.start(3))
    assert math.isclose(loss * targets.numel(), language_model(weights, tokens, targets), rel_tol=ROUNDING)


def test_four_of_six_formulas_of_the_right_size_are_wrong_and_all_are_right_at_a_width_of_one() -> None:
    def wrong(step: ElmanStep) -> set[str]:
        return {by for by, form in STATED.items() if difference(derivative(step, "E", by), form(step)) > ROUNDING}

    assert wrong(random_step(D=3, H=5, V=7)) == {"I", "H", "b1", "before"}
    assert wrong(random_step(D=3, H=1, V=7)) == set()


def test_the_sum_without_the_word_itself_is_short_of_its_own_share() -> None:
    claim = next(claim for claim in CLAIMS if claim.id == "001-05")
    assert isinstance(claim, Claim)
    for step in BY_LABEL.values():
        stated = torch.stack([claim.stated(step.y[0], step.yhat[0], k) for k in range(step.y.shape[1])])
        missing = derivative(step, "E", "alpha")[0] - stated
        assert torch.allclose(missing, (step.y * step.yhat)[0], rtol=0, atol=1e-15)


def test_with_a_spread_label_the_two_forms_of_the_perplexity_differ() -> None:
    """The condition that the sources state is needed: 000-02 and 000-03 are refused without it."""
    y, yhat = predictions(1, seed=3), predictions(1)
    claims = {claim.id: claim for claim in CLAIMS if isinstance(claim, Claim)}
    both = claims["000-02"].stated(y, yhat)
    assert abs(float(both[0] - measured_perplexity(y, yhat))) > 0.01
    assert abs(float(both[0] - both[1])) > 0.01
    assert abs(float(claims["000-03"].stated(y, yhat)) - nats(y, yhat)) > 0.01


def test_cross_entropy_is_never_less_than_the_logarithm_of_the_inverse_probability() -> None:
    y, yhat = predictions(10_000, seed=1), predictions(10_000, seed=2)
    cross_entropies, inverses = -(y * yhat.log()).sum(1), 1 / (y * yhat).sum(1)
    assert bool((cross_entropies >= inverses.log()).all())
    alike = torch.tensor([[0.4, 0.4, 0.2]], dtype=torch.float64)
    label = torch.tensor([[0.9, 0.1, 0.0]], dtype=torch.float64)
    assert math.isclose(nats(label, alike), -math.log(0.4), rel_tol=ROUNDING)


def test_the_perplexity_of_a_text_is_the_geometric_mean_of_its_words() -> None:
    y, yhat = one_word_each(7), predictions(7)
    words = 1 / (y * yhat).sum(1)
    assert math.isclose(measured_perplexity(y, yhat), words.log().mean().exp(), rel_tol=ROUNDING)
    assert measured_perplexity(y, yhat) < words.mean()


def test_rows_that_differ_in_one_field_are_found() -> None:
    assert pairs_by("learning_rate") == [("table-02", "table-07"), ("table-10", "table-09")]
    assert pairs_by("batch_size") == [("table-01", "table-02"), ("table-11", "table-12")]
    assert pairs_by("patience") == [("table-02", "table-04")]


def test_every_command_names_what_the_task_has() -> None:
    commands = [claim.command for claim in CLAIMS if isinstance(claim, Empirical)]
    named = {name for command in commands for name in re.findall(r"[a-z]+-(?:\d+|question)\b", command)}
    assert named
    assert named <= {*RECIPES, *EXPERIMENTS}
