"""What people type, open or delete that cannot be shown: each is told in one line, and the room goes on."""

import re
import shutil

import pytest
from tests.web.rooms.conftest import OpenRoom, Served, write_run
from tests.web.rooms.test_scenes import ONE_WIDTH, headline, number_of

pytestmark = pytest.mark.sample(2)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("/cost?over=Z", ["“Z” is no letter: curves go over T."]),
        ("/cost?of=os:system@B&at=T:1e30", ["“T:1e30” is no size such as T:4096, and is left out."]),
        (
            "/patterns?W=0&K=3&layer=-1&head=x",
            [
                "W = “0” is left out: a whole number from 1 to 64.",
                "K = “3” is left out: an even number from 2 to 12.",
                "layer = “-1” is left out",
                "head = “x” is left out",
            ],
        ),
        ("/patterns?method=toString&text=", ["“toString” is no method"]),
        ("/compare?x=toString", ["“toString” is no axis"]),
        ("/ledger?verdict=constructor&topic=__proto__", ["“constructor” is no verdict", "“__proto__” is no topic"]),
        ("/models?run=../x", ["There is no run “../x”"]),
        ("/compare?runs=nothing,compared/elman&x=joy", ["There is no run “nothing”.", "“joy” is no axis"]),
        ("/ledger?verdict=joy&open=x&q=" + "q" * 300, ["“joy” is no verdict", "There is no statement x."]),
    ],
)
@ONE_WIDTH
def test_what_an_address_cannot_mean_is_told(open_room: OpenRoom, address: str, told: list[str]) -> None:
    page = open_room(address, refusals="os:system" in address)
    for line in told:
        assert line in page.inner_text("#left-out")


def test_an_address_that_is_no_room_leads_to_one(open_room: OpenRoom) -> None:
    page = open_room("/nowhere", refusals=True)
    assert headline(page) == "There is no page at /nowhere"
    page.locator("#room").get_by_role("link", name="Ledger").click()
    assert headline(page).endswith("textbook statements are wrong")
    page.go_back()
    page.get_by_role("button", name="No jobs").wait_for()


@ONE_WIDTH
def test_a_head_that_is_not_there_is_told_and_the_last_is_shown(open_room: OpenRoom) -> None:
    page = open_room("/patterns?text=the+cat+sat&layer=9&head=50")
    told = page.locator("#unknown .note", has_text="There is no head 50: head ")
    told.wait_for()
    last = (told.text_content() or "").removesuffix(" is shown.").rpartition(" ")[2]
    assert page.locator("#head option:checked").text_content() == f"{last} of {last}"
    assert f"Below is head {last}" in page.inner_text("#summary")
    assert "There is no layer 9: layer 1 is shown." in page.inner_text("#unknown")


@pytest.mark.parametrize("given", ["0", "-5", "1e30", "3.5", "", "1" + 30 * "0"])
@ONE_WIDTH
def test_what_is_no_size_is_told_and_the_size_stays(open_room: OpenRoom, given: str) -> None:
    page = open_room("/cost?of=attention")
    before = number_of(page, "attention")
    page.fill("#size-T", given)
    assert page.get_attribute("#size-T", "aria-invalid") == "true"
    page.keyboard.press("Tab")
    told = page.locator(".letter .note:visible")
    assert told.inner_text().startswith(f"“{given}” is no size of T" if given else "That is no size of T")
    assert "stays 4,096: a whole number from 1 on, of 30 digits at most." in told.inner_text()
    assert (page.input_value("#size-T"), number_of(page, "attention")) == ("4096", before)
    page.fill("#size-T", "0064")
    assert told.count() == 0
    page.keyboard.press("Tab")
    assert page.input_value("#size-T") == "64"


def test_a_damaged_run_says_what_is_wrong_once(own_server: Served, open_room: OpenRoom) -> None:
    write_run(own_server.runs, "whole", [200.0, 150.0], 140.0)
    write_run(own_server.runs, "other", [200.0, 150.0], 150.0)
    for name in ("broken", "half"):
        write_run(own_server.runs, name, [200.0], 140.0)
    (own_server.runs / "broken" / "recipe.toml").write_text("= nonsense", encoding="utf-8")
    (own_server.runs / "half" / "events.jsonl").write_text("{nonsense}\n{}\n", encoding="utf-8")
    page = open_room("/models?run=broken", at=own_server.address)
    assert headline(page) == "broken cannot be read"
    assert page.locator("main").inner_text().count("recipe.toml is not a recipe that porism wrote") == 1
    page = open_room("/compare?runs=broken,half", at=own_server.address)
    assert headline(page) == "Pick two runs to compare"
    assert "“broken” is left out, it is damaged:" in page.inner_text("#left-out")
    assert "“half” is left out, it is damaged:" in page.inner_text("#left-out")
    page = open_room("/compare?runs=broken,whole,other", at=own_server.address)
    page.locator("h1", has_text="has the lowest test perplexity").wait_for()
    assert page.locator("#table tbody tr").count() == 2


def test_a_run_that_is_deleted_while_it_is_open_is_named(own_server: Served, open_room: OpenRoom) -> None:
    for name, score in (("one", 140.0), ("two", 150.0), ("naïve 模型, a&b?#%25 " + "x" * 80, 160.0)):
        write_run(own_server.runs, name, [200.0, 150.0], score)
    compared = open_room("/compare?runs=one,two", at=own_server.address, refusals=True)
    opened = open_room("/models?run=two", at=own_server.address, refusals=True)
    shutil.rmtree(own_server.runs / "two")
    compared.locator("#failed", has_text="two is left out: there is no run 'two' in runs.").wait_for()
    assert ".." not in compared.inner_text("#failed")
    opened.locator("#failed", has_text="there is no run 'two' in runs.").wait_for()
    opened.get_by_role("link", name="naïve 模型").click()
    opened.locator("h1", has_text="after 2 of 2 epochs").wait_for()
    assert opened.inner_text("#failed") == ""
    opened.reload()
    assert (opened.locator("#runs a[aria-current]").text_content() or "").startswith("naïve 模型, a&b?#%25 x")


def test_a_long_name_is_no_reason_to_scroll(open_room: OpenRoom) -> None:
    page = open_room("/")
    page.fill("#add", "x" * 400)
    page.get_by_role("button", name="Add", exact=True).click()
    assert "is no layer or recipe" in page.inner_text("#add-note")
    page.fill("#add", f"os:{'y' * 150}")
    page.fill("#inputs", "B")


def test_every_room_says_that_the_server_does_not_answer(own_server: Served, open_room: OpenRoom) -> None:
    for name in ("one", "two", "three"):
        write_run(own_server.runs, name, [200.0, 150.0], 140.0)
    rooms = ("/cost?of=elman", "/patterns", "/models?run=one", "/compare?runs=one,two", "/ledger?open=000-24")
    cost, patterns, models, compare, ledger = (open_room(room, at=own_server.address, refusals=True) for room in rooms)
    cost.get_by_role("button", name="Measure here").click()
    cost.locator("#measured", has_text=re.compile("running|counted|timed")).wait_for()
    own_server.stop()
    silence = "The server does not answer. Is porism serve still running?"
    patterns.get_by_role("textbox", name="Sentence").fill("another sentence")
    patterns.locator("#unknown .note", has_text=silence).wait_for()
    models.get_by_role("link", name="two").click()
    models.locator("#failed", has_text=silence).wait_for()
    compare.get_by_role("checkbox", name="three").check()
    compare.locator("#failed", has_text=silence).wait_for()
    ledger.locator(".claim[data-id='000-24']").get_by_role("button", name="Check").click()
    ledger.locator(".claim[data-id='000-24'] .note", has_text=silence).wait_for()
    cost.locator("#jobs", has_text="Not connected").wait_for()
    cost.locator("main").get_by_role("button", name="Cancel").click()
    cost.locator("#measured li", has_text="elman cancelled").wait_for()
    own_server.start()
    for page in (cost, patterns, models, compare, ledger):
        page.get_by_role("button", name="No jobs").wait_for()


@ONE_WIDTH
def test_a_job_that_a_server_lost_as_it_was_started_anew_ends(own_server: Served, open_room: OpenRoom) -> None:
    page = open_room("/cost?of=elman", at=own_server.address, refusals=True)
    page.get_by_role("button", name="Measure here").click()
    page.locator("#measured", has_text=re.compile("running|counted|timed")).wait_for()
    own_server.stop()
    own_server.start()
    page.locator("#measured .note", has_text="The server has lost it: it was started anew. Ask once more.").wait_for()
    page.get_by_role("button", name="Measure here").wait_for()
