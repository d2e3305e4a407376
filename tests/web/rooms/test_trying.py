"""Models tried in the page: a run of every task, each with its own place to try it."""

import json
import math
import os
import re
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.rooms.conftest import OpenRoom, Served, launched
from tests.web.task_runs import train_run, trained_run, write_recording

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.sample(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tried")


@pytest.fixture(scope="module")
def recording(folder: Path) -> Path:
    return write_recording(folder / "rising.wav", seconds=2)


@pytest.fixture(scope="module")
def browser(recording: Path) -> "Iterator[Browser]":
    """One whose microphone hears the recording."""
    with launched(
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={recording}",
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """A server whose runs are trained by the tests that ask for them."""
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    runs = folder / "runs"
    runs.mkdir()
    server = Served(runs)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def open_run(open_room: OpenRoom, folder: Path) -> OpenRoom:
    """Open the models room with a run, which is trained first where it is not there."""

    def open_it(name: str, **options: Any) -> "Page":
        trained_run(folder, name)
        return open_room(f"/models?run={name}", **options)

    return open_it


def answer_of(page: "Page") -> str:
    """What the model said, once it has ended."""
    page.locator("#try", has_text=re.compile(r"of epoch \d")).wait_for()
    return page.inner_text("#try .answer")


def uploads() -> list[str]:
    """The files that lie in the private folders of servers on this machine."""
    folders = Path(tempfile.gettempdir()).glob("porism-uploads-*")
    return [str(file) for one in folders if os.access(one, os.R_OK) for file in one.iterdir()]


def ask(connection: HTTPConnection) -> None:
    connection.request("GET", "/api/cost/value?of=attention&at=B:1,T:128,A:8,D:64")
    assert json.loads(connection.getresponse().read())["values"]["attention"]["flops"]


def test_a_text_goes_on_and_a_long_one_is_cancelled_while_costs_are_answered(
    open_run: OpenRoom, served: Served
) -> None:
    page = open_run("language", refusals=True)
    page.get_by_role("textbox", name="Text").fill("the cat")
    page.get_by_label("Temperature").fill("1")
    page.get_by_label("Words").fill("24")
    page.get_by_role("button", name="Go on").click()
    answer_of(page)
    assert page.inner_text(".answer b") == "the cat"
    assert "porism predict" in page.locator("#try code").text_content()  # type: ignore[operator]

    page.get_by_label("Words").fill("5000")
    page.get_by_label("Samples").fill("8")
    page.get_by_label("Temperature").fill("0")
    page.get_by_role("button", name="Go on").click()
    page.locator("#try", has_text=re.compile(r"\d+ of 40000 words")).wait_for()
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=60)) as connection:
        for _ in range(40):
            ask(connection)
    # The text is not at its end: nobody waited for it.
    assert page.get_by_role("button", name="Go on").is_disabled()
    page.locator("#try").get_by_role("button", name="Cancel").click()
    page.locator("#try .note", has_text="Cancelled.").wait_for()

    page.get_by_label("Words").fill("3")
    page.get_by_label("Samples").fill("1")
    page.get_by_role("button", name="Go on").click()
    answer_of(page)


def test_an_older_checkpoint_is_one_click_away_from_a_damaged_one(
    open_room: OpenRoom, open_run: OpenRoom, folder: Path
) -> None:
    open_run("sentiment").close()
    damaged = folder / "runs" / "sentiment-damaged"
    if not damaged.exists():
        train_run(folder / "again", "sentiment").rename(damaged)
        with (damaged / "best" / "model.safetensors").open("ab") as file:
            file.write(b"x")
    page = open_room("/models?run=sentiment-damaged", refusals=True)
    page.locator("#damaged", has_text="best/model.safetensors").wait_for()
    page.get_by_role("button", name="Classify").click()
    page.locator("#try .note", has_text="best/model.safetensors of sentiment-damaged is damaged.").wait_for()
    page.get_by_role("button", name="Use the one before it, of epoch 1").click()
    page.get_by_role("button", name="Classify").click()
    answer_of(page)
    assert "checkpoint before the best, of epoch 1" in page.inner_text("#try")


def test_words_that_are_typed_and_unknown_to_a_model_are_named(open_run: OpenRoom, open_room: OpenRoom) -> None:
    open_run("attending").close()
    page = open_room("/patterns?run=attending&method=sliding&W=2")
    page.get_by_role("textbox", name="Sentence").fill("the cat sat on the mat")
    page.locator("#unknown", has_text="Not in the model's vocabulary: “sat”, “on” and “mat”.").wait_for()
    page.locator("h1", has_text=re.compile(r"A window of 2 is [\d.]+\s% off softmax here")).wait_for()
    page.wait_for_url("**text=the+cat+sat+on+the+mat**")


def test_a_sentence_is_judged_with_how_sure(open_run: OpenRoom) -> None:
    page = open_run("sentiment")
    page.get_by_role("textbox", name="Text").fill("it is not bad")
    page.get_by_role("button", name="Classify").click()
    shares = [float(one) for one in re.findall(r"([\d.]+)\s%", answer_of(page))]
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_numbers_are_answered_with_how_sure(open_run: OpenRoom) -> None:
    page = open_run("supervised", refusals=True)
    page.get_by_role("textbox", name="Numbers").fill("half, one")
    page.get_by_role("button", name="Answer").click()
    page.locator("#try .note").wait_for()
    page.get_by_role("textbox", name="Numbers").fill("0.5,-0.1")
    page.get_by_role("button", name="Answer").click()
    assert re.search(r"[\d.]+\s%", answer_of(page))


def test_a_node_is_labelled(open_run: OpenRoom) -> None:
    page = open_run("graphs")
    page.get_by_role("textbox", name="Number of the node").fill("33")
    page.get_by_role("button", name="Label").click()
    assert re.search(r"[\d.]+\s%", answer_of(page))


def test_a_word_has_neighbours_that_can_be_asked_for_theirs(open_run: OpenRoom) -> None:
    page = open_run("words")
    page.get_by_role("textbox", name="Word").fill("the")
    page.get_by_role("button", name="Find").click()
    first = page.locator(".chips button").first
    first.wait_for()
    word = first.inner_text()
    first.click()
    page.wait_for_function("(word) => document.querySelector('#try input[type=text]').value === word", arg=word)
    page.locator("#try button", has_text="Find").and_(page.locator(":enabled")).wait_for()


def arc(x: float, y: float, radius: float, start: int, end: int) -> list[tuple[float, float]]:
    """Points of an arc, by degrees clockwise from the right, in shares of a square."""
    turns = [math.radians(degrees) for degrees in range(start, end + 1, 15)]
    return [(x + radius * math.cos(turn), y + radius * math.sin(turn)) for turn in turns]


def test_a_digit_is_drawn_by_pointer_and_by_keys(open_run: OpenRoom) -> None:
    page = open_run("digits")
    page.get_by_role("button", name="Classify").click()
    page.locator("#try", has_text="Draw a digit first").wait_for()
    page.locator("#try canvas").scroll_into_view_if_needed()
    box = page.locator("#try canvas").bounding_box()
    assert box is not None
    three = [*arc(0.5, 0.28, 0.22, -150, 90), *arc(0.5, 0.72, 0.22, -90, 150)]
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in three]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place)
    page.mouse.up()
    page.get_by_role("button", name="Classify").click()
    drawn = answer_of(page)
    assert re.match(r"3\s+\d+\.\d\s%", drawn), drawn
    page.locator("#try").get_by_role("button", name="Clear").click()
    page.locator("#try canvas").focus()
    page.keyboard.press("Space")
    for _ in range(10):
        page.keyboard.press("ArrowDown")
    page.get_by_role("button", name="Classify").click()
    page.wait_for_function("(before) => document.querySelector('#try .answer').innerText !== before", arg=drawn)
    assert re.match(r"\d\s+\d+\.\d\s%", answer_of(page))


def test_half_a_picture_is_completed(open_run: OpenRoom) -> None:
    page = open_run("complete")
    picture = Path(__file__).parents[2] / "runs" / "runs-0.1" / "images" / "one.png"
    page.locator("#file").set_input_files(picture)
    page.get_by_role("button", name="Answer").click()
    answer_of(page)
    assert page.locator("#try .answer img").evaluate("(picture) => picture.naturalWidth") > 0


def test_a_recording_is_transcribed_and_three_others_are_refused(
    open_run: OpenRoom, open_room: OpenRoom, recording: Path, tmp_path: Path
) -> None:
    page = open_run("speech", refusals=True)
    before = uploads()
    page.locator("#file").set_input_files(recording)
    page.get_by_role("button", name="Transcribe").click()
    answer_of(page)

    large, renamed = tmp_path / "large.wav", tmp_path / "renamed.wav"
    large.write_bytes(b"RIFF" + struct.pack("<I", 11_000_000) + bytes(11_000_000))
    renamed.write_bytes(b"PK\x03\x04" + bytes(200))
    unread = "the file: not a recording that can be read. Give a WAV, FLAC, OGG or MP3."
    for file, refusal in ((large, "a sound has at most 10,000,000 bytes. Send a smaller one."), (renamed, unread)):
        page.locator("#file").set_input_files(file)
        page.get_by_role("button", name="Transcribe").click()
        page.locator("#try .note", has_text=refusal).wait_for()
        assert page.locator("#try .answer").is_hidden()
    other = open_room("/models?run=../x")
    assert "There is no run “../x”" in other.inner_text("#left-out")
    assert uploads() == before


def test_the_microphone_is_transcribed(open_run: OpenRoom) -> None:
    page = open_run("speech")
    page.get_by_role("button", name="Record", exact=True).click()
    page.locator("#try", has_text="recording, 30 s at most").wait_for()
    page.wait_for_timeout(1200)
    page.get_by_role("button", name="Stop").click()
    page.locator("#try", has_text=re.compile(r"[\d.]+ s recorded")).wait_for()
    page.get_by_role("button", name="Transcribe").click()
    answer_of(page)
