"""What `--tune` may set of a speech recogniser, the learning rate first."""

from porism.runs.tuning import RATES, FieldChoices, Space

SPACE: Space = {
    "learning_rate": RATES,
    "dropout": FieldChoices((0.0, 0.1, 0.25)),
    "weight_decay": FieldChoices((0.0, 0.01, 0.05)),
    "label_smoothing": FieldChoices((0.0, 0.1)),
    "word_dropout": FieldChoices((0.0, 0.2)),
}
