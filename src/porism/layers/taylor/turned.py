"""Second-order features from whole rows: x times itself, turned by every distance once."""

from math import comb, sqrt

import torch
from torch import Tensor
from torch.nn.functional import pad

from porism.layers.taylor.feature_map import FeatureMap


class Turned(FeatureMap):
    """1, x and the products of x with x turned by s, x_i x_(i+s) with the index modulo D: second order, no gathers.

    (q . k)^2 / 2 is half the sum over all turns, s = 0 ... D - 1, and those by s and by D - s have the same products.
    So each turn below D/2 stands for two, but the first, its own opposite, which has the factor 1 / sqrt 2. For even D
    so is the turn by D/2: its second half repeats the first, and what becomes of that sets two maps apart. An odd D has
    no such turn, and needs no padding.
    """

    def __init__(self, order: int, like: Tensor) -> None:
        super().__init__(order, like)
        self._turns = (self.D + 1) // 2
        self._half = 0 if self.D % 2 else self.D // 2

    def __call__(self, x: Tensor) -> Tensor:
        phi = self._empty(x)
        turns = self._pairs(phi)
        turns.copy_(self._turned(x)).mul_(x.unsqueeze(-3))
        turns[..., 0, :, :] *= sqrt(0.5)
        if self._half:
            left, right = x.chunk(2, dim=-2)
            self._write_half(phi, left * right)
        return phi

    def pull_back(self, x: Tensor, dphi: Tensor) -> Tensor:
        D, S = self.D, self._turns
        dpairs = self._pairs(dphi).clone()
        dpairs[..., 0, :, :] *= sqrt(0.5)
        # dx_i += dpair_(s, i) x_(i+s)                          the left factor, beside x itself
        dx = dphi[..., 1 : 1 + D, :] + (dpairs * self._turned(x)).sum(-3)
        # dx_(i+s) += dpair_(s, i) x_i                          the right factor: row s goes s places down, modulo D
        moved = pad(dpairs.mul_(x.unsqueeze(-3)), (0, 0, 0, S)).flatten(-3, -2)
        moved = moved[..., : S * (D + S - 1), :].unflatten(-2, (S, D + S - 1)).sum(-3)
        dx += moved[..., :D, :]
        dx[..., : S - 1, :] += moved[..., D:, :]
        if self._half:
            # d(x_i x_(i+D/2)) goes to both
            d = self._read_half(dphi)
            left, right = x.chunk(2, dim=-2)
            dx += torch.cat([d * right, d * left], dim=-2)
        return dx

    def _pairs(self, phi: Tensor) -> Tensor:
        """The turns below D/2, (..., turns, D, n)."""
        rows = phi[..., 1 + self.D : 1 + self.D + self._turns * self.D, :]
        return rows.view(*rows.shape[:-2], self._turns, self.D, rows.shape[-1])

    def _turned(self, x: Tensor) -> Tensor:
        """x_(i+s), (..., turns, D, n), without a copy of each: windows on x and its beginning once more."""
        around = torch.cat([x, x[..., : self._turns - 1, :]], dim=-2)
        return around.unfold(-2, self.D, 1).mT

    def _write_half(self, phi: Tensor, half: Tensor) -> None:
        raise NotImplementedError

    def _read_half(self, dphi: Tensor) -> Tensor:
        """The gradient of the products x_i x_(i+D/2), i < D/2."""
        raise NotImplementedError


class Rolled(Turned):
    """Whole turns: (D/2 + 1) D products, in rows of D. For even D the last turn has both its halves, times 1 / sqrt 2.

    Made for hardware that works on whole tiles: 144 at D = 16, where the fewest would be 136.
    """

    name = "rolled"

    @staticmethod
    def size(order: int, D: int) -> int:
        return 1 + D + (D // 2 + 1) * D

    def _write_half(self, phi: Tensor, half: Tensor) -> None:
        for rows in phi[..., -2 * self._half :, :].chunk(2, dim=-2):
            rows.copy_(half).mul_(sqrt(0.5))

    def _read_half(self, dphi: Tensor) -> Tensor:
        first, second = dphi[..., -2 * self._half : -self._half, :], dphi[..., -self._half :, :]
        return (first + second) * sqrt(0.5)


class ExactSecond(Turned):
    """The exact map at order 2, its products in the order of turns: of the last turn the first half only."""

    name = "exact"

    @staticmethod
    def size(order: int, D: int) -> int:
        return comb(D + 2, 2)

    def _write_half(self, phi: Tensor, half: Tensor) -> None:
        phi[..., -self._half :, :] = half

    def _read_half(self, dphi: Tensor) -> Tensor:
        return dphi[..., -self._half :, :]
