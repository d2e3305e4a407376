"""The series of the exponential, cut off: 1 + s + s^2 / 2! + ... + s^K / K!."""

from functools import cached_property, lru_cache
from math import comb, sqrt
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from porism.errors import ShapeError
from porism.layers.operands import MOST, check_whole


def exponential(s: Tensor, order: int) -> Tensor:
    """The series of exp(s) up to s^order / order!, element by element. Its slope is the series of one order less.

    >>> exponential(torch.tensor([0.0, 1.0, 2.0]), order=2)
    tensor([1.0000, 2.5000, 5.0000])

    Horner's rule: 1 + s/1 (1 + s/2 (1 + s/3 (...))), one fused step an order.
    """
    one = s.new_ones(())
    total = one.expand_as(s)
    for power in range(order, 0, -1):
        total = torch.addcmul(one, s, total, value=1 / power)
    return total


MOST_ORDER = 170
"""The factorial of 171 is beyond float64."""


def check_order(order: int, allow_odd: bool, layer: str = "taylor") -> None:
    """A whole number from 1 on; odd only where that was requested."""
    check_whole(layer, "order", order, 1, MOST_ORDER)
    if not isinstance(allow_odd, bool):
        raise ShapeError(f"{layer}: allow_odd is {allow_odd!r}, expected True or False.")
    if order % 2 and not allow_odd:
        choice = f"{order - 1} or {order + 1}" if order > 1 else "2"
        raise ShapeError(
            f"{layer}: order {order} is odd, and an odd series falls below zero for low logits, so weights can turn "
            f"negative and their sum can vanish. Choose {choice}, or set allow_odd=True."
        )


class FeatureMap:
    """The features of the series, and its weights without features, which is cheaper for a few keys.

    The gradients are written by hand: `pull_back` takes that of the features back to x, `weights_gradient` that of the
    weights back to q and k.
    """

    name: ClassVar[str]

    def __init__(self, order: int, like: Tensor) -> None:
        self.order = order
        self._like = like
        self.D = like.shape[-2]
        self.count = self.size(order, self.D)

    @property
    def is_positive(self) -> bool:
        """Whether no weight can be 0 or below, as with every even order of the series."""
        return self.order % 2 == 0

    @staticmethod
    def size(order: int, D: int) -> int:
        """M, how many features there are."""
        raise NotImplementedError

    def __call__(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def of_rows(self, x: Tensor) -> Tensor:
        """The features of a few rows, (n, D) -> (n, M), in few operations."""
        return self(x.mT).mT

    def pull_back(self, x: Tensor, dphi: Tensor) -> Tensor:
        raise NotImplementedError

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """(..., D, n), (..., D, m) -> (..., n, m)."""
        return exponential(q.mT @ k, self.order)

    def weights_gradient(self, q: Tensor, k: Tensor, dw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The weights once more, and the gradients of q and k from that of the weights."""
        s = q.mT @ k
        # ds = dw * (1 + s + ... + s^(K-1) / (K-1)!)       the slope of a series is the series of one order less
        slope = exponential(s, self.order - 1)
        ds = dw * slope
        # dq = ds k^T, dk = q^T ds                          as columns
        return exponential(s, self.order), k @ ds.mT, q @ ds

    def _empty(self, x: Tensor) -> Tensor:
        """Room for all features, the constant and x already there."""
        phi = x.new_empty(*x.shape[:-2], self.count, x.shape[-1])
        phi[..., 0, :] = 1
        phi[..., 1 : 1 + self.D, :] = x
        return phi


class Turned(FeatureMap):
    """1, x and the products of x with x turned by s, x_i x_(i+s) with the index modulo D: second order, no gathers.

    (q . k)^2 / 2 is half the sum over all turns, s = 0 ... D - 1, and those by s and by D - s have the same products.
    So each turn below D/2 stands for two, but the first, its own opposite, which has the factor 1 / sqrt 2. For even D
    so is the turn by D/2: its second half repeats the first, and what becomes of that sets two maps apart. An odd D has
    no such turn, and needs no padding.
    """

    half_factor: ClassVar[float]
    """Of a product in the turn by D/2."""

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

    def of_rows(self, x: Tensor) -> Tensor:
        # c_s x_i x_(i+s), and 1 for a factor that is missing
        row, matrix = self._factors
        left, right = torch.addmm(row, x, matrix).split_with_sizes([self.count, self.count], 1)
        return left * right

    @cached_property
    def _factors(self) -> tuple[Tensor, Tensor]:
        """A row (2 M,) and a matrix (D, 2 M): the row and x by the matrix are all left factors, then all right ones.

        The left ones are times c_s. One product of a few rows takes half the time of picking elements.
        """
        D, M = self.D, self.count
        pair = torch.arange(M - 1 - D, device=self._like.device)
        turn, i = pair // D, pair % D
        one, alone = torch.full((D + 1,), D, device=pair.device), torch.arange(D, device=pair.device)
        places = torch.cat([one[:1], alone, i, one, (i + turn) % D])
        matrix = self._like.new_zeros(D + 1, 2 * M)
        matrix[places, torch.arange(2 * M, device=pair.device)] = 1
        matrix[:, 1 + D : 1 + 2 * D] *= sqrt(0.5)
        matrix[:, 1 + D + self._turns * D : M] *= self.half_factor
        return matrix[D], matrix[:D]

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


class RolledMap(Turned):
    """Whole turns: (D/2 + 1) D products, in rows of D. For even D the last turn has both its halves, times 1 / sqrt 2.

    Made for hardware that works on whole tiles: 144 at D = 16, where the fewest would be 136.
    """

    name = "rolled"
    half_factor = sqrt(0.5)

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
    half_factor = 1.0

    @staticmethod
    def size(order: int, D: int) -> int:
        return comb(D + 2, 2)

    def _write_half(self, phi: Tensor, half: Tensor) -> None:
        phi[..., -self._half :, :] = half

    def _read_half(self, dphi: Tensor) -> Tensor:
        return dphi[..., -self._half :, :]


class ExactMap(FeatureMap):
    """x^alpha / sqrt(alpha!) for every multi-index alpha up to degree K: C(D+K, K) features, the fewest there can be.

    Within a degree the monomials are ordered by their last variable. Then those of degree j that end in x_i are x_i
    times the first few of degree j - 1, those that end in x_i or before.
    """

    name = "exact"

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


class OrderedMap(FeatureMap):
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


class DiagonalMap(FeatureMap):
    """1, x and x^2 / sqrt 2, element by element: 2D + 1 features. NOT an approximation of exp(q . k).

    It drops the products of different elements: q = k = (1, 1) has the weight 4 where the series has 5 and exp 7.4.
    With only the squares of (q . k)^2 / 2 left the sum can fall below zero, so weights can turn negative. It is here
    because books give it, to be compared with; it is never chosen unless requested.
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


MAPS: dict[str, type[FeatureMap]] = {kind.name: kind for kind in (ExactMap, RolledMap, OrderedMap, DiagonalMap)}


def choose_map(name: str | None, order: int) -> str:
    """The map that was requested, checked; or the fastest of those that give the series, by order."""
    if name is None:
        return RolledMap.name if order == 2 else ExactMap.name
    if not isinstance(name, str) or name not in MAPS:
        raise ShapeError(f"taylor: there is no map {name!r}. Choose from {', '.join(MAPS)}.")
    if name in (RolledMap.name, DiagonalMap.name) and order != 2:
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
    return ExactSecond(order, like) if (name, order) == (ExactMap.name, 2) else MAPS[name](order, like)


@lru_cache(maxsize=16)
def map_of_rows(name: str, order: int, D: int, dtype: torch.dtype, device: torch.device) -> FeatureMap:
    """A map for rows of this width and type, kept with what it makes once."""
    return feature_map(name, order, torch.empty(D, 0, dtype=dtype, device=device))
