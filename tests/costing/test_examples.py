"""Every example in the docstrings of costing and of the public functions gives what it shows."""

import doctest
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import porism
from porism.costing.counting.count import count
from porism.costing.predicting import calibration

SOURCE = Path(porism.__file__).parent
MODULES = [
    "porism.api.cost",
    *(
        ".".join(("porism", *file.relative_to(SOURCE).with_suffix("").parts))
        for file in sorted((SOURCE / "costing").rglob("*.py"))
        if ">>>" in file.read_text(encoding="utf-8")
    ),
]
MEASURING = {"porism.costing.predicting.calibration", "porism.costing.predicting.time"}
"""Their examples take a minute to measure the machine first, and the seconds are different ones each time."""


@pytest.mark.sweep(8)
@pytest.mark.parametrize("name", [name for name in MODULES if name not in MEASURING])
def test_every_example_gives_what_it_shows(name: str) -> None:
    module = import_module(name)
    names: dict[str, Any] = {"porism": porism, "torch": torch, "nn": nn, "count": count, "calibration": calibration}
    ran = doctest.testmod(module, extraglobs={key: value for key, value in names.items() if key not in vars(module)})
    assert ran.attempted > 0
    assert ran.failed == 0
