"""A map of the most frequent words, on which similar vectors lie together: t-SNE on the unit vectors.

Colours are clusters of the map by k-means.
"""

from collections.abc import Sequence
from itertools import islice, zip_longest

from torch import Tensor
from torch.nn.functional import normalize

from porism.runs.exhibits import Points
from porism.tasks.blocks.threads import one_thread
from porism.tasks.words.exhibits.kmeans import clusters
from porism.tasks.words.exhibits.tsne import embed

MOST_WORDS = 500
"""More would overlap."""

GROUPS = 12
"""As many as the report has colours."""
NAMED_BY = 3
"""Words."""
LETTER_WIDTH, LETTER_HEIGHT = 0.02, 0.06
"""Of the report's labels, on a map from -1 to 1."""

PERPLEXITY = 15.0


def word_map(vectors: Tensor, words: Sequence[str], most: int = MOST_WORDS) -> Points:
    """The map of the most frequent words, the first of `words`, without punctuation. vectors (V, D)."""
    alphanumeric = (number for number, word in enumerate(words) if any(map(str.isalnum, word)))
    shown = list(islice(alphanumeric, most)) or list(range(len(words[:most])))
    units = normalize(vectors[shown].detach().cpu().double())
    with one_thread():
        plane = embed(units, PERPLEXITY)
        plane = (plane / plane.abs().max().clamp(min=1e-12)).round(decimals=4)
        by_cluster = [typical(members, units) for members in clusters(plane, GROUPS)]
    names = [words[number] for number in shown]
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


def typical(members: Tensor, units: Tensor) -> list[int]:
    """Some rows of units (N, D), by their cosine with the mean of all of them."""
    cosines = units[members] @ units[members].sum(0)
    return members[cosines.argsort(descending=True, stable=True)].tolist()
