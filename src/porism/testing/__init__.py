"""The contracts of layers and tasks, as checks for ours and for yours.

>>> from porism.testing import check_layer
>>> check_layer(lambda D, H: torch.nn.Linear(D, H), "B D").failed
()
"""

from porism.testing.layer import check_layer, layer_checks
from porism.testing.report import CheckReport, CheckResult
from porism.testing.task import check_task, task_checks

__all__ = ["CheckReport", "CheckResult", "check_layer", "check_task", "layer_checks", "task_checks"]
