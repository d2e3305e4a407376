"""What `--tune` may set of a model of images, the learning rate first.

Changes to training images among it, which suit some pictures and not others.
"""

from porism.runs.tuning import RATES, Factors, FieldChoices, Space

SPACE: Space = {
    "learning_rate": RATES,
    "hidden_size": Factors((0.5, 1.0, 2.0)),
    "weight_decay": FieldChoices((0.0, 0.01, 0.05)),
    "dropout": FieldChoices((0.0, 0.2, 0.5)),
    "translate": FieldChoices((0, 1, 2)),
    "horizontal_flip": FieldChoices((False, True)),
}
