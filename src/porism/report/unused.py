"""Fields of a run that its model has no use for: no report shows them, nor counts them as a difference."""

from porism.runs.recipe import unused_fields
from porism.runs.record import RunRecord
from porism.tasks import TASKS, choices


def unused_in(record: RunRecord) -> set[str]:
    """
    >>> unused_in(read_run(Path("runs/language-attention")))
    {'window_size', 'order', 'feature_map', 'nonlinearity', 'weight_dropout', 'weight_init'}
    """
    if record.facts.task not in TASKS:
        return set()
    recipes = choices(record.facts.task).recipes
    return unused_fields(type(next(iter(recipes.values()))), record.fields)
