"""CTC: its loss, and what it says of beginnings of texts, against torch and against the sum over all ways."""

import itertools
import math
from collections import defaultdict

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from porism.tasks.speech.model.ctc import Prefixes, Summed, ctc_loss, merged

NOTHING = 2
SYMBOLS = (0, 1, 3)


def all_texts(chances: Tensor) -> dict[tuple[int, ...], float]:
    """Every text that can be said over log-probabilities (S, V), with its probability."""
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for said in itertools.product(range(chances.shape[1]), repeat=len(chances)):
        text = tuple(symbol for symbol, _ in itertools.groupby(said) if symbol != NOTHING)
        found[text] += math.exp(sum(float(chances[t, symbol]) for t, symbol in enumerate(said)))
    return found


def summed(chances: Tensor, texts: Tensor, lengths: Tensor, text_lengths: Tensor) -> Tensor:
    loss: Tensor = Summed.apply(chances, texts, lengths, text_lengths, NOTHING)  # type: ignore[no-untyped-call]
    return loss


def test_the_loss_is_the_sum_over_all_ways() -> None:
    torch.manual_seed(1)
    chances = torch.randn(1, 4, 4, dtype=torch.float64).log_softmax(2)
    for text, chance in all_texts(chances[0]).items():
        told = torch.tensor([[*text, 0]])
        count = torch.tensor([len(text)])
        assert float(summed(chances, told, torch.tensor([4]), count)) == pytest.approx(-math.log(chance))


def test_loss_and_gradient_are_torchs() -> None:
    torch.manual_seed(1)
    logits = torch.randn(6, 63, 7, dtype=torch.float64, requires_grad=True)
    # One that repeats a symbol, an empty text, one that fills its states, and one too long for them.
    lengths, counts = torch.tensor([63, 7, 12, 1, 4, 2]), torch.tensor([9, 3, 0, 1, 4, 5])
    texts = torch.randint(3, 7, (6, 9))
    texts[1, :3] = 4
    texts[4, :4] = torch.tensor([3, 4, 5, 6])
    wanted = functional.ctc_loss(
        logits.log_softmax(2).transpose(0, 1), texts, lengths, counts, NOTHING, "none", zero_infinity=True
    )
    ours = summed(logits.log_softmax(2), texts, lengths, counts)
    torch.testing.assert_close(ours, wanted)
    weights = torch.rand(6, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((weights * ours).sum(), logits, retain_graph=True)
    torch.testing.assert_close(gradient, torch.autograd.grad((weights * wanted).sum(), logits)[0])
    assert ours[5] == 0
    assert gradient[5].abs().max() == 0


def test_on_a_cpu_torchs_own_is_taken() -> None:
    torch.manual_seed(1)
    chances = torch.randn(2, 9, 5).log_softmax(2)
    texts, lengths, counts = torch.tensor([[3, 3], [4, 0]]), torch.tensor([9, 5]), torch.tensor([2, 1])
    torch.testing.assert_close(
        ctc_loss(chances, texts, lengths, counts, NOTHING), summed(chances, texts, lengths, counts)
    )


def test_what_is_said_is_merged_up_to_the_end() -> None:
    said = torch.tensor([[3, 3, 2, 3, 4, 4], [2, 2, 1, 1, 1, 4]])
    assert merged(said, torch.tensor([6, 5]), NOTHING) == [[3, 3, 4], [1]]


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("begun", [(), (0,), (0, 0), (0, 1), (3, 0, 0)])
def test_beginnings_are_sums_over_all_texts_that_go_on(begun: tuple[int, ...], padding: int) -> None:
    torch.manual_seed(2)
    chances = torch.randn(1, 5 + padding, 4, dtype=torch.float64).log_softmax(2)
    texts = all_texts(chances[0, :5])
    prefixes = Prefixes(chances, torch.tensor([5]), NOTHING)
    at = prefixes.start()
    for symbol in begun:
        wanted = prefixes.next_scores(at)[0, symbol]
        at = prefixes.grow(at, torch.tensor([symbol]))
        torch.testing.assert_close(at.score[0], wanted)
    scores = prefixes.next_scores(at)[0].exp()
    for symbol in SYMBOLS:
        longer = (*begun, symbol)
        going_on = sum(chance for text, chance in texts.items() if text[: len(longer)] == longer)
        assert float(scores[symbol]) == pytest.approx(going_on, abs=1e-12)
    assert float(scores[NOTHING]) == pytest.approx(texts.get(begun, 0.0), abs=1e-12)


def test_beginnings_of_many_recordings_are_scored_at_once() -> None:
    torch.manual_seed(3)
    chances, lengths = torch.randn(3, 9, 4, dtype=torch.float64).log_softmax(2), torch.tensor([9, 4, 1])
    together = Prefixes(chances, lengths, NOTHING)
    at = together.grow(together.start(), torch.tensor([0, 1, 3]))
    for row, (length, symbol) in enumerate(((9, 0), (4, 1), (1, 3))):
        alone = Prefixes(chances[row : row + 1, :length], torch.tensor([length]), NOTHING)
        one = alone.grow(alone.start(), torch.tensor([symbol]))
        torch.testing.assert_close(together.next_scores(at)[row].exp(), alone.next_scores(one)[0].exp())
