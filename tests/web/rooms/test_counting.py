"""Modules that are derived by the count worker behind the cost room."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web.rooms.conftest import PATIENCE, OpenRoom, Served

pytestmark = pytest.mark.sample(1)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server for each test, whose workers have derived nothing yet, and whose jobs no clock stops."""
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from porism.web.jobs import LIMITS

    monkeypatch.setitem(LIMITS, "derive", PATIENCE / 1000)
    server = Served(tmp_path / "runs", ("torch.nn:LSTM",))
    server.start()
    yield server
    server.stop()


def test_an_allowed_module_is_derived_while_the_sliders_answer(open_room: OpenRoom) -> None:
    page = open_room("/cost?of=elman&at=B:1,T:64,D:64,H:64")
    page.fill("#add", "torch.nn:LSTM")
    page.fill("#inputs", "T B D")
    page.get_by_role("button", name="Add", exact=True).click()
    row = page.locator("#picks li", has_text="torch.nn:LSTM")
    row.get_by_text("deriving").wait_for()
    before = page.locator("#rows tr", has_text="elman").locator("td").nth(0).inner_text()
    page.get_by_role("slider", name="T, length").press("ArrowRight")
    after = page.locator("#rows tr", has_text="elman").locator("td").nth(0).inner_text()
    assert after != before
    # In the order of events: the slider has answered, and the module is still on its way.
    assert row.get_by_text("deriving").count() == 1
    page.locator("#rows tr", has_text="torch.nn:LSTM").wait_for()
    found = page.locator("#rows tr", has_text="torch.nn:LSTM").locator("td").nth(0).inner_text()
    sizes = {letter: int(page.locator(f"#size-{letter}").input_value()) for letter in "BTDH"}
    exact = 8 * sizes["B"] * sizes["H"] * sizes["T"] * (sizes["D"] + sizes["H"])
    assert found == f"{exact:,}"
    assert "torch.nn:LSTM" in page.url or "torch.nn%3ALSTM" in page.url
