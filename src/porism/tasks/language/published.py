"""What two sources published for a sigmoid Elman net on Penn Treebank: settings, perplexities and epochs.

>>> PUBLISHED["table-12"]["test"]
{'perplexity': 138.38}
"""

from typing import NamedTuple

Perplexities = dict[str, dict[str, float]]
"""A split to its metrics, as a task's `published` gives them."""


class PublishedRun(NamedTuple):
    """One published setting and the perplexity it came to on each split, None where none is given."""

    batch_size: int
    embedding_dim: int
    hidden_size: int
    patience: int
    dropout: float
    learning_rate: float
    train: float | None
    valid: float | None
    test: float

    def perplexities(self) -> Perplexities:
        found = {"train": self.train, "valid": self.valid, "test": self.test}
        return {split: {"perplexity": value} for split, value in found.items() if value is not None}


_TABLE = (
    PublishedRun(64, 50, 100, 3, 0.1, 0.001, 125.56, 186.32, 167.33),
    PublishedRun(128, 50, 100, 3, 0.1, 0.001, 121.88, 179.12, 159.64),
    PublishedRun(128, 50, 200, 3, 0.1, 0.001, 107.50, 171.51, 155.67),
    PublishedRun(128, 50, 100, 6, 0.1, 0.001, 115.81, 178.16, 160.75),
    PublishedRun(128, 50, 100, 3, 0.8, 0.001, 340.10, 299.55, 261.87),
    PublishedRun(128, 50, 100, 3, 0.4, 0.001, 176.91, 204.05, 179.25),
    PublishedRun(128, 50, 100, 3, 0.1, 0.01, 105.40, 172.02, 158.97),
    PublishedRun(64, 1000, 100, 6, 0.1, 0.001, 91.54, 183.35, 154.83),
    PublishedRun(128, 1000, 100, 3, 0.1, 0.01, 136.97, 208.73, 193.57),
    PublishedRun(128, 1000, 100, 3, 0.1, 0.001, 99.09, 166.33, 150.61),
    PublishedRun(128, 1000, 200, 3, 0.1, 0.001, 82.02, 154.97, 142.12),
    PublishedRun(256, 1000, 200, 3, 0.1, 0.001, 80.24, 151.32, 138.38),
)

TABLE_RUNS = {f"table-{number:02d}": run for number, run in enumerate(_TABLE, 1)}
"""The twelve rows of the first source, one run each."""

WIDE_RUNS = {
    "wide": PublishedRun(128, 256, 512, 3, 0.1, 0.001, None, None, 164.0),
    "widest": PublishedRun(128, 2048, 4096, 3, 0.1, 0.001, None, None, 140.0),
}
"""The second source's. It gives neither patience nor steps: those of the table are taken. It evaluated in training mode
and went on learning on the text it measured, so its perplexities are no mark for a clean evaluation."""

PUBLISHED: dict[str, Perplexities] = {
    name: run.perplexities() for runs in (TABLE_RUNS, WIDE_RUNS) for name, run in runs.items()
}
"""The perplexity of each recipe on each split."""

PUBLISHED_EPOCHS = {"table-09": 4, "table-10": 15, "table-12": 17}
"""Epochs of training, where they are given."""

PUBLISHED_SECONDS_RATIO = 10.0
"""How many times as long the widest net took as the wide one, at least."""

WITHOUT_SETTINGS = {"default": 300.0, "tuned": 200.0}
"""Perplexities of the second source whose settings it does not list: "a little over" the one, "about" the other. There
can be no recipe for them."""

PUBLISHED_ELSEWHERE = {**WITHOUT_SETTINGS, **{name: run.test for name, run in WIDE_RUNS.items()}}
"""All test perplexities of the second source."""
