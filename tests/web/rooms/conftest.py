"""A browser for the tests of the page: Chromium as it is installed, driven by Playwright's Python package."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import porism

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

STATIC = Path(porism.__file__).parent / "web" / "static"
TEMPLATES = STATIC.parent / "templates"
LOOK = STATIC.parents[1] / "report" / "templates" / "look.css"
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
NOWHERE = "http://porism.test/"


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One for the tests of a file. It is closed after them: while it runs no other event loop can, in this process."""
    if CHROMIUM is None:
        pytest.skip("needs chromium to open the page in")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def blank(browser: "Browser") -> "Page":
    """An empty page beside the modules, which are served from their files: await import("/formula.js")."""

    def serve(route: "Route") -> None:
        path = STATIC / route.request.url.removeprefix(NOWHERE)
        if path.is_file():
            route.fulfill(body=path.read_text(encoding="utf-8"), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html><title>modules</title>", content_type="text/html")

    page = browser.new_page()
    page.route("**/*", serve)
    page.goto(NOWHERE)
    return page
