"""k-means: points in clusters around their means, by Lloyd's steps from several starts.

Arthur and Vassilvitskii, k-means++: the advantages of careful seeding, 2007.
"""

import torch
from torch import Tensor

STARTS = 20
DRAWN = 5
"""Points that are tried at a time as one more to start from."""
MOST_STEPS = 300
SEED = 0


def clusters(points: Tensor, count: int) -> list[Tensor]:
    """The indices of points (N, D) in at most `count` clusters, the largest first; the same for the same points."""
    count = min(count, len(points.unique(dim=0)))
    draw = torch.Generator().manual_seed(SEED)
    found = [_settled(points, _spread(points, count, draw)) for _ in range(STARTS)]
    _, labels = min(found, key=lambda one: one[0])
    members = [(labels == number).nonzero().flatten() for number in range(count)]
    # Equal sizes by their first point: which cluster has which number is chance.
    return sorted((rows for rows in members if len(rows)), key=lambda rows: (-len(rows), int(rows[0])))


def _spread(points: Tensor, count: int, draw: torch.Generator) -> Tensor:
    """Points to start from (count, D): of some that are drawn by their squared distance from those before, the best."""
    chosen = [int(torch.randint(len(points), (), generator=draw))]
    nearest = _squared_distances(points[chosen], points)[0]
    while len(chosen) < count:
        tried = torch.multinomial(nearest, DRAWN, replacement=True, generator=draw)
        distances = _squared_distances(points[tried], points).minimum(nearest)
        best = int(distances.sum(1).argmin())
        chosen.append(int(tried[best]))
        nearest = distances[best]
    return points[chosen]


def _settled(points: Tensor, means: Tensor) -> tuple[float, Tensor]:
    """The sum of squared distances from the nearest means, and which those are, (N), once no point changes its own."""
    labels = torch.full((len(points),), -1)
    for _ in range(MOST_STEPS):
        distances = _squared_distances(points, means)
        before, labels = labels, distances.argmin(1)
        if torch.equal(before, labels):
            break
        sizes = labels.bincount(minlength=len(means))[:, None]
        sums = torch.zeros_like(means).index_add_(0, labels, points)
        # A cluster that lost all its points keeps its mean.
        means = torch.where(sizes > 0, sums / sizes.clamp(min=1), means)
    return float(distances.amin(1).sum()), labels


def _squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Of all pairs: (N, D), (M, D) -> (N, M)."""
    distances = x.new_zeros(len(x), len(y))
    # Coordinate by coordinate: to sum up a last dimension of two takes torch five times as long.
    for a, b in zip(x.T, y.T, strict=True):
        distances += (a[:, None] - b).square()
    return distances
