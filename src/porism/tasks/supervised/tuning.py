"""What `--tune` may set of a net on tensors, the learning rate first."""

from porism.runs.tuning import RATES, Factors, FieldChoices, Space

SPACE: Space = {
    "learning_rate": RATES,
    "hidden_size": Factors((0.5, 1.0, 2.0, 4.0)),
    "dropout": FieldChoices((0.0, 0.2, 0.5)),
    "weight_decay": FieldChoices((0.0, 0.001, 0.01)),
}
