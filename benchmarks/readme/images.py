"""Image classifiers: what they reach."""

from typing import Any

from readme.place import measured_on, rows_and_columns
from trained import by_recipe, mean_and_deviation


def images_table(result: dict[str, Any]) -> list[str]:
    cells = {}
    for recipe, rows in by_recipe(result["rows"]).items():
        accuracy = {
            split: mean_and_deviation([row["accuracy"][split] for row in rows], 4)
            for split in ("train", "valid", "test")
        }
        epochs = mean_and_deviation([row["epochs"] for row in rows], 1)
        cells[recipe] = {
            **accuracy,
            "seeds": str(len(rows)),
            "parameters": f"{rows[0]['parameters']:,}",
            "epochs": epochs,
        }
    return [measured_on(result), "", *rows_and_columns("mean and deviation over seeds", cells)]
