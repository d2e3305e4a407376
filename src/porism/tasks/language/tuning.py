"""What `--tune` may set of a language model, the learning rate first.

Not what a text is cut into, nor what is read of it: perplexities would not be comparable.
"""

from porism.runs.tuning import RATES, FieldChoices, Space

SPACE: Space = {
    "learning_rate": RATES,
    "dropout": FieldChoices((0.1, 0.3, 0.5, 0.6)),
    "embedding_dropout": FieldChoices((0.0, 0.1)),
    "weight_decay": FieldChoices((0.0, 0.01, 0.1)),
}
