"""What holds for every test: one thread, so that workers do not fight for cores, and examples that repeat."""

import os

# Before torch is imported: its libraries read this once. For the processes a test starts as well.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

# Without a GPU kernels run in Triton's interpreter. Triton reads this when it is imported, which parts of torch do.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# A shared machine is no stopwatch, so no deadline. Where a change is judged, the same examples are drawn every time.
settings.register_profile("porism", deadline=None)
settings.register_profile("porism-ci", deadline=None, derandomize=True)
settings.load_profile("porism-ci" if os.environ.get("CI") else "porism")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="sweeps as a whole, not a fixed share of them")
