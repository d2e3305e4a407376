"""What `--tune` may set of a speech recogniser, the learning rate first."""

from porism.runs.tuning import RATES, Choices, Space

SPACE: Space = {
    "learning_rate": RATES,
    "dropout": Choices((0.0, 0.1, 0.25)),
    "weight_decay": Choices((0.0, 0.01, 0.05)),
    "label_smoothing": Choices((0.0, 0.1)),
    "word_dropout": Choices((0.0, 0.2)),
}
