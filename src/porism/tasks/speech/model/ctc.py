"""Connectionist temporal classification: the probability of a text, summed over all ways to lay it along the states.

At each state a symbol is said, or nothing. What is said becomes a text when repetitions are merged and nothings are
dropped: `hh-e-ll-lo` and `-h-eel-l-o` are both `hello`. Between two equal symbols a nothing must stand.

    alpha[t][s] = (alpha[t-1][s] + alpha[t-1][s-1] + alpha[t-1][s-2]) y[t][z[s]]        z = - h - e - l - l - o -

in probabilities, the third term only where z[s] is a symbol that differs from z[s-2]. The sum over all ways is what
stands in the last two places at the end. Everything below is in logarithms.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import pad

from porism.tasks.blocks.padding import reverse_padded

NEVER = -1e30
"""The logarithm of no probability. A finite one, since inf - inf is no number."""


def ctc_loss(chances: Tensor, texts: Tensor, lengths: Tensor, text_lengths: Tensor, nothing: int) -> Tensor:
    """-log P(text) of each row (B,); 0 where the text is too long for the states.

    On a GPU it waits for nothing, where torch's own asks for the lengths, so that a step can be captured.

    Shapes: chances (B, S, V) as log-probabilities, texts (B, T), lengths and text_lengths (B,) -> (B,).
    """
    if chances.device.type == "cpu":
        by_time = chances.transpose(0, 1)
        return functional.ctc_loss(
            by_time, texts, lengths, text_lengths, blank=nothing, reduction="none", zero_infinity=True
        )
    loss: Tensor = Summed.apply(chances.float(), texts, lengths, text_lengths, nothing)  # type: ignore[no-untyped-call]
    return loss


class Summed(torch.autograd.Function):
    """The sum over all ways, forwards and backwards at once; its gradient is how often each symbol is said."""

    @staticmethod
    def forward(
        ctx: Any, chances: Tensor, texts: Tensor, lengths: Tensor, text_lengths: Tensor, nothing: int
    ) -> Tensor:
        places = spread(texts, nothing)  # B P
        said = chances.gather(2, places[:, None].expand(-1, chances.shape[1], -1))  # B S P, log y[t][z[s]]
        ends = 2 * text_lengths + 1
        ahead = walk(said, places, nothing)
        # Backwards is forwards on the mirrored row, mirrored back; mirroring moves no padding.
        mirrored = reverse_padded(reverse_padded(said, lengths, 1), ends, 2)
        behind = walk(mirrored, reverse_padded(places, ends, 1), nothing)
        behind = reverse_padded(reverse_padded(behind, ends, 2), lengths, 1)
        last = ahead.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, ahead.shape[2])).squeeze(1)  # B P
        two = torch.stack([ends - 1, (ends - 2).clamp(min=0)], 1)
        both = last.gather(1, two)
        # An empty text ends in one place only.
        total = torch.where(ends > 1, both.logsumexp(1), both[:, 0])
        possible = total > NEVER / 2
        # dE/d log y[t][v] = - sum over s with z[s] = v of the probability to be at s at t, given the text
        there = torch.exp(ahead + behind - said - total[:, None, None])
        inside = (torch.arange(chances.shape[1], device=ends.device)[None, :, None] < lengths[:, None, None]) & (
            torch.arange(places.shape[1], device=ends.device)[None, None, :] < ends[:, None, None]
        )
        there = there.masked_fill(~(inside & possible[:, None, None]), 0)
        gradient = torch.zeros_like(chances).scatter_add_(2, places[:, None].expand_as(there), -there)
        ctx.save_for_backward(gradient)
        return torch.where(possible, -total, 0.0)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream[0][:, None, None], None, None, None, None


def spread(texts: Tensor, nothing: int) -> Tensor:
    """The text with a nothing before, between and behind its symbols: (B, T) -> (B, 2 T + 1)."""
    B, T = texts.shape
    places = texts.new_full((B, 2 * T + 1), nothing)
    places[:, 1::2] = texts
    return places


def walk(said: Tensor, places: Tensor, nothing: int) -> Tensor:
    """log alpha (B, S, P) from log y[t][z[s]] (B, S, P)."""
    differs = (places[:, 2:] != nothing) & (places[:, 2:] != places[:, :-2])
    skip = functional.pad(torch.where(differs, 0.0, NEVER), (2, 0), value=NEVER)[:, : places.shape[1]]  # B P
    start = torch.full_like(said[:, 0], NEVER)
    start[:, :2] = said[:, 0, :2]
    found = [start]
    for t in range(1, said.shape[1]):
        before = functional.pad(found[-1], (2, 0), value=NEVER)
        ways = torch.stack([before[:, 2:], before[:, 1:-1], before[:, :-2] + skip])
        found.append(ways.logsumexp(0) + said[:, t])
    return torch.stack(found, 1)


def merged(best: Tensor, lengths: Tensor, nothing: int) -> list[list[int]]:
    """The texts of the likeliest symbols at each state (B, S): repetitions merged, nothings dropped.

    >>> merged(torch.tensor([[3, 3, 0, 3, 4]]), torch.tensor([5]), nothing=0)
    [[3, 3, 4]]
    """
    found = []
    for row, length in zip(best.tolist(), lengths.tolist(), strict=True):
        heard = row[:length]
        found.append([x for x, before in zip(heard, [None, *heard], strict=False) if x not in (before, nothing)])
    return found


class Beginnings(NamedTuple):
    """Of R beginnings: n and b (R, S), the last symbols (R,) and log P(g ...) (R,)."""

    symbol: Tensor
    nothing: Tensor
    last: Tensor
    score: Tensor


class Prefixes:
    """Scores for beginnings of texts over log-probabilities (R, S, V) of which `lengths` (R,) states count.

    >>> prefixes = Prefixes(chances, lengths, nothing=2)
    >>> empty = prefixes.start()
    >>> scores = prefixes.next_scores(empty)              # R V: log P that a text begins with each symbol
    >>> one = prefixes.grow(empty, chosen)                # R symbols
    """

    def __init__(self, chances: Tensor, lengths: Tensor, nothing: int) -> None:
        behind = torch.arange(chances.shape[1], device=lengths.device) >= lengths[:, None]
        # Behind the end nothing is said, for certain: sums over all states are then right for every row.
        silence = torch.full_like(chances, NEVER)
        silence[..., nothing] = 0.0
        self.chances = torch.where(behind[..., None], silence, chances)
        self.none = nothing
        self.rows = torch.arange(len(chances), device=chances.device)

    def start(self) -> Beginnings:
        """The empty text: nothing was ever said."""
        nothing = self.chances[..., self.none].cumsum(1)
        never = torch.full_like(nothing, NEVER)
        last = torch.full_like(self.rows, -1)
        return Beginnings(never, nothing, last, torch.zeros_like(nothing[:, 0]))

    def next_scores(self, at: Beginnings) -> Tensor:
        """log P(g c ...) for every symbol c, (R, V); for nothing, which no text holds, that of g being all."""
        plain = (self._complete(at, repeated=False)[..., None] + self.chances).logsumexp(1)  # R V
        repeated = at.last.clamp(min=0)
        again = (self._complete(at, repeated=True) + self.chances[self.rows, :, repeated]).logsumexp(1)
        again = torch.where(at.last < 0, plain[self.rows, repeated], again)
        scores = plain.scatter(1, repeated[:, None], again[:, None])
        scores[:, self.none] = torch.logaddexp(at.symbol[:, -1], at.nothing[:, -1])
        return scores

    def grow(self, at: Beginnings, symbols: Tensor) -> Beginnings:
        """Each beginning with one more symbol."""
        said = self.chances[self.rows, :, symbols]  # R S
        is_repeated = (symbols == at.last)[:, None]
        complete = torch.where(is_repeated, self._complete(at, True), self._complete(at, False))
        symbol = _running(complete, said)
        nothing = _running(pad(symbol, (1, 0), value=NEVER)[:, :-1], self.chances[..., self.none])
        return Beginnings(symbol, nothing, symbols, (complete + said).logsumexp(1))

    def _complete(self, at: Beginnings, repeated: bool) -> Tensor:
        """phi[t-1] (R, S): before the first state only the empty text is complete."""
        phi = at.nothing if repeated else torch.logaddexp(at.symbol, at.nothing)
        first = torch.where(at.last < 0, 0.0, NEVER)
        return torch.cat([first[:, None].to(phi.dtype), phi[:, :-1]], 1)


def _running(entering: Tensor, factors: Tensor) -> Tensor:
    """x[t] = (x[t-1] + entering[t]) factors[t] in logarithms: with products F, x[t] / F[t] is a running sum."""
    products = factors.cumsum(1)
    return products + torch.logcumsumexp(entering - (products - factors), 1)
