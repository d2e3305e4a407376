"""A device of round numbers: what it takes can be worked out by hand."""

from itertools import product

import pytest

from porism.costing.counting.kernels import MEMORY_KINDS
from porism.costing.predicting.calibration import Peaks
from porism.costing.predicting.overheads import Overheads
from porism.costing.predicting.rates import Rates

FLOPS, BANDWIDTH, LEAST, HOST = 1e12, 1e11, 1e-6, 5e-6

SIZES = {
    **{f"product_{layout}": 3 for layout in ("nn", "nt", "tn")},
    **{f"batched_{layout}": 4 for layout in ("nn", "nt", "tn")},
    **dict.fromkeys(("norm", "norm_backward", "column_sum", "gather", "scatter", "embedding_backward"), 2),
    **dict.fromkeys(("copy", "copy_strided", "arithmetic", "fill", "gelu", "gelu_backward"), 1),
}
"""How many sizes each kind has."""


def made(kind: str, overheads: Overheads) -> Peaks:
    def rates(name: str, sizes: int) -> Rates:
        # Norms and sums are counted in numbers, of which one is four bytes.
        unit = 4 / BANDWIDTH if name in ("norm", "norm_backward", "column_sum") else 1 / BANDWIDTH
        per_unit = unit if name in MEMORY_KINDS else 1 / FLOPS
        points = len(list(product((1, 1024), repeat=sizes)))
        return Rates(((1, 1024),) * sizes, (per_unit,) * points, (HOST,) * points, LEAST)

    return Peaks(
        device="a device by hand",
        kind=kind,
        threads=1,
        dtype="float32",
        torch="2",
        version="0",
        disturbed=0.0,
        rates={name: rates(name, sizes) for name, sizes in SIZES.items()},
        overheads=overheads,
    )


@pytest.fixture
def cpu() -> Peaks:
    return made(
        "cpu", Overheads(forward=2e-6, backward=3e-6, enter=1e-6, start=10e-6, forward_view=0.0, backward_view=0.0)
    )


@pytest.fixture
def gpu() -> Peaks:
    return made(
        "cuda", Overheads(forward=1e-6, backward=2e-6, enter=0.0, start=0.0, forward_view=0.0, backward_view=0.0)
    )
