"""The memory that is left, and a refusal of data that would take more.

>>> check_fits("scans.npz", 8 * 10**12, "train_images")     # doctest: +SKIP
DataError: scans.npz: train_images takes 7,451 GiB, and 22 GiB of memory are free. ...
"""

from pathlib import Path

from porism.errors import Advice, DataError, advise

GIB = 2**30


def available_bytes() -> float:
    """Of the machine's memory, those that are left."""
    # Here, since it imports torch, which a list of data does without.
    from porism.costing.predicting import available

    return available.available_bytes()


def check_fits(
    where: Path | str, needed: int, what: str, *, taken: int = 0, advice: Advice | str = "Give less data."
) -> None:
    """Refuses what needs more memory than is left. `taken` bytes of it are in memory already."""
    available = available_bytes() + taken
    if needed > available:
        raise DataError(
            f"{where}: {what} takes {needed / GIB:,.3g} GiB, and {available / GIB:,.3g} GiB of memory are free.",
            advise(advice) if isinstance(advice, str) else advice,
        )
