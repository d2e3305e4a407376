"""What a reader sees: nothing covers another, breaks where it cannot be read, or is shown with nothing in it."""

from typing import TYPE_CHECKING

import pytest
from tests.web.rooms.conftest import OpenRoom
from tests.web.rooms.test_scenes import headline

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.sample(2)

OUTSIDE = """(selector) => [...document.querySelectorAll(selector)].flatMap((svg) => {
    const box = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].filter((text) => {
        const own = text.getBoundingClientRect();
        return own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1;
    }).map((text) => text.textContent);
})"""
"""The labels of pictures that reach over an edge."""


def test_a_command_breaks_between_its_options(open_room: OpenRoom) -> None:
    page = open_room("/models?run=a-graph")
    told = page.locator("#repeat code")
    lines = "(code) => [...code.querySelectorAll('span')].map((one) => one.offsetHeight / 20)"
    heights = told.evaluate(lines)
    assert len(heights) > 3
    assert max(heights[1:]) < 2, "an option is torn from its value"
    assert "  " not in (told.text_content() or "")
    page.locator("#repeat").get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == told.text_content()


@pytest.mark.parametrize("words", ["a", "another sentence", "all these words are of interest", " ".join(20 * ["word"])])
def test_labels_of_a_heat_map_stay_inside_of_it_and_keep_their_size(open_room: OpenRoom, words: str) -> None:
    page = open_room(f"/patterns?text={words.replace(' ', '+')}")
    assert page.evaluate(OUTSIDE, ".heat") == []
    sizes = "[...document.querySelectorAll('.heat text')].map((one) => one.getCTM().d * 12)"
    upright = page.evaluate(sizes.replace("text'", "[text-anchor]'"))
    assert upright
    assert max(upright) < 24


def gap_above_headline(page: "Page") -> float:
    gap: float = page.evaluate(
        """() => document.getElementById("headline").getBoundingClientRect().top
            - document.getElementById("left-out").getBoundingClientRect().bottom"""
    )
    return gap


@pytest.mark.parametrize("room", ["/cost?over=Z", "/patterns?W=0", "/models?run=x", "/compare?x=joy", "/ledger?open=x"])
def test_what_was_left_out_stands_apart_from_the_headline(open_room: OpenRoom, room: str) -> None:
    assert gap_above_headline(open_room(room)) >= 16


def test_nothing_is_shown_of_what_is_not_picked(open_room: OpenRoom) -> None:
    page = open_room("/cost?of=os:system@B", refusals=True)
    page.locator("#picks .note").wait_for()
    assert headline(page) == "Pick a layer to see what it costs"
    assert page.inner_text("#summary") == ""
    assert not page.locator(".more").is_visible()
    page = open_room("/compare?runs=compared/elman")
    assert not page.locator("#metric").is_visible()


def test_a_long_search_does_not_fill_the_headline(open_room: OpenRoom) -> None:
    page = open_room(f"/ledger?q={'q' * 90}")
    assert headline(page) == f"No statement with “{'q' * 39}…” is found with these filters"
