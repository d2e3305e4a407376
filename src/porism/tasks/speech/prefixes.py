"""What CTC says of the beginnings of texts, symbol by symbol, so that a beam search can weigh it.

For a beginning g let n[t] and b[t] be the log-probabilities that the states up to t say g, the last of them a symbol or
nothing. A symbol c is added at t if g was complete before: with phi[t-1] = n[t-1] + b[t-1], or b[t-1] alone where c
repeats the last symbol (sums of probabilities),

    P(g c ...)  = sum over t of phi[t-1] y[t][c]
    n'[t]       = (n'[t-1] + phi[t-1]) y[t][c]
    b'[t]       = (b'[t-1] + n'[t-1]) y[t][-]

The recurrences are linear: divided by the running product of y they become running sums, and no loop over t is needed.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from porism.tasks.speech.ctc import NEVER


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
