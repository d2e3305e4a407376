"""What `--tune` may set of a graph net, the learning rate first."""

from porism.runs.tuning import RATES, Factors, FieldChoices, Space

SPACE: Space = {
    "learning_rate": RATES,
    "hidden_size": Factors((1.0, 2.0, 4.0)),
    "dropout": FieldChoices((0.2, 0.5, 0.8)),
    "weight_decay": FieldChoices((0.0, 0.0005, 0.005)),
}
