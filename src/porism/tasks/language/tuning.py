"""What `--tune` may set of a language model, the learning rate first.

Not what a text is cut into, nor what is read of it: perplexities would not be comparable.
"""

from porism.runs.tuning import RATES, Choices, Space

SPACE: Space = {
    "learning_rate": RATES,
    "dropout": Choices((0.1, 0.3, 0.5, 0.6)),
    "embedding_dropout": Choices((0.0, 0.1)),
    "weight_decay": Choices((0.0, 0.01, 0.1)),
}
