"""Rows and windows: contiguous, in order, and every token predicted once."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import DataError, RecipeError
from porism.tasks.language.data.windows import Windows, rows
from porism.tasks.language.recipes import RECIPES
from porism.tasks.language.task import Language

sizes = st.tuples(st.integers(2, 200), st.integers(1, 9), st.integers(1, 70)).filter(
    lambda size: size[0] >= 2 * size[1]
)


@given(sizes)
def test_rows_are_contiguous_and_only_the_remainder_is_lost(size: tuple[int, int, int]) -> None:
    tokens, batch, _ = size
    cut = rows(torch.arange(tokens), batch)
    assert cut.shape == (tokens // batch, batch)
    assert torch.equal(cut.t().flatten(), torch.arange(tokens - tokens % batch))


@given(sizes)
def test_every_token_but_the_first_of_a_row_is_predicted_once(size: tuple[int, int, int]) -> None:
    tokens, batch, steps = size
    cut = rows(torch.arange(tokens), batch)
    windows = Windows(cut, steps)
    assert torch.equal(torch.cat([x for x, _ in windows]), cut[:-1])
    assert torch.equal(torch.cat([y for _, y in windows]), cut[1:])
    assert len(list(windows)) == len(windows)


@given(sizes)
def test_windows_have_their_length_and_only_the_last_is_shorter(size: tuple[int, int, int]) -> None:
    tokens, batch, steps = size
    windows = Windows(rows(torch.arange(tokens), batch), steps)
    lengths = [len(x) for x, _ in windows]
    assert all(length == steps for length in lengths[:-1])
    assert 1 <= lengths[-1] <= steps
    assert all(x.shape == y.shape == (len(x), batch) for x, y in windows)


def test_an_index_is_a_position() -> None:
    windows = Windows(rows(torch.arange(22), 2), steps=4)
    assert len(windows) == 3
    assert torch.equal(windows[1][0], torch.tensor([[4, 15], [5, 16], [6, 17], [7, 18]]))
    assert torch.equal(windows[-1][1], torch.tensor([[9, 20], [10, 21]]))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(windows[1:], [windows[1], windows[2]], strict=True))
    with pytest.raises(IndexError):
        windows[3]


@pytest.mark.parametrize(
    ("tokens", "batch", "message"),
    [
        (7, 4, "language: 7 tokens do not fill 4 rows of 2, one to read and one to predict. Use a batch of at most 3."),
        (1, 1, "language: 1 tokens do not fill 1 rows of 2, one to read and one to predict. Give more text."),
        (0, 1, "language: 0 tokens do not fill 1 rows of 2, one to read and one to predict. Give more text."),
    ],
)
def test_too_few_tokens_are_refused(tokens: int, batch: int, message: str) -> None:
    with pytest.raises(DataError) as refused:
        rows(torch.arange(tokens), batch)
    assert str(refused.value) == message
    if batch > 1:
        assert rows(torch.arange(tokens), tokens // 2).shape == (2, tokens // 2)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"language: the batch is 0, expected at least 1."):
        rows(torch.arange(7), 0)
    with pytest.raises(RecipeError, match=r"language: windows of 0 steps, expected at least 1."):
        Windows(rows(torch.arange(7), 1), 0)


def test_a_split_too_short_to_be_measured_is_not_blamed_on_the_batch() -> None:
    """Valid and test are read in ten rows, whatever the batch of training: a smaller one would not help."""
    with pytest.raises(DataError, match=r"^language: valid has 15 tokens, expected at least 20: .* Give more text\.$"):
        Language.from_data(RECIPES["elman"], ["some text", "another"] * 30)
