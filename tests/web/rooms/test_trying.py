"""Models tried in the page: text that is gone on with, neighbours of a word, a digit that is drawn."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web.rooms.conftest import OpenRoom, Served

pytestmark = pytest.mark.sweep(0)


@pytest.fixture(scope="module")
def served(trained: Path) -> Iterator[Served]:
    """A server over runs whose models can be tried."""
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    server = Served(trained)
    server.start()
    yield server
    server.stop()


def test_a_text_is_gone_on_with(open_room: OpenRoom) -> None:
    page = open_room("/models?run=tiny/elman")
    page.get_by_role("textbox", name="Text").fill("the cat")
    page.get_by_label("Temperature").fill("1")
    page.get_by_role("button", name="Go on").click()
    page.locator("#try", has_text="seed 0, best checkpoint").wait_for()
    assert page.inner_text(".answer b") == "the cat"
    assert "porism predict" in page.locator("#try code").text_content()  # type: ignore[operator]


def test_a_word_has_neighbours_that_can_be_asked_for_theirs(open_room: OpenRoom) -> None:
    page = open_room("/models?run=old/words", refusals=True)
    page.get_by_role("textbox", name="Word").fill("the")
    page.get_by_role("button", name="Find").click()
    first = page.locator(".chips button").first
    first.wait_for()
    word = first.inner_text()
    first.click()
    page.wait_for_function("(word) => document.querySelector('#try input[type=text]').value === word", arg=word)


def test_a_digit_is_drawn_by_pointer_and_by_keys(open_room: OpenRoom) -> None:
    page = open_room("/models?run=old/images", refusals=True)
    if page.locator("#try canvas").count() == 0:
        pytest.skip("the run that is kept takes pictures, not digits")
    page.get_by_role("button", name="Classify").click()
    page.locator("#try", has_text="Draw a digit first").wait_for()
    box = page.locator("#try canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 60, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 100)
    page.mouse.move(box["x"] + 60, box["y"] + 180)
    page.mouse.up()
    page.get_by_role("button", name="Classify").click()
    page.locator(".answer tr").first.wait_for()
    assert re.search(r"\d+\.\d\u00a0%", page.inner_text(".answer"))
    page.locator("#try").get_by_role("button", name="Clear").click()
    page.locator("#try canvas").focus()
    page.keyboard.press("Space")
    for _ in range(10):
        page.keyboard.press("ArrowDown")
    page.get_by_role("button", name="Classify").click()
    page.locator("#try", has_text="best checkpoint").wait_for()
