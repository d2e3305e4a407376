"""Pairs are those that windows of drawn reach hold."""

import pytest
import torch

from porism.tasks.words.data.batches import draw_pairs, seeded_generator

TOKENS = [4, 1, 2, -1, 3, -1, -1, 2, 0, 4, 1, 0, 2]


def within(window: int) -> list[tuple[int, int]]:
    """Every pair at most `window` words apart, sentence by sentence."""
    pairs, sentence = [], []
    for token in [*TOKENS, -1]:
        if token >= 0:
            sentence.append(token)
            continue
        indices = range(len(sentence))
        pairs += [(sentence[a], sentence[b]) for a in indices for b in indices if a != b and abs(a - b) <= window]
        sentence = []
    return sorted(pairs)


def drawn(window: int, seed: int, keep: torch.Tensor | None = None) -> list[tuple[int, int]]:
    keep = torch.ones(5) if keep is None else keep
    pairs = draw_pairs(torch.tensor(TOKENS, dtype=torch.int32), keep, window, seeded_generator(seed))
    return sorted((i, j) for i, j in pairs.tolist())


def test_a_window_of_one_holds_the_neighbours() -> None:
    assert drawn(1, seed=0) == within(1)


@pytest.mark.parametrize("window", [2, 5, 63])
def test_drawn_pairs_lie_between_the_least_and_the_widest_window(window: int) -> None:
    least, most = within(1), within(window)
    seen: set[tuple[int, int]] = set()
    for seed in range(50):
        pairs = drawn(window, seed)
        remaining = list(most)
        for pair in pairs:
            remaining.remove(pair)
        assert all(pair in pairs for pair in least)
        seen |= set(pairs)
    assert seen == set(most)


def test_a_word_has_window_plus_one_contexts_on_average() -> None:
    tokens = torch.zeros(20_000, dtype=torch.int32)
    pairs = draw_pairs(tokens, torch.ones(1), 5, seeded_generator(1))
    assert len(pairs) / len(tokens) == pytest.approx(6, rel=0.02)


def test_words_that_are_dropped_bring_others_together() -> None:
    keep = torch.tensor([0.0, 1, 1, 1, 1])
    assert all(0 not in pair for pair in drawn(5, 0, keep))
    assert (2, 4) in drawn(1, 0, keep)
    assert drawn(3, 0, torch.zeros(5)) == []


def test_the_seeds_decide() -> None:
    assert drawn(5, 3) == drawn(5, 3)
    assert len({tuple(drawn(5, seed)) for seed in range(5)}) > 1
    assert torch.rand(1, generator=seeded_generator(1, 2)) != torch.rand(1, generator=seeded_generator(2, 1))
