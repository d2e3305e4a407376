"""Random modules at random sizes: no number without a label that a fresh run on real tensors does not confirm."""

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from tests.costing.sound import BATCHES, CONDITIONS, KINDS, LENGTHS, NUMBERS, WRAPS, Model, Step, is_small, wrong

from porism import cost

STEPS = st.lists(
    st.builds(Step, st.sampled_from(list(KINDS)), st.sampled_from(list(CONDITIONS)), st.sampled_from(NUMBERS)),
    min_size=1,
    max_size=3,
)
SIZES = st.lists(st.tuples(st.sampled_from(BATCHES), st.sampled_from(LENGTHS)), min_size=1, max_size=4)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("first", range(20))
def test_a_number_is_right_or_says_what_it_is(first: int, is_whole: bool) -> None:
    @seed(first)
    @settings(max_examples=10 if is_whole else 5, deadline=None, database=None)
    @given(STEPS, st.sampled_from(list(WRAPS)), SIZES)
    def holds(steps: list[Step], wrap: str, sizes: list[tuple[int, int]]) -> None:
        model = Model(steps, wrap)
        found = cost(model, "B T 8")
        for B, T in sizes:
            if is_small(steps, B, T):
                assert wrong(found, model, B, T) == []

    holds()
