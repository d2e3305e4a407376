"""What all terms share stands in front, however many letters there are."""

import pytest
from sympy import ceiling, expand

from porism.costing import alphabet
from porism.costing.alphabet import B, C, D, H, T, V, X, Y, factored


def test_few_letters_are_taken_apart_wholly() -> None:
    assert factored(B * D**2 + 2 * B * D * H + B * H**2) == B * (D + H) ** 2


def test_many_letters_are_not_taken_apart_wholly_and_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven generators: taken apart wholly this may never end."""
    monkeypatch.setattr(alphabet, "factor", lambda formula: pytest.fail(f"{formula} was taken apart wholly"))
    pixels = [ceiling(Y / 2**stage) * ceiling(X / 2**stage) for stage in range(4)]
    inner = sum((H * 4**stage * seen for stage, seen in enumerate(pixels)), start=C * T) + V
    found = factored(expand(2 * B * H * inner))
    assert expand(found - 2 * B * H * inner) == 0
    assert {B, H} <= set(found.args)
