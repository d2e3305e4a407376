"""Random modules at random sizes: no number without a label that a fresh run on real tensors does not confirm."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.costing.sound import BATCHES, CONDITIONS, KINDS, LENGTHS, NUMBERS, WRAPS, Model, Step, is_small, wrong

from porism import cost

STEPS = st.lists(
    st.builds(Step, st.sampled_from(list(KINDS)), st.sampled_from(list(CONDITIONS)), st.sampled_from(NUMBERS)),
    min_size=1,
    max_size=3,
)
SIZES = st.lists(st.tuples(st.sampled_from(BATCHES), st.sampled_from(LENGTHS)), min_size=1, max_size=4)


def test_a_number_is_right_or_says_what_it_is(is_whole: bool) -> None:
    @settings(max_examples=60 if is_whole else 5, deadline=None, database=None, derandomize=True)
    @given(STEPS, st.sampled_from(list(WRAPS)), SIZES)
    def holds(steps: list[Step], wrap: str, sizes: list[tuple[int, int]]) -> None:
        model = Model(steps, wrap)
        found = cost(model, "B T 8")
        for B, T in sizes:
            if is_small(steps, B, T):
                assert wrong(found, model, B, T) == []

    holds()
