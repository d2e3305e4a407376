"""What every feature map can do."""

from typing import ClassVar

from torch import Tensor

from porism.layers.taylor.series import exponential


class FeatureMap:
    """The features of the series, and its weights without features, which is cheaper for a few keys.

    The gradients are written by hand: `pull_back` takes that of the features back to x, `weights_gradient` that of the
    weights back to q and k.
    """

    name: ClassVar[str]

    def __init__(self, order: int, like: Tensor) -> None:
        self.order = order
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
