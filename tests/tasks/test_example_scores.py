"""Metrics that are no share of right answers: what each example adds, from which reports tell their interval."""

import pytest

from porism.tasks import find
from porism.training.loop import answering, evaluate
from porism.training.task import Task


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("name", "metric", "unit"),
    [("words", "cross_entropy", "passage of 50 words"), ("language", "perplexity", "passage of 50 words")],
)
def test_the_examples_of_test_add_up_to_its_metric(name: str, metric: str, unit: str) -> None:
    kind: type[Task] = find(name)
    task = kind.load(next(iter(kind.recipes.values())), None)
    model = task.build()
    with answering(model):
        scores = task.example_scores(model, "test")
    assert scores is not None
    assert (scores.metric, scores.unit) == (metric, unit)
    assert len(scores.numerators) == len(scores.denominators) > 100
    assert scores.value == pytest.approx(evaluate(task, model, "test")[metric], rel=1e-5)
