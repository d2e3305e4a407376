"""Connectionist temporal classification (CTC): the probability of a text, summed over all its alignments to the frames.

At each frame the net predicts a label or the blank. An alignment becomes a text when repeated labels are merged and
blanks are removed: `hh-e-ll-lo` and `-h-eel-l-o` are both `hello`. Between two equal labels there must be a blank.

    alpha[t][s] = (alpha[t-1][s] + alpha[t-1][s-1] + alpha[t-1][s-2]) y[t][z[s]]        z = - h - e - l - l - o -

in probabilities, the third term only where z[s] is a label that differs from z[s-2]. The sum over all alignments is
that of the last two positions at the last frame. Everything below is in logarithms.

Prefix scores (for a beam search): with n[t] and b[t] the log-probabilities that the frames up to t spell the prefix g
and end with a label or with a blank, a longer prefix g c begins at frame t with probability phi[t-1] y[t][c], where phi
is b alone if c repeats the last label of g, and n + b otherwise.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import pad

from porism.tasks.blocks.padding import is_padding, reverse_padded

LOG_ZERO = -1e30
"""The logarithm of the probability 0. A finite one, since inf - inf is not a number."""


def ctc_loss(log_probs: Tensor, targets: Tensor, lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """-log P(target) of each row (B,); 0 where the target is too long for its frames.

    On a GPU it never waits for the lengths, as torch's own does, so that a training step can be captured.

    Shapes: log_probs (B, S, V), targets (B, T), lengths and target_lengths (B,) -> (B,).
    """
    if log_probs.device.type == "cpu":
        by_time = log_probs.transpose(0, 1)
        return functional.ctc_loss(
            by_time, targets, lengths, target_lengths, blank=blank, reduction="none", zero_infinity=True
        )
    loss: Tensor = ForwardBackward.apply(log_probs.float(), targets, lengths, target_lengths, blank)  # type: ignore[no-untyped-call]
    return loss


class ForwardBackward(torch.autograd.Function):
    """CTC's forward and backward variables at once; the gradient is the posterior probability of each label."""

    @staticmethod
    def forward(
        ctx: Any, log_probs: Tensor, targets: Tensor, lengths: Tensor, target_lengths: Tensor, blank: int
    ) -> Tensor:
        labels = insert_blanks(targets, blank)  # B P
        emissions = log_probs.gather(2, labels[:, None].expand(-1, log_probs.shape[1], -1))  # B S P, log y[t][z[s]]
        ends = 2 * target_lengths + 1
        alpha = forward_variables(emissions, labels, blank)
        # Backward variables are forward variables of the reversed row, reversed again; padding stays where it is.
        reversed_emissions = reverse_padded(reverse_padded(emissions, lengths, 1), ends, 2)
        beta = forward_variables(reversed_emissions, reverse_padded(labels, ends, 1), blank)
        beta = reverse_padded(reverse_padded(beta, ends, 2), lengths, 1)
        last = alpha.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, alpha.shape[2])).squeeze(1)  # B P
        two = torch.stack([ends - 1, (ends - 2).clamp(min=0)], 1)
        both = last.gather(1, two)
        # An empty target has one position only.
        total = torch.where(ends > 1, both.logsumexp(1), both[:, 0])
        possible = total > LOG_ZERO / 2
        # dE/d log y[t][v] = - sum over s with z[s] = v of the probability to be at s at t, given the target
        posterior = torch.exp(alpha + beta - emissions - total[:, None, None])
        padding = is_padding(lengths, log_probs.shape[1])[:, :, None] | is_padding(ends, labels.shape[1])[:, None, :]
        posterior = posterior.masked_fill(padding | ~possible[:, None, None], 0)
        gradient = torch.zeros_like(log_probs).scatter_add_(2, labels[:, None].expand_as(posterior), -posterior)
        ctx.save_for_backward(gradient)
        return torch.where(possible, -total, 0.0)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream[0][:, None, None], None, None, None, None


def insert_blanks(targets: Tensor, blank: int) -> Tensor:
    """The targets with a blank before, between and after their labels: (B, T) -> (B, 2 T + 1)."""
    B, T = targets.shape
    labels = targets.new_full((B, 2 * T + 1), blank)
    labels[:, 1::2] = targets
    return labels


def forward_variables(emissions: Tensor, labels: Tensor, blank: int) -> Tensor:
    """log alpha (B, S, P) from log y[t][z[s]] (B, S, P) and the labels z with their blanks (B, P)."""
    differs = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    skip = functional.pad(torch.where(differs, 0.0, LOG_ZERO), (2, 0), value=LOG_ZERO)[:, : labels.shape[1]]  # B P
    start = torch.full_like(emissions[:, 0], LOG_ZERO)
    start[:, :2] = emissions[:, 0, :2]
    alpha = [start]
    for t in range(1, emissions.shape[1]):
        previous = functional.pad(alpha[-1], (2, 0), value=LOG_ZERO)
        stay_step_skip = torch.stack([previous[:, 2:], previous[:, 1:-1], previous[:, :-2] + skip])
        alpha.append(stay_step_skip.logsumexp(0) + emissions[:, t])
    return torch.stack(alpha, 1)


def collapse(best: Tensor, lengths: Tensor, blank: int) -> list[list[int]]:
    """The texts of the most probable labels of each frame (B, S): repeated labels merged, blanks removed.

    >>> collapse(torch.tensor([[3, 3, 0, 3, 4]]), torch.tensor([5]), blank=0)
    [[3, 3, 4]]
    """
    texts = []
    for row, length in zip(best.tolist(), lengths.tolist(), strict=True):
        labels = row[:length]
        texts.append(
            [label for label, previous in zip(labels, [None, *labels], strict=False) if label not in (previous, blank)]
        )
    return texts


class PrefixState(NamedTuple):
    """CTC forward variables of R prefixes.

    log_prob_label, log_prob_blank: (R, S), log-probability of the prefix with the last frame a label or a blank.
    last_label: (R,), -1 for the empty prefix. score: (R,), log P(prefix ...).
    """

    log_prob_label: Tensor
    log_prob_blank: Tensor
    last_label: Tensor
    score: Tensor

    def select(self, rows: Tensor) -> "PrefixState":
        """Those of some prefixes, in that order."""
        return PrefixState(*(x[rows] for x in self))


class PrefixScorer:
    """CTC prefix scores over log-probabilities (R, S, V), of which the first `lengths` (R,) frames count.

    >>> scorer = PrefixScorer(log_probs, lengths, blank=2)
    >>> empty = scorer.start()
    >>> scores = scorer.next_scores(empty)                # R V: log P that a text begins with each label
    >>> one = scorer.extend(empty, labels)                # R labels
    """

    def __init__(self, log_probs: Tensor, lengths: Tensor, blank: int) -> None:
        padding = is_padding(lengths, log_probs.shape[1])
        # Padding is blank for certain: sums over all frames are then right for every row.
        only_blank = torch.full_like(log_probs, LOG_ZERO)
        only_blank[..., blank] = 0.0
        self.log_probs = torch.where(padding[..., None], only_blank, log_probs)
        self.blank = blank
        self.rows = torch.arange(len(log_probs), device=log_probs.device)

    def start(self) -> PrefixState:
        """The empty prefix: all frames are blank."""
        log_prob_blank = self.log_probs[..., self.blank].cumsum(1)
        log_prob_label = torch.full_like(log_prob_blank, LOG_ZERO)
        last_label = torch.full_like(self.rows, -1)
        return PrefixState(log_prob_label, log_prob_blank, last_label, torch.zeros_like(log_prob_blank[:, 0]))

    def next_scores(self, state: PrefixState) -> Tensor:
        """log P(g c ...) for every label c, (R, V); at the blank, which no text holds, log P(g) as the whole text."""
        plain = (self._complete(state, repeated=False)[..., None] + self.log_probs).logsumexp(1)  # R V
        repeated = state.last_label.clamp(min=0)
        again = (self._complete(state, repeated=True) + self.log_probs[self.rows, :, repeated]).logsumexp(1)
        again = torch.where(state.last_label < 0, plain[self.rows, repeated], again)
        scores = plain.scatter(1, repeated[:, None], again[:, None])
        scores[:, self.blank] = torch.logaddexp(state.log_prob_label[:, -1], state.log_prob_blank[:, -1])
        return scores

    def extend(self, state: PrefixState, labels: Tensor) -> PrefixState:
        """Each prefix with one more label (R,)."""
        emissions = self.log_probs[self.rows, :, labels]  # R S
        is_repeated = (labels == state.last_label)[:, None]
        complete = torch.where(is_repeated, self._complete(state, True), self._complete(state, False))
        log_prob_label = _scan(complete, emissions)
        log_prob_blank = _scan(pad(log_prob_label, (1, 0), value=LOG_ZERO)[:, :-1], self.log_probs[..., self.blank])
        return PrefixState(log_prob_label, log_prob_blank, labels, (complete + emissions).logsumexp(1))

    def _complete(self, state: PrefixState, repeated: bool) -> Tensor:
        """phi[t-1] (R, S): before the first frame only the empty prefix is complete."""
        phi = state.log_prob_blank if repeated else torch.logaddexp(state.log_prob_label, state.log_prob_blank)
        first = torch.where(state.last_label < 0, 0.0, LOG_ZERO)
        return torch.cat([first[:, None].to(phi.dtype), phi[:, :-1]], 1)


def _scan(entering: Tensor, factors: Tensor) -> Tensor:
    """x[t] = (x[t-1] + entering[t]) factors[t] in logarithms: with products F, x[t] / F[t] is a running sum."""
    products = factors.cumsum(1)
    return products + torch.logcumsumexp(entering - (products - factors), 1)
