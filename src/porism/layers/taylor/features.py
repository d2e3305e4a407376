"""Feature maps: phi with phi(q) . phi(k) = the weight of key k for query q, so that sums over keys can be taken first.

>>> q, k = torch.randn(16, 1), torch.randn(16, 1)                      # one token of width 16 a column
>>> phi = feature_map("rolled", order=2, like=q)
>>> phi(q).shape                                                       # M features
torch.Size([161, 1])
>>> torch.allclose((phi(q) * phi(k)).sum(), exponential(q.mT @ k, 2))
True

Tokens are columns throughout, (..., D, n) -> (..., M, n): a feature is then a row, and rows are multiplied, added and
skipped whole. Every map begins with the constant 1 and x itself.
"""

from functools import cached_property
from math import comb, sqrt

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.operands import MOST
from porism.layers.taylor.feature_map import FeatureMap
from porism.layers.taylor.turned import ExactSecond, Rolled

__all__ = ["MAPS", "Diagonal", "Exact", "FeatureMap", "Ordered", "check_features", "choose_map", "feature_map"]


class Exact(FeatureMap):
    """x^alpha / sqrt(alpha!) for every multi-index alpha up to degree K: C(D+K, K) features, the fewest there can be.

    Within a degree the monomials are ordered by their last variable. Then those of degree j that end in x_i are x_i
    times the first few of degree j - 1, those that end in x_i or before.
    """

    name = "exact"

    def __init__(self, order: int, like: Tensor) -> None:
        super().__init__(order, like)
        self._like = like

    @staticmethod
    def size(order: int, D: int) -> int:
        return comb(D + order, order)

    def __call__(self, x: Tensor) -> Tensor:
        return self._monomials(x).mul_(self._coefficients)

    def pull_back(self, x: Tensor, dphi: Tensor) -> Tensor:
        monomials = self._monomials(x)
        # d(x^alpha) = dphi_alpha / sqrt(alpha!)
        d = dphi * self._coefficients
        dx = torch.zeros_like(x)
        for degree in range(self.order, 1, -1):
            for i in range(self.D):
                rows, parents = self._rows(degree, i)
                # dx_i += d(x_i x^beta) x^beta                 summed over the beta that x_i was multiplied with
                dx[..., i, :] += (d[..., rows, :] * monomials[..., parents, :]).sum(-2)
                # d(x^beta) += d(x_i x^beta) x_i
                d[..., parents, :].addcmul_(d[..., rows, :], x[..., i : i + 1, :])
        # dx_i += d(x_i)
        return dx.add_(d[..., 1 : 1 + self.D, :])

    def _rows(self, degree: int, i: int) -> tuple[slice, slice]:
        """Where the monomials of a degree stand that end in x_i, and where those stand that x_i is multiplied with."""
        first, first_parent = comb(self.D + degree - 1, degree - 1), comb(self.D + degree - 2, degree - 2)
        # There are C(i + degree, degree) monomials of a degree in x_0 ... x_i.
        rows = slice(first + comb(i + degree - 1, degree), first + comb(i + degree, degree))
        return rows, slice(first_parent, first_parent + comb(i + degree - 1, degree - 1))

    def _monomials(self, x: Tensor) -> Tensor:
        phi = self._empty(x)
        for degree in range(2, self.order + 1):
            for i in range(self.D):
                rows, parents = self._rows(degree, i)
                phi[..., rows, :].copy_(phi[..., parents, :]).mul_(x[..., i : i + 1, :])
        return phi

    @cached_property
    def _coefficients(self) -> Tensor:
        """1 / sqrt(alpha!), (M, 1): a further x_i makes alpha! as many times larger as there are x_i in alpha now."""
        # In float64: the factorial of 35 is beyond float32.
        like = torch.empty(0, dtype=torch.float64, device=self._like.device)
        factorials = [like.new_ones(1), like.new_ones(self.D)]
        repeats = like.new_ones(self.D)  # how often the last variable stands in each monomial
        for degree in range(2, self.order + 1):
            grown, products = [], []
            for i in range(self.D):
                others, upto = comb(i + degree - 2, degree - 1), comb(i + degree - 1, degree - 1)
                grown += [like.new_ones(others), repeats[others:upto] + 1]
                products.append(factorials[-1][:upto])
            repeats = torch.cat(grown)
            factorials.append(torch.cat(products) * repeats)
        return torch.cat(factorials[: self.order + 1]).rsqrt()[:, None].to(self._like.dtype)


class Ordered(FeatureMap):
    """Every product x_i x_j ... of up to K factors in every order, over sqrt(K!): 1 + D + D^2 + ... + D^K features.

    The textbook's map. It gives what the exact one gives, with each x_i x_j counted as often as it can be ordered.
    """

    name = "ordered"

    @staticmethod
    def size(order: int, D: int) -> int:
        return sum(D**degree for degree in range(order + 1))

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat(self._degrees(x), dim=-2)

    def pull_back(self, x: Tensor, dphi: Tensor) -> Tensor:
        degrees = self._degrees(x)
        *below, d = dphi.split([self.D**degree for degree in range(self.order + 1)], dim=-2)
        dx = torch.zeros_like(x)
        for degree in range(self.order, 0, -1):
            # phi_j = phi_(j-1) x / sqrt j
            d = d.unflatten(-2, (-1, self.D)) / sqrt(degree)
            # dx += phi_(j-1) dphi_j / sqrt j
            dx += (d * degrees[degree - 1].unsqueeze(-2)).sum(-3)
            # dphi_(j-1) += dphi_j x / sqrt j
            d = below[degree - 1] + (d * x.unsqueeze(-3)).sum(-2)
        return dx

    def _degrees(self, x: Tensor) -> list[Tensor]:
        degrees = [torch.ones_like(x[..., :1, :])]
        for degree in range(1, self.order + 1):
            product = degrees[-1].unsqueeze(-2) * (x / sqrt(degree)).unsqueeze(-3)
            degrees.append(product.flatten(-3, -2))
        return degrees


class Diagonal(FeatureMap):
    """1, x and x^2 / sqrt 2, element by element: 2D + 1 features. NOT an approximation of exp(q . k).

    It drops the products of different elements: q = k = (1, 1) has the weight 4 where the series has 5 and exp 7.4.
    With only the squares of (q . k)^2 / 2 left the sum can fall below zero, so weights can turn negative. It is here
    because books give it, to be compared with; it is never chosen unless asked for.
    """

    name = "diagonal"

    @property
    def is_positive(self) -> bool:
        return False

    @staticmethod
    def size(order: int, D: int) -> int:
        return 1 + 2 * D

    def __call__(self, x: Tensor) -> Tensor:
        phi = self._empty(x)
        phi[..., 1 + self.D :, :] = x * x * sqrt(0.5)
        return phi

    def pull_back(self, x: Tensor, dphi: Tensor) -> Tensor:
        linear, squares = dphi[..., 1 : 1 + self.D, :], dphi[..., 1 + self.D :, :]
        # d(x^2 / sqrt 2) = sqrt 2 x dx
        return linear + sqrt(2) * x * squares

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        return 1 + q.mT @ k + (q * q).mT @ (k * k) / 2

    def weights_gradient(self, q: Tensor, k: Tensor, dw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # dq = k dw + q (k^2 dw)                                 element by element in the second term
        dq = k @ dw.mT + q * ((k * k) @ dw.mT)
        # dk = q dw + k (q^2 dw)
        return self.weights(q, k), dq, q @ dw + k * ((q * q) @ dw)


MAPS: dict[str, type[FeatureMap]] = {kind.name: kind for kind in (Exact, Rolled, Ordered, Diagonal)}


def choose_map(name: str | None, order: int) -> str:
    """The map that was asked for, checked; or the fastest of those that give the series, by order."""
    if name is None:
        return Rolled.name if order == 2 else Exact.name
    if not isinstance(name, str) or name not in MAPS:
        raise ShapeError(f"taylor: there is no map {name!r}. Choose from {', '.join(MAPS)}.")
    if name in (Rolled.name, Diagonal.name) and order != 2:
        raise ShapeError(f"taylor: the {name} map is of order 2, and order is {order}. Choose exact or ordered.")
    return name


def check_features(name: str, order: int, D: int, layer: str = "taylor") -> None:
    """Refuses a map with more features at width D than a tensor can have."""
    count = MAPS[name].size(order, D)
    if count > MOST:
        raise ShapeError(
            f"{layer}: order {order} at width {D} has {float(count):.0e} features. Choose a lower order or a smaller "
            "head_dim."
        )


def feature_map(name: str, order: int, like: Tensor) -> FeatureMap:
    """A map for columns of the width and type of `like`, (..., D, n)."""
    return ExactSecond(order, like) if (name, order) == (Exact.name, 2) else MAPS[name](order, like)
