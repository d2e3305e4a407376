"""Patterns of attention: weights by softmax and by cheaper methods, held against the layers themselves."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi")

from starlette.testclient import TestClient
from tests.web.conftest import HOME  # noqa: F401  # the fixtures of the folder
from tests.web.test_predictions import Heard

from porism.errors import DataError
from porism.layers.attention.hybrid import hybrid_attention
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.softmax import softmax_attention
from porism.layers.attention.taylor import taylor_attention
from porism.layers.attention.window import window_attention
from porism.web.processes.patterns import Projected, method_weights, pattern_of, patterns

TEXT = "the cat sees a dog and the dog sees a bird"


def ask(**changes: Any) -> dict[str, Any]:
    given = {"text": TEXT, "source": "random", "layer": 1, "method": "taylor", "K": 2, "W": 3}
    return patterns(given | changes, Heard().step)


@pytest.mark.parametrize("method", ["softmax", "sliding", "block", "taylor", "hybrid"])
def test_weights_give_the_answer_of_the_layer(method: str) -> None:
    q, k, v = torch.randn(3, 2, 9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = Projected(q, k, v, [], [], 1, False)
    operands = [x[None] for x in (q, k, v)]
    expected = {
        "softmax": lambda: softmax_attention(*operands, pattern=CAUSAL, scale=1.0),
        "sliding": lambda: window_attention(*operands, pattern=pattern_of("sliding", 3), scale=1.0),
        "block": lambda: window_attention(*operands, pattern=pattern_of("block", 3), scale=1.0),
        "taylor": lambda: taylor_attention(*operands, order=4, pattern=CAUSAL, scale=1.0),
        "hybrid": lambda: hybrid_attention(*operands, window_size=3, order=4, pattern=CAUSAL, scale=1.0),
    }[method]()[0]
    torch.testing.assert_close(method_weights(found, method, 4, 3) @ v, expected)


def test_a_window_of_two_has_two_cells_a_row_but_the_first() -> None:
    found = ask(method="sliding", W=2)
    for head in found["heads"]:
        assert [sum(weight > 0 for weight in row) for row in head["method"]] == [1, *[2] * (len(found["tokens"]) - 1)]


def test_the_error_falls_with_the_order() -> None:
    found = ask()
    errors = [one["error"] for one in found["orders"]]
    assert [one["K"] for one in found["orders"]] == [2, 4, 6, 8]
    assert errors == sorted(errors, reverse=True)
    by_method = {one["method"]: one["error"] for one in found["methods"]}
    assert by_method["softmax"] == 0
    assert by_method["taylor"] == pytest.approx(errors[0])
    assert by_method["hybrid"] < by_method["taylor"]
    pairs = {one["method"]: one["pairs"] for one in found["methods"]}
    length = len(found["tokens"])
    assert (pairs["softmax"], pairs["sliding"]) == (length * (length + 1) // 2, 3 * length - 3)


def test_random_vectors_are_the_same_every_time() -> None:
    assert ask()["heads"] == ask()["heads"]


def test_a_run_shows_its_own_weights_and_names_unknown_words(trained: Path) -> None:
    found = ask(
        text="the cat meows loudly", source="tiny/attention", path=str(trained / "tiny/attention"), method="softmax"
    )
    assert (found["tokens"], found["unknown"]) == (["the", "cat", "meows", "loudly"], ["meows", "loudly"])
    assert (len(found["heads"]), found["layers"]) == (2, 1)
    for head in found["heads"]:
        weights = torch.tensor(head["weights"])
        torch.testing.assert_close(weights.sum(1), torch.ones(4), atol=1e-4, rtol=0)
        assert (weights.triu(1) == 0).all()
        assert head["error"] == 0


def test_a_layer_that_is_not_there_is_refused(trained: Path) -> None:
    with pytest.raises(DataError, match="it has 1 layer, got layer 2"):
        ask(source="tiny/attention", path=str(trained / "tiny/attention"), layer=2)


def test_a_long_text_is_cut_and_says_so() -> None:
    found = ask(text="word " * 70)
    assert (len(found["tokens"]), found["cut"]) == (64, True)


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"text": "  "}, 422, "text"),
        ({"K": 3}, 422, "K"),
        ({"W": 0}, 422, "W"),
        ({"method": "magic"}, 422, "method"),
        ({"source": "../x"}, 404, "source"),
        ({"source": "tiny/elman"}, 422, "source"),
        ({"source": "old/graphs"}, 422, "source"),
    ],
)
def test_what_cannot_be_shown_is_refused(client: TestClient, change: dict[str, Any], status: int, field: str) -> None:
    answer = client.post("/api/patterns", json={"text": TEXT, **change})
    assert (answer.status_code, answer.json()["field"]) == (status, field), answer.text
