"""A map of the most frequent words, on which those of like vectors lie together: t-SNE, for words by their cosines.

Every word i spreads a chance of 1 over the others by their distances, p_ij ~ exp(-b_i |x_i - x_j|^2), with b_i such
that it reaches about PERPLEXITY of them. Places y are sought whose own chances, q_ij ~ 1 / (1 + |y_i - y_j|^2), are the
same:

    C = sum p_ij log(p_ij / q_ij)        dC/dy_i = 4 sum_j (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2)

van der Maaten and Hinton, Visualizing Data using t-SNE, 2008. It starts from the two principal axes, not from chance.
"""

from collections.abc import Sequence
from itertools import islice, zip_longest

import torch
from torch import Tensor
from torch.nn.functional import normalize

from porism.runs.exhibits import Points

MOST_WORDS = 500
"""More would hide each other."""

GROUPS = 12
"""As many as the report has colours."""
NAMED_BY = 3
"""Words."""
LETTER_WIDTH, LETTER_HEIGHT = 0.02, 0.06
"""As the report writes them, on a map that reaches from -1 to 1."""

PERPLEXITY = 15.0
STEPS = 400
PULLED_TOGETHER = 100
"""Steps at first with p enlarged, so that words find their company before it is far off."""
ENLARGED = 12.0
LEAST_RATE = 20.0


def word_map(vectors: Tensor, words: Sequence[str], most: int = MOST_WORDS) -> Points:
    """Where the most frequent words lie, the first of `words`, without punctuation. vectors (V, D)."""
    spoken = (number for number, word in enumerate(words) if any(map(str.isalnum, word)))
    shown = list(islice(spoken, most)) or list(range(len(words[:most])))
    units = normalize(vectors[shown].detach().cpu().double())
    plane = places(units)
    plane = (plane / plane.abs().max().clamp_min(1e-12)).round(decimals=4)
    names = [words[number] for number in shown]
    by_region = [typical(region, units) for region in regions(plane, min(GROUPS, len(units)))]
    groups = {", ".join(names[row] for row in region[:NAMED_BY]): plane[region].tolist() for region in by_region}
    # The most typical word of every region, then the next one of each.
    order = [row for rows in zip_longest(*by_region) for row in rows if row is not None]
    return Points(
        title="A map of words",
        about=f"The {len(units)} most frequent words; those of like vectors lie together (t-SNE). A colour is a "
        "region, named by its most typical words.",
        groups={name: [(x, y) for x, y in points] for name, points in groups.items()},
        labels=legible([(names[row], plane[row, 0].item(), plane[row, 1].item()) for row in order]),
    )


def legible(labels: Sequence[tuple[str, float, float]]) -> dict[str, tuple[float, float]]:
    """Of words at their places, those that can be written without covering one before.

    >>> legible([("south", 0.0, 0.0), ("north", 0.05, 0.01), ("one", 0.5, 0.5)])
    {'south': (0.0, 0.0), 'one': (0.5, 0.5)}
    """
    written: dict[str, tuple[float, float]] = {}
    for word, x, y in labels:
        if all(
            abs(y - there) > LETTER_HEIGHT or abs(x - here) > LETTER_WIDTH * (len(word) + len(other) + 1) / 2
            for other, (here, there) in written.items()
        ):
            written[word] = (x, y)
    return written


def places(x: Tensor) -> Tensor:
    """Points in the plane for rows (N, D) so that near rows are near points, (N, 2). The same for the same rows."""
    N = len(x)
    if N < 3:
        return torch.arange(N, dtype=torch.float64)[:, None].repeat(1, 2)
    p = chances(squared_distances(x), min(PERPLEXITY, (N - 1) / 3))
    p = (p + p.mT) / (2 * N)
    y = _principal_plane(x)
    y = 1e-2 * y / y.std(0).max().clamp_min(1e-12)
    # Each of many words has a small share of p, and so a small gradient.
    rate = max(N / ENLARGED / 4, LEAST_RATE)
    speed, gain = torch.zeros_like(y), torch.ones_like(y)
    for step in range(STEPS):
        early = step < PULLED_TOGETHER
        slope = gradient(p * ENLARGED if early else p, y)
        # Faster where it has gone downhill for a while, slower where it turned.
        gain = torch.where(slope * speed < 0, gain + 0.2, gain * 0.8).clamp_min(0.01)
        speed = (0.5 if early else 0.8) * speed - rate * gain * slope
        y = y + speed
    return y - y.mean(0)


def chances(squares: Tensor, perplexity: float) -> Tensor:
    """What each row spreads over the others by squared distances (N, N): sums of 1, with the entropy log perplexity."""
    N = len(squares)
    wanted = torch.tensor(perplexity, dtype=squares.dtype).log()
    alone = torch.eye(N, dtype=torch.bool)
    low, high = squares.new_zeros(N, 1), squares.new_full((N, 1), torch.inf)
    b = squares.new_ones(N, 1) / squares.mean().clamp_min(1e-12)
    for _ in range(60):
        p = (-b * squares).masked_fill(alone, -torch.inf).softmax(1)
        entropy = torch.special.entr(p).sum(1, keepdim=True)
        # Too many are reached: b grows, by half way to what was too much, or twofold where nothing was yet.
        low, high = torch.where(entropy > wanted, b, low), torch.where(entropy > wanted, high, b)
        b = torch.where(high.isinf(), 2 * b, (low + high) / 2)
    return p


def squared_distances(x: Tensor) -> Tensor:
    """|x_i - x_j|^2 = |x_i|^2 + |x_j|^2 - 2 x_i . x_j, rows (N, D) -> (N, N)."""
    squares = x.square().sum(1)
    return torch.addmm(squares[:, None] + squares, x, x.mT, alpha=-2).clamp_min_(0)


def gradient(p: Tensor, y: Tensor) -> Tensor:
    """dC/dy of p (N, N) at y (N, 2)."""
    # w_ij = 1 / (1 + |y_i - y_j|^2)
    w = (1 + squared_distances(y)).reciprocal().fill_diagonal_(0)
    # 4 sum_j (p_ij - q_ij) w_ij (y_i - y_j)
    force = (p - w / w.sum()) * w
    return 4 * (force.sum(1, keepdim=True) * y - force @ y)


def regions(plane: Tensor, count: int) -> list[Tensor]:
    """The numbers of points (N, 2) that lie together, in so many regions or fewer, the largest first (k-means).

    Middles start far from each other: the first point, then each time the one farthest from all before.
    """
    middles = plane[:1]
    while len(middles) < count:
        middles = torch.cat([middles, plane[torch.cdist(plane, middles).amin(1).argmax()][None]])
    for _ in range(50):
        region = torch.cdist(plane, middles).argmin(1)
        sizes = region.bincount(minlength=count)[:, None]
        means = torch.zeros_like(middles).index_add_(0, region, plane) / sizes.clamp_min(1)
        middles = torch.where(sizes > 0, means, middles)
    found = [(region == number).nonzero()[:, 0] for number in range(count)]
    return sorted((members for members in found if len(members)), key=len, reverse=True)


def typical(members: Tensor, units: Tensor) -> list[int]:
    """Of some rows of units (N, D), those first that point most nearly where all of them together do."""
    cosines = units[members] @ units[members].sum(0)
    return members[cosines.argsort(descending=True, stable=True)].tolist()


def _principal_plane(x: Tensor) -> Tensor:
    """Rows (N, D) on the two directions in which they differ most, (N, 2)."""
    centred = x - x.mean(0)
    _, axes = torch.linalg.eigh(centred.mT @ centred)  # from the least variance to the largest
    found = axes[:, -2:]
    # The sign of an axis is free: its largest entry shall be positive.
    found = found * found.gather(0, found.abs().argmax(0, keepdim=True)).sign()
    plane = x.new_zeros(len(x), 2)
    plane[:, : found.shape[1]] = centred @ found
    return plane
