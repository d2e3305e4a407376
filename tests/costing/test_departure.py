"""From which size on formula and count differ."""

from collections.abc import Callable, Mapping

import pytest

from porism.costing.departure import departure

RANGES = {"B": (2, 60), "T": (5, 138)}


@pytest.mark.parametrize(
    ("differs", "sizes", "words"),
    [
        (lambda at: at["T"] > 512, {"B": 3, "T": 4096}, "from T=513 on"),
        (lambda at: at["T"] > 512, {"B": 100, "T": 4096}, "from T=513 on"),
        (lambda at: at["T"] < 4, {"B": 3, "T": 1}, "up to T=3"),
        (lambda at: at["T"] == 3000, {"B": 3, "T": 3000}, "at T=3000"),
        (lambda at: at["T"] * at["B"] > 10**5, {"B": 100, "T": 1100}, "at B=100, T=1100"),
        (lambda at: None if 200 < at["T"] < 900 else at["T"] > 512, {"B": 3, "T": 1000}, "at T=1000"),
    ],
)
def test_departure(differs: Callable[[Mapping[str, int]], bool | None], sizes: dict[str, int], words: str) -> None:
    assert departure(differs, sizes, RANGES, {}) == words


def test_departure_in_steps() -> None:
    assert departure(lambda at: at["T"] > 512, {"T": 4096}, {"T": (32, 128)}, {"T": 32}) == "from T=544 on"
