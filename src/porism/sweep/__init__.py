"""Search over the fields of a recipe: grid, random and TPE (Optuna), on one machine or many."""
