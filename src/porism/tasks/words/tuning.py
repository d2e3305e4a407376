"""What `--tune` may set of word vectors, the learning rate first.

Not the window, subsampling or rarest words: they decide which pairs are scored.
"""

from porism.runs.tuning import RATES, Factors, FieldChoices, Space

SPACE: Space = {
    "learning_rate": RATES,
    "vector_size": Factors((0.5, 1.0, 2.0)),
    "negative": FieldChoices((5, 10)),
}
