"""The cost room's Measure and recount: seconds and counts on this machine, and what is refused there."""

import re
from pathlib import Path

import pytest
from tests.web.rooms.conftest import OpenRoom, Served
from tests.web.rooms.test_scenes import ONE_WIDTH, known_how

pytestmark = pytest.mark.sample(1)


@ONE_WIDTH
def test_a_pass_is_measured_within_seconds_and_the_measurement_can_be_cancelled(open_room: OpenRoom) -> None:
    page = open_room("/cost?of=elman&at=T:8,B:2,D:4,H:4")
    page.get_by_role("button", name="Measure here").click()
    page.locator("#measured", has_text=re.compile(r"[1-9]\d* sizes counted")).wait_for()
    page.locator("#measured li", has_text=re.compile(r"^elman [\d.]+ (µs|ms) \(the median of \d+ passes")).wait_for()
    assert "at T = 8, B = 2, D = 4, H = 4:" in page.inner_text("#measured")
    page.goto(page.url.partition("?")[0] + "?of=window,elman")
    page.get_by_role("button", name="Measure here").click()
    page.locator("#measured li", has_text=re.compile(r"window [1-9]\d* sizes counted")).wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.locator("#measured li", has_text="window cancelled").wait_for()
    page.locator("#measured li", has_text="elman not measured").wait_for()
    page.get_by_role("button", name="Measure here").wait_for()


@pytest.mark.sweep(0)
@ONE_WIDTH
def test_a_prediction_stands_beside_a_measurement_once_the_machine_is_known(
    own_server: Served, open_room: OpenRoom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Takes minutes: what the machine can do is measured, as nothing is known of it here."""
    monkeypatch.setenv("PORISM_DATA", str(tmp_path))  # for the process that counts, which is started on first use
    page = open_room("/cost?of=elman&at=T:8,B:2,D:4,H:4", at=own_server.address)
    page.get_by_role("button", name="Measure here").click()
    page.get_by_role("button", name="Predict too").click()
    page.locator("#measured li", has_text="s of measuring what this machine can do").wait_for()
    assert page.get_by_role("button", name="Cancel").is_visible()
    told = re.compile(r"^elman [\d.]+ (µs|ms) \(the median of \d+ passes.*\); [\d.]+ (µs|ms) predicted, bound by \w+$")
    page.locator("#measured li", has_text=told).wait_for(timeout=320_000)
    page.get_by_role("button", name="Measure here").wait_for()
    assert "Predict too" not in page.inner_text("#measured")


@ONE_WIDTH
def test_the_largest_sizes_have_short_ratios_and_are_refused_where_they_would_run(open_room: OpenRoom) -> None:
    page = open_room(f"/cost?of=attention,taylor&at=T:{'9' * 30}")
    row = page.locator("#rows tr", has_text="attention")
    assert re.fullmatch(r"\d\.\d\de\+\d+", row.locator("td").nth(1).inner_text())
    row.get_by_role("button", name="recount").click()
    row.locator(".note", has_text="Not counted there: attention refuses T=999").wait_for()
    assert known_how(page, "attention").startswith("extrapolated")
    page.get_by_role("button", name="Measure here").click()
    for layer in ("attention", "taylor"):  # another test sees the others derived
        refusal = rf"{layer}\s+cost: a pass of {layer} at .* holds at least [\d,]+ GiB, and [\d.,]+ GiB are free on cpu"
        page.locator("#measured li", has_text=re.compile(refusal)).wait_for()
    page.get_by_role("button", name="Measure here").wait_for()
    assert "Predict too" not in page.inner_text("#measured")
