"""The loss and its gradient on a CPU, from exp(h U) with neither shift nor bias, in few passes over a block of scores.

With beta = e^b and e = exp(h U), p = beta e / s and s = sum of beta e. So the bias stands in the weights, which are
few: s is one more sum of the product that gives dh, and db one more of that which gives dU. The README derives it.

A block lies words by rows, (V, n): products with a tall and narrow U run up to 1.7 times as fast that way round.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.operands import has_values

LANES = 16
"""Of sums over rows columns are filled up to a multiple of it, the numbers of a register: 1.1 times as fast."""
LARGEST_BIAS = 20.0
LEAST_SUM, LARGEST_SUM = 2.0**-29, 2.0**87
"""Between them, e^-20 and e^60, a row's s may lie. No product of them overflows in float32, and an e that underflowed,
times e^20 at most, is less than e^-47 of its sum."""
SURE = 0.5
"""From this p[y] on, -log p[y] is more exact than log s - z[y], a small difference of numbers that may be large."""


class Done(NamedTuple):
    """What the first `rows` rows give: the sum of their losses, and its gradient by them, the weight and the bias."""

    rows: int
    loss: Tensor
    h: Tensor
    weight: Tensor
    bias: Tensor


def fits(h: Tensor, bias: Tensor | None, operand: torch.dtype) -> bool:
    """Whether products are of full precision, on numbers that can be looked at, with a bias that exp takes."""
    if operand not in (torch.float32, torch.float64) or not has_values(h):
        return False
    return bias is None or bias.numel() == 0 or bool((bias.abs() <= LARGEST_BIAS).all())


class ScoreBlocks:
    """What the blocks of one call share: (beta U)^T above beta, memory for scores, and the sums over rows.

    >>> blocks = ScoreBlocks(torch.randn(9, 4), torch.randn(9), rows=8, needed=[True] * 3)
    >>> losses, dh = blocks.add(torch.randn(8, 4), torch.randint(9, (8,)))
    >>> losses.shape, dh.shape
    (torch.Size([8]), torch.Size([8, 4]))
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, rows: int, needed: list[bool], label_smoothing: float = 0.0
    ) -> None:
        V, H = weight.shape
        self.weight, self.bias, self.smoothing = weight, bias, label_smoothing
        self.needs_h, self.needs_weight, self.needs_bias = needed
        self.beta = weight.new_ones(V) if bias is None else bias.exp()
        self.summed = weight.new_empty(H * self.needs_h + 1, V)
        if self.needs_h:
            torch.mul(weight.mT, self.beta, out=self.summed[:-1])
        self.summed[-1] = self.beta
        self.scores = weight.new_empty(V * rows)
        # [h, 1] / s of a block, and what e^T times it sums to over all blocks: dU and db, not yet times beta.
        columns = H * self.needs_weight + self.needs_bias
        self.shares = weight.new_zeros(rows, -(-columns // LANES) * LANES)
        self.sums = weight.new_empty(V, self.shares.shape[1])
        self.is_first = True
        # Smoothing adds the same to every word: of scores only their mean is needed, and U and h only by their sums.
        self.mean_word = weight.mean(0) if label_smoothing else None
        self.sum_of_h, self.counted = weight.new_zeros(H), 0

    def add(self, h: Tensor, y: Tensor, counted: Tensor | None = None) -> tuple[Tensor, Tensor] | None:
        """The losses (n) and dh (n, H) of a block h (n, H); None, and nothing added, where exp would need a shift."""
        V, n = len(self.weight), len(h)
        z = self.scores[: V * n].view(V, n)
        # e = exp(h U)
        e = torch.mm(self.weight, h.mT, out=z)
        z_y = z.gather(0, y[None])[0]
        torch.exp(z, out=e)
        # g = sum of beta e U, s = sum of beta e
        g = self._summed(e)
        s = g[:, -1]
        least, largest = torch.aminmax(s)
        # Neither holds for a NaN.
        if not (float(least) >= LEAST_SUM and float(largest) <= LARGEST_SUM):
            return None
        beta_y = self.beta[y]
        # -log p[y] = log s - z[y]              no less than 0, though s may be of a product in bfloat16, if so set
        p_y = (e.gather(0, y[None])[0] * beta_y / s).clamp_(max=1)
        z_y = z_y if self.bias is None else z_y + self.bias[y]
        losses = torch.where(p_y > SURE, -p_y.log(), s.log() - z_y)
        if self.mean_word is not None:
            mean = h @ self.mean_word if self.bias is None else h @ self.mean_word + self.bias.mean()
            losses = losses + self.smoothing * (z_y - mean)
        share = s.reciprocal()
        if counted is not None:
            losses, share = losses.masked_fill(~counted, 0.0), share.masked_fill(~counted, 0.0)
        return losses, self._add_gradient(e, g, s, share, h, y, beta_y, counted)

    def _summed(self, e: Tensor) -> Tensor:
        """Sums over words, (n, H + 1), of beta e times U and one.

        The result is small. Two halves of it keep two threads busy, and are no slower on one.
        """
        V, n = e.shape
        if n % 2:
            return (self.summed @ e).mT
        halves = e.view(V, 2, n // 2).transpose(0, 1)
        return torch.bmm(self.summed.expand(2, -1, -1), halves).mT.reshape(n, -1)

    def _add_gradient(
        self,
        e: Tensor,
        g: Tensor,
        s: Tensor,
        share: Tensor,
        h: Tensor,
        y: Tensor,
        beta_y: Tensor,
        counted: Tensor | None,
    ) -> Tensor:
        """Adds the block to the sums; answers its dh (n, H), of no columns where none is needed."""
        sure = 1.0 - self.smoothing
        dh = g[:, :-1] * share[:, None]
        if self.needs_h:
            # dh = g / s - U[y]
            q = sure * self.weight[y]
            if self.mean_word is not None:
                q += self.smoothing * self.mean_word
            dh -= q if counted is None else q.masked_fill_(~counted[:, None], 0.0)
        if self.sums.shape[1]:
            # dU / beta = sum of (h / s)^T (e - s / beta[y] onehot(y)),  db / beta the same of 1 / s
            e.scatter_add_(0, y[None], (s / beta_y * -sure)[None])
            shares, H = self.shares[: len(h)], h.shape[1]
            if self.needs_weight:
                torch.mul(h, share[:, None], out=shares[:, :H])
            if self.needs_bias:
                shares[:, H * self.needs_weight] = share
            torch.addmm(self.sums, e, shares, beta=0 if self.is_first else 1, out=self.sums)
            self.is_first = False
        if self.mean_word is not None:
            kept = h if counted is None else h[counted]
            self.sum_of_h, self.counted = self.sum_of_h + kept.sum(0), self.counted + len(kept)
        return dh

    def gradient(self) -> tuple[Tensor, Tensor]:
        """dU transposed (V, H) and db (V) of all blocks so far; empty where not needed."""
        V, H = self.weight.shape
        if self.is_first:
            self.sums.zero_()
        dweight = self.sums[:, :H] * self.beta[:, None] if self.needs_weight else self.sums.new_empty(0)
        column = H * self.needs_weight
        dbias = self.sums[:, column] * self.beta if self.needs_bias else self.sums.new_empty(0)
        if self.mean_word is not None:
            share = self.smoothing / V
            dweight = dweight - share * self.sum_of_h if self.needs_weight else dweight
            dbias = dbias - share * self.counted if self.needs_bias else dbias
        return dweight, dbias


def forward(
    h: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    counted: Tensor | None,
    label_smoothing: float,
    kept: torch.dtype,
    block: int,
    needed: list[bool],
) -> Done:
    """Block after block until one needs another way: `rows` says how far it came. dh is of the type `kept`."""
    blocks = ScoreBlocks(weight, bias, min(block, len(h)), needed, label_smoothing)
    loss, dh, end = h.new_zeros(()), h.new_empty(h.shape if needed[0] else 0, dtype=kept), 0
    for start in range(0, len(h), block):
        rows = slice(start, min(start + block, len(h)))
        found = blocks.add(h[rows], targets[rows], None if counted is None else counted[rows])
        if found is None:
            break
        losses, rows_dh = found
        loss += losses.sum()
        if needed[0]:
            dh[rows] = rows_dh
        end = rows.stop
    return Done(end, loss, dh, *blocks.gradient())
