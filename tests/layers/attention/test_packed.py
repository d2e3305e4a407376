"""Texts end to end become a padded batch and come back as they were."""

from itertools import accumulate, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import ShapeError
from porism.layers import softmax_attention
from porism.layers.attention.packed import pack, starts, unpack

lengths = st.lists(st.integers(0, 7), min_size=1, max_size=5)


@given(lengths=lengths)
def test_there_and_back(lengths: list[int]) -> None:
    borders = [0, *accumulate(lengths)]
    x = torch.randn(1, 2, borders[-1], 3, requires_grad=True)
    padded, padding = unpack(x, borders)
    assert padded.shape == (len(lengths), 2, max(lengths), 3)
    assert (~padding).sum(1).tolist() == lengths
    assert not padded.masked_select(padding[:, None, :, None]).any()
    for text, (start, end) in zip(padded, pairwise(borders), strict=True):
        assert torch.equal(text[:, : end - start], x[0, :, start:end])
    back = pack(padded, borders)
    assert torch.equal(back, x)
    (gradient,) = torch.autograd.grad(back.sum(), x)
    assert (gradient == 1).all()


@given(lengths=lengths)
def test_lengths_come_as_numbers_or_as_a_tensor(lengths: list[int]) -> None:
    borders = [0, *accumulate(lengths)]
    assert starts(borders, borders[-1]) == borders
    assert starts(torch.tensor(borders, dtype=torch.int32), borders[-1]) == borders


@pytest.mark.parametrize("wrong", [[], [0], [7], [1, 7], [0, 6], [0, 8], [0, 5, 3, 7]], ids=str)
def test_lengths_that_do_not_add_up_are_refused(wrong: list[int]) -> None:
    with pytest.raises(ShapeError, match="expected numbers that rise from 0 to 7, the tokens in all. Give where each"):
        starts(wrong, 7)


def test_a_batch_of_more_than_one_is_refused() -> None:
    with pytest.raises(
        ShapeError, match=r"with cu_seqlens the batch is 1, and query is \(2, 1, 3, 4\)\. Put sequences end"
    ):
        softmax_attention(*torch.zeros(3, 2, 1, 3, 4), cu_seqlens=[0, 3])
