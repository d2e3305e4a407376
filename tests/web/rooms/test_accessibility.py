"""Every room for those who cannot see it, use keys alone or want no motion: axe, names of plots, order of focus."""

from typing import TYPE_CHECKING

import pytest
from tests.web.rooms.conftest import OpenRoom, Served, violations
from tests.web.rooms.test_scenes import ONE_WIDTH

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.sample(1)

ROOMS = ["/", "/patterns", "/models", "/compare?runs=compared/elman,compared/attention", "/ledger?open=000-24"]
UNNAMED = "[...document.querySelectorAll('svg')].filter((svg) => !svg.getAttribute('aria-label') && !svg.ariaHidden)"


@pytest.mark.sweep(1)
@pytest.mark.parametrize("room", ROOMS)
@ONE_WIDTH
def test_axe_finds_nothing_and_nothing_scrolls_sideways(open_room: OpenRoom, room: str) -> None:
    """At four widths, with axe at three of them in both themes: only contrast changes with the theme."""
    pytest.importorskip("axe_playwright_python", reason="axe is not installed")
    page = open_room(room)
    page.wait_for_timeout(150)
    found = []
    for width in (1280, 800, 390, 320):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for theme in ("light", "dark") if width > 320 else ():
            page.emulate_media(color_scheme=theme)
            options = {} if theme == "light" else {"runOnly": ["color-contrast"]}
            found += [(width, theme, line) for line in violations(page, **options)]
    assert found == []
    assert page.evaluate(f"{UNNAMED}.length") == 0
    page.set_viewport_size({"width": 1280, "height": 900})


def test_nothing_moves_where_less_motion_is_asked_for(browser: "Browser", served: Served) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    for room in ROOMS:
        page.goto(served.address + room)
        assert page.evaluate("document.getAnimations().length") == 0
    context.close()


HEAD = [
    "Skip to the room",
    "Porism",
    "Cost",
    "Patterns",
    "Models",
    "Compare",
    "Ledger",
    "jobs",
    "Colours: as the system",
]
READING = {
    "/": ["measure it on this machine", "What is lost?", "Forward FLOPs over T", "Remove attention", "Remove window"],
    "/patterns": [
        "compared/attention",
        "What does each cost?",
        "Sentence, up",
        "Queries and keys from",
        "Layer",
        "Head",
    ],
    "/models?run=a-graph": [
        "Find a run",
        "Task",
        "a-graph",
        "compared/attention",
        "compared/elman",
        "perplexity over 2",
    ],
    "/compare?runs=compared/elman,compared/attention": [
        "compared/attention",
        "compared/elman",
        "a-graph",
        "Measured by",
    ],
    "/ledger": ["Find", "wrong", "imprecise", "holds under assumptions", "holds", "empirical", "Topic", "Check all"],
}
"""By room: how what is focused after the head begins, in the order in which the room is read."""
NAME = """(() => {
    const one = document.activeElement, label = one.labels?.[0]?.firstChild?.textContent;
    if (one.id === "jobs") return one.id;
    return (one.getAttribute("aria-label") ?? (label || one.value || one.textContent)).trim();
})()"""


@ONE_WIDTH
def test_focus_follows_reading_order(open_room: OpenRoom, served: Served) -> None:
    page = open_room("/")
    for room, own in READING.items():
        page.goto(served.address + room)
        expected = [*HEAD, *own]
        names = []
        for _ in expected:
            page.keyboard.press("Tab")
            names.append(page.evaluate(NAME))
        assert [name[: len(start)] for name, start in zip(names, expected, strict=True)] == expected
