"""A map of the most frequent words, on which similar vectors lie together: t-SNE on the unit vectors, by scikit-learn.

van der Maaten and Hinton, Visualizing Data using t-SNE, 2008. Colours are clusters of the map by k-means.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import islice, zip_longest

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from porism.errors import MissingExtra
from porism.runs.exhibits import Points

MOST_WORDS = 500
"""More would overlap."""

GROUPS = 12
"""As many as the report has colours."""
NAMED_BY = 3
"""Words."""
LETTER_WIDTH, LETTER_HEIGHT = 0.02, 0.06
"""Of the report's labels, on a map from -1 to 1."""

PERPLEXITY = 15.0
STEPS = 500
SEED = 0
"""Of t-SNE and k-means: the same vectors always give the same map."""

Plane = NDArray[np.float64]


def missing_package() -> str | None:
    """The package that the map needs and that is not there, and how to get it; None where it is."""
    return None if find_spec("sklearn") else 'scikit-learn, which is not installed: pip install "porism[words]"'


def word_map(vectors: Tensor, words: Sequence[str], most: int = MOST_WORDS) -> Points:
    """The map of the most frequent words, the first of `words`, without punctuation. vectors (V, D)."""
    if (missing := missing_package()) is not None:
        raise MissingExtra(f"the map of words needs {missing}")
    alphanumeric = (number for number, word in enumerate(words) if any(map(str.isalnum, word)))
    shown = list(islice(alphanumeric, most)) or list(range(len(words[:most])))
    units = normalize(vectors[shown].detach().cpu().double())
    plane = embed(units.numpy())
    plane = (plane / max(np.abs(plane).max(), 1e-12)).round(4)
    names = [words[number] for number in shown]
    by_cluster = [typical(members, units) for members in clusters(plane, GROUPS)]
    groups = {", ".join(names[row] for row in rows[:NAMED_BY]): plane[rows].tolist() for rows in by_cluster}
    # The most typical word of every cluster, then the next one of each.
    order = [row for rows in zip_longest(*by_cluster) for row in rows if row is not None]
    return Points(
        title="A map of words",
        about=f"The {len(units)} most frequent words; similar vectors lie together (t-SNE). A colour is a "
        "cluster, named by its most typical words.",
        groups={name: [(x, y) for x, y in points] for name, points in groups.items()},
        labels=legible([(names[row], plane[row, 0].item(), plane[row, 1].item()) for row in order]),
    )


def legible(labels: Sequence[tuple[str, float, float]]) -> dict[str, tuple[float, float]]:
    """Of words at their positions, those whose labels cover no previous one.

    >>> legible([("south", 0.0, 0.0), ("north", 0.05, 0.01), ("one", 0.5, 0.5)])
    {'south': (0.0, 0.0), 'one': (0.5, 0.5)}
    """
    drawn: dict[str, tuple[float, float]] = {}
    for word, x, y in labels:
        if all(
            abs(y - other_y) > LETTER_HEIGHT or abs(x - other_x) > LETTER_WIDTH * (len(word) + len(other) + 1) / 2
            for other, (other_x, other_y) in drawn.items()
        ):
            drawn[word] = (x, y)
    return drawn


def embed(x: Plane) -> Plane:
    """Rows (N, D) as points in the plane by t-SNE, (N, 2), starting from their two principal components."""
    N = len(x)
    if N < 3:
        return np.arange(N, dtype=float)[:, None].repeat(2, axis=1)
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # Sums over several threads depend on how many there are.
    with threadpool_limits(1):
        start = np.zeros((N, 2))
        components = min(2, x.shape[1])
        with np.errstate(invalid="ignore"):  # equal rows have no variance to take a share of
            start[:, :components] = PCA(components, svd_solver="full").fit_transform(x)
        start *= 1e-4 / max(start.std(0).max(), 1e-12)
        tsne = TSNE(perplexity=min(PERPLEXITY, (N - 1) / 3), init=start, max_iter=STEPS, random_state=SEED)
        plane: Plane = tsne.fit_transform(x)
    centred: Plane = plane - plane.mean(0)
    return centred


def clusters(plane: Plane, count: int) -> list[Tensor]:
    """The indices of points (N, 2) in at most `count` clusters by k-means, the largest first."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    count = min(count, len(np.unique(plane, axis=0)))
    # So few points take several threads longer, which wait for each other, and sums depend on how many there are.
    with threadpool_limits(1):
        labels = KMeans(count, n_init=10, random_state=SEED).fit(plane).labels_
    members = [torch.from_numpy(np.flatnonzero(labels == number)) for number in range(count)]
    # Equal sizes by their first point: k-means numbers its clusters in no order.
    return sorted(members, key=lambda rows: (-len(rows), int(rows[0])))


def typical(members: Tensor, units: Tensor) -> list[int]:
    """Some rows of units (N, D), by their cosine with the mean of all of them."""
    cosines = units[members] @ units[members].sum(0)
    return members[cosines.argsort(descending=True, stable=True)].tolist()
