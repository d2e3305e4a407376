"""Rows of several lengths in one tensor."""

import pytest
import torch

from porism.tasks.blocks.padding import is_padding, pad_sequences, reverse_padded

LENGTHS = [1, 7, 3]


def test_sequences_are_padded_at_their_ends() -> None:
    sequences = [torch.randn(length, 2) for length in LENGTHS]
    padded = pad_sequences(sequences, length=9, value=-1.0)
    assert padded.shape == (3, 9, 2)
    for row, sequence in zip(padded, sequences, strict=True):
        assert torch.equal(row[: len(sequence)], sequence)
        assert (row[len(sequence) :] == -1).all()


def test_a_sequence_longer_than_the_padded_length_is_refused() -> None:
    with pytest.raises(RuntimeError):
        pad_sequences([torch.zeros(3)], length=2)


def test_what_comes_from_the_end_on_is_padding() -> None:
    assert is_padding(torch.tensor(LENGTHS), 7).int().argmax(1).tolist() == [1, 0, 3]
    assert is_padding(torch.tensor(LENGTHS), 7).sum(1).tolist() == [6, 0, 4]


@pytest.mark.parametrize("dim", [1, 2])
def test_rows_are_reversed_within_their_lengths(dim: int) -> None:
    x = torch.randn(3, 7, 7)
    reversed_ = reverse_padded(x, torch.tensor(LENGTHS), dim)
    for row, turned, length in zip(x, reversed_, LENGTHS, strict=True):
        assert torch.equal(turned.narrow(dim - 1, 0, length), row.narrow(dim - 1, 0, length).flip(dim - 1))
        assert torch.equal(turned.narrow(dim - 1, length, 7 - length), row.narrow(dim - 1, length, 7 - length))
