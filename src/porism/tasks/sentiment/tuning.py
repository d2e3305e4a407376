"""What `--tune` may set of a classifier of texts, the learning rate first."""

from porism.runs.tuning import RATES, Factors, FieldChoices, Space

SPACE: Space = {
    "learning_rate": RATES,
    "hidden_size": Factors((0.5, 1.0, 2.0)),
    "dropout": FieldChoices((0.0, 0.1, 0.3)),
    "word_dropout": FieldChoices((0.0, 0.05, 0.2)),
    "weight_decay": FieldChoices((0.0, 0.01, 0.1)),
}
