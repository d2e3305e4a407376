"""What a device can do, measured once and kept.

>>> peaks = of("cpu")                                   # a minute the first time, at once from then on
>>> peaks.flops, peaks.bandwidth                        # a second, of the best product and of the largest copy
"""

import msgspec
import torch

from porism.costing.predicting import kept
from porism.costing.predicting.clock import using_threads, wait_for
from porism.costing.predicting.overheads import Overheads, overheads
from porism.costing.predicting.probes import Bench, survey
from porism.costing.predicting.rates import Rates
from porism.errors import DeviceError
from porism.version import __version__

PATIENCE = 40.0
"""Seconds after which points that other work has disturbed are no longer timed again."""

DISTURBED = 0.1
"""The share of disturbed points above which what was measured is used this once and not kept."""


class Peaks(msgspec.Struct, frozen=True):
    """The constants of one device, for one type of number, one number of threads and one version of torch."""

    device: str
    kind: str
    threads: int
    dtype: str
    torch: str
    version: str
    disturbed: float
    """The share of the points that could only be timed while other work disturbed them."""
    rates: dict[str, Rates]
    overheads: Overheads

    @property
    def flops(self) -> float:
        """Operations a second of the fastest product."""
        return 1 / min(rates.best for kind, rates in self.rates.items() if kind.startswith(("product", "batched")))

    @property
    def bandwidth(self) -> float:
        """Bytes a second, read and written, of the largest copy: too large for a cache."""
        return 1 / self.rates["copy"].per_unit[-1]


def of(
    device: torch.device | str,
    dtype: torch.dtype = torch.float32,
    threads: int | None = None,
    refresh: bool = False,
    patience: float = PATIENCE,
) -> Peaks:
    """The constants of a device: from the cache, or measured now. `refresh` measures again.

    On a machine that is busy with other things points are timed again and again, for `patience` seconds in all. A file
    in the cache that cannot be read is measured anew; what too much other work has disturbed is not kept.
    """
    device = torch.device(device)
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(f"peaks: {device.type} cannot be measured. Use cpu or cuda.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError("peaks: device cuda is not there, torch sees no CUDA device. Use cpu.")
    threads = threads or torch.get_num_threads()
    file = kept.place("peaks", device, dtype, threads)
    known = None if refresh else kept.read(file, Peaks)
    if known is not None and known.version == __version__:
        return known
    with using_threads(threads):
        peaks = _measured(device, dtype, threads, patience)
    if peaks.disturbed <= DISTURBED:
        kept.write(file, peaks)
    return peaks


def _measured(device: torch.device, dtype: torch.dtype, threads: int, patience: float) -> Peaks:
    bench = Bench(device, dtype)
    if device.type == "cuda":
        _wake(device)
    rates, disturbed = survey(bench.probes(), device, patience)
    return Peaks(
        device=kept.name(device),
        kind=device.type,
        threads=threads,
        dtype=str(dtype).removeprefix("torch."),
        torch=str(torch.__version__),
        version=__version__,
        disturbed=disturbed,
        rates=rates,
        overheads=overheads(device, rates),
    )


def _wake(device: torch.device) -> None:
    """A GPU that has nothing to do lowers its clocks."""
    x = torch.randn(4096, 4096, device=device)
    for _ in range(50):
        x @ x
    wait_for(device)
