"""What --over means, and what it refuses."""

import pytest
from tests.sweep.conftest import Plan

from porism.errors import RecipeError
from porism.sweep.space import Range, Values, parse_over
from porism.tasks import choices

RECIPE = choices("language").recipes["elman"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hidden_size=100,200", Values((100, 200))),
        ("tie_weights=true,false", Values((True, False))),
        ("max_grad_norm=none,1", Values((None, 1.0))),
        ("optimizer=adam,sgd", Values(("adam", "sgd"))),
        ("learning_rate=1e-4..1e-2", Range(1e-4, 1e-2, log=True)),
        ("learning_rate=0.01..0.05", Range(0.01, 0.05, log=False)),
        ("learning_rate=0.01..0.05:log", Range(0.01, 0.05, log=True)),
        ("dropout=0..0.5", Range(0.0, 0.5, log=False)),
        ("hidden_size=32..512:linear", Range(32, 512, log=False)),
    ],
)
def test_values_and_ranges_have_the_types_of_their_fields(text: str, expected: Values | Range) -> None:
    (found,) = parse_over(RECIPE, [text]).values()
    assert found == expected
    assert isinstance(found, Values) or type(found.low) is type(expected.low)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["hidden_size"], "--over takes FIELD=VALUE,VALUE or FIELD=LOW..HIGH, got hidden_size"),
        (["hiden_size=3"], "Did you mean hidden_size?"),
        (["hidden_size=4,-1"], "hidden_size=-1 cannot be"),
        (["hidden_size=4,four"], "hidden_size=four cannot be"),
        (["hidden_size=4,04"], "names 4 twice"),
        (["hidden_size=4", "hidden_size=8"], "names hidden_size twice"),
        (["recipe=elman,lstm"], "Name several recipes after the task"),
        (["learning_rate=0.1..0.01"], "expected a low end below a high one"),
        (["dropout=0..0.5:log"], "a log scale has no 0"),
        (["optimizer=adam..sgd"], "optimizer is no number"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_one_line(texts: list[str], message: str) -> None:
    with pytest.raises(RecipeError) as raised:
        parse_over(RECIPE, texts)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_grid_has_every_setting_once_and_takes_no_range(plan: Plan) -> None:
    grid = plan(["hidden_size=4,8", "learning_rate=0.01,0.1,1"])
    assert grid.trials == 6
    assert grid.grid()[:2] == [{"hidden_size": 4, "learning_rate": 0.01}, {"hidden_size": 4, "learning_rate": 0.1}]
    assert len({str(setting) for setting in grid.grid()}) == 6
    with pytest.raises(RecipeError, match="is a range, and a grid takes values"):
        plan(["learning_rate=1e-3..1"]).check()
    with pytest.raises(RecipeError, match="a sweep over nothing"):
        plan([]).check()
    with pytest.raises(RecipeError, match="10,001 trials: expected 1 to 10,000"):
        plan(["dropout=0..0.5"], drawn=10_001, sampler="random").check()
