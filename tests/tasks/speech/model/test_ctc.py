"""CTC: its loss and its prefix scores against torch and against the sum over all alignments."""

import itertools
import math
from collections import defaultdict

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from porism.tasks.speech.model.ctc import ForwardBackward, PrefixScorer, collapse, ctc_loss

BLANK = 2
SYMBOLS = (0, 1, 3)


def all_texts(log_probs: Tensor) -> dict[tuple[int, ...], float]:
    """Every text of all alignments to log-probabilities (S, V), with its probability."""
    texts: dict[tuple[int, ...], float] = defaultdict(float)
    for alignment in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        text = tuple(symbol for symbol, _ in itertools.groupby(alignment) if symbol != BLANK)
        texts[text] += math.exp(sum(float(log_probs[t, symbol]) for t, symbol in enumerate(alignment)))
    return texts


def forward_backward(log_probs: Tensor, texts: Tensor, lengths: Tensor, text_lengths: Tensor) -> Tensor:
    loss: Tensor = ForwardBackward.apply(log_probs, texts, lengths, text_lengths, BLANK)  # type: ignore[no-untyped-call]
    return loss


def test_the_loss_is_the_sum_over_all_alignments() -> None:
    torch.manual_seed(1)
    log_probs = torch.randn(1, 4, 4, dtype=torch.float64).log_softmax(2)
    for text, probability in all_texts(log_probs[0]).items():
        target = torch.tensor([[*text, 0]])
        count = torch.tensor([len(text)])
        assert float(forward_backward(log_probs, target, torch.tensor([4]), count)) == pytest.approx(
            -math.log(probability)
        )


def test_loss_and_gradient_are_torchs() -> None:
    torch.manual_seed(1)
    logits = torch.randn(6, 63, 7, dtype=torch.float64, requires_grad=True)
    # One that repeats a label, an empty text, one that fills its frames, and one too long for them.
    lengths, counts = torch.tensor([63, 7, 12, 1, 4, 2]), torch.tensor([9, 3, 0, 1, 4, 5])
    texts = torch.randint(3, 7, (6, 9))
    texts[1, :3] = 4
    texts[4, :4] = torch.tensor([3, 4, 5, 6])
    expected = functional.ctc_loss(
        logits.log_softmax(2).transpose(0, 1), texts, lengths, counts, BLANK, "none", zero_infinity=True
    )
    ours = forward_backward(logits.log_softmax(2), texts, lengths, counts)
    torch.testing.assert_close(ours, expected)
    weights = torch.rand(6, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((weights * ours).sum(), logits, retain_graph=True)
    torch.testing.assert_close(gradient, torch.autograd.grad((weights * expected).sum(), logits)[0])
    assert ours[5] == 0
    assert gradient[5].abs().max() == 0


def test_on_a_cpu_torchs_own_is_taken() -> None:
    torch.manual_seed(1)
    log_probs = torch.randn(2, 9, 5).log_softmax(2)
    texts, lengths, counts = torch.tensor([[3, 3], [4, 0]]), torch.tensor([9, 5]), torch.tensor([2, 1])
    torch.testing.assert_close(
        ctc_loss(log_probs, texts, lengths, counts, BLANK), forward_backward(log_probs, texts, lengths, counts)
    )


def test_labels_are_collapsed_up_to_the_end() -> None:
    best = torch.tensor([[3, 3, 2, 3, 4, 4], [2, 2, 1, 1, 1, 4]])
    assert collapse(best, torch.tensor([6, 5]), BLANK) == [[3, 3, 4], [1]]


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("prefix", [(), (0,), (0, 0), (0, 1), (3, 0, 0)])
def test_prefix_scores_are_sums_over_all_texts_with_the_prefix(prefix: tuple[int, ...], padding: int) -> None:
    torch.manual_seed(2)
    log_probs = torch.randn(1, 5 + padding, 4, dtype=torch.float64).log_softmax(2)
    texts = all_texts(log_probs[0, :5])
    scorer = PrefixScorer(log_probs, torch.tensor([5]), BLANK)
    state = scorer.start()
    for symbol in prefix:
        expected = scorer.next_scores(state)[0, symbol]
        state = scorer.extend(state, torch.tensor([symbol]))
        torch.testing.assert_close(state.score[0], expected)
    scores = scorer.next_scores(state)[0].exp()
    for symbol in SYMBOLS:
        longer = (*prefix, symbol)
        total = sum(probability for text, probability in texts.items() if text[: len(longer)] == longer)
        assert float(scores[symbol]) == pytest.approx(total, abs=1e-12)
    assert float(scores[BLANK]) == pytest.approx(texts.get(prefix, 0.0), abs=1e-12)


def test_prefixes_of_many_recordings_are_scored_at_once() -> None:
    torch.manual_seed(3)
    log_probs, lengths = torch.randn(3, 9, 4, dtype=torch.float64).log_softmax(2), torch.tensor([9, 4, 1])
    together = PrefixScorer(log_probs, lengths, BLANK)
    state = together.extend(together.start(), torch.tensor([0, 1, 3]))
    for row, (length, symbol) in enumerate(((9, 0), (4, 1), (1, 3))):
        alone = PrefixScorer(log_probs[row : row + 1, :length], torch.tensor([length]), BLANK)
        one = alone.extend(alone.start(), torch.tensor([symbol]))
        torch.testing.assert_close(together.next_scores(state)[row].exp(), alone.next_scores(one)[0].exp())
