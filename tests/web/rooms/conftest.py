"""A browser and a server for the tests of the page: Chromium as it is installed, driven by Playwright's package."""

import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tomli_w
from tests.report.conftest import epoch, metrics, start

import porism

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Route

OpenRoom = Callable[..., "Page"]

STATIC = Path(porism.__file__).parent / "web" / "static"
TEMPLATES = STATIC.parent / "templates"
LOOK = STATIC.parents[1] / "report" / "templates" / "look.css"
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
TURNED_OFF = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"),
    *("AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync"),
    *("DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay"),
    *("MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch"),
    "ThirdPartyStoragePartitioning",
)
"""Features of Chromium. The first three load pages of its own behind the address bar of each window, which nobody sees
here, for more than a second of a core. The others are those of Playwright: Chromium takes the last such list alone."""
NOWHERE = "http://porism.test/"
PATIENCE = 600_000
"""Milliseconds that a page may take for what it is to show: workers start and count after all else on the machine."""


@contextmanager
def launched(*arguments: str) -> "Iterator[Browser]":
    """Chromium. While it runs no other event loop can, in this process."""
    if CHROMIUM is None:
        pytest.skip("needs chromium to open the page in")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        flags = ("--no-sandbox", "--disable-gpu", f"--disable-features={','.join(TURNED_OFF)}", *arguments)
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One for the tests of a file."""
    with launched() as opened:
        yield opened


@pytest.fixture(params=[1280, 800, 390])
def width(request: pytest.FixtureRequest) -> int:
    """Pixels of the window: a scene runs at all three, unless it names its own."""
    pixels: int = request.param
    return pixels


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


def write_run(
    folder: Path, name: str, valid: list[float], test: float | None, *, task: str = "language", **fields: Any
) -> None:
    """A run of made-up numbers: perplexities of its epochs on valid, and that on test where it has finished."""
    run = folder / name
    run.mkdir(parents=True)
    recipe = name.rpartition("/")[2]
    about = {"task": task, "recipe": recipe, "seed": 1, "source": "ptb", "device": "cpu", "precision": "fp32"}
    resolved = {"name": recipe, "model": recipe, "epochs": len(valid)} | fields
    content = tomli_w.dumps(about | {"threads": 2, "fingerprint": "ab12", "fields": resolved})
    (run / "recipe.toml").write_text(content, encoding="utf-8")
    events = [start(), *(epoch(number, value) for number, value in enumerate(valid, 1))]
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    if test is not None:
        about = {"task": task, "recipe": recipe, "run": name, "epochs": len(valid), "best_epoch": len(valid)}
        (run / "metrics.json").write_text(json.dumps(metrics(test, **about)), encoding="utf-8")


@dataclass
class Served:
    """A server that runs in a thread: where it is, and the folder of its runs."""

    runs: Path
    allowed: tuple[str, ...] = ()
    port: int = 0
    _server: Any = field(default=None, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        from porism.web.server import PageServer
        from porism.web.settings import ServerSettings

        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # as porism serve has it
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen()
        self.port = listener.getsockname()[1]
        self._server = PageServer(ServerSettings(runs=self.runs, allowed=self.allowed, port=self.port))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        limit = time.monotonic() + 60
        while not self._server.started:
            assert time.monotonic() < limit, "the server does not start"
            time.sleep(0.02)

    def stop(self) -> None:
        self._server.should_exit = True
        assert self._thread is not None
        self._thread.join(timeout=60)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a file, with runs of made-up numbers."""
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    runs = tmp_path_factory.mktemp("served") / "runs"
    write_run(runs, "compared/elman", [250.0 / n**0.4 for n in range(1, 13)], 77.66)
    write_run(runs, "compared/attention", [240.0, 180.0, 150.0, 140.0], 90.49)
    write_run(runs, "a-graph", [3.0, 2.0], 1.5, task="graphs")
    server = Served(runs, ("torch.nn:LSTM",))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Served]:
    """A server for one test, with no runs. Name it before open_room, so that it outlives the pages."""
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    server = Served(tmp_path / "runs")
    server.start()
    yield server
    server.stop()


def unfold(page: "Page") -> None:
    """Open the controls that fold on narrow screens."""
    for fold in page.locator(".fold:not([open]) > summary").all():
        if fold.is_visible():
            fold.click()


@pytest.fixture
def open_room(
    browser: "Browser", served: Served, width: int, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[OpenRoom]:
    """Open a room: open_room("/cost?over=B"), with the controls that fold on narrow screens unfolded.

    The narrowest window is dark, so that scenes run in both themes.
    No script may fail and nothing be complained of. After the scene axe looks at each page that is still open, and its
    picture is kept in .pytest_cache/d/screenshots where pytest keeps a cache. refusals: whether the test lets the
    server refuse something, which browsers report in their console.
    """
    contexts, complaints = [], []

    def open_it(path: str, *, refusals: bool = False, at: str = "") -> "Page":
        def complain(message: "ConsoleMessage") -> None:
            if message.type in ("error", "warning") and not (refusals and "Failed to load" in message.text):
                complaints.append(f"{path}: {message.text}")

        window: dict[str, Any] = {"width": width, "height": 900}
        context = browser.new_context(viewport=window, color_scheme="dark" if width == 390 else "light")  # type: ignore[arg-type]
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(f"{path}: {error}"))
        page.goto((at or served.address) + path)
        unfold(page)
        return page

    yield open_it
    pages = [page for context in contexts for page in context.pages]
    cache = request.config.cache if request.config.pluginmanager.hasplugin("cacheprovider") else None
    folder = cache.mkdir("screenshots") if cache else tmp_path
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))
    for number, page in enumerate(pages):
        page.screenshot(path=folder / f"{name}{number or ''}.png", full_page=True)
        complaints += violations(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{page.url} scrolls sideways"
    for context in contexts:
        context.close()
    assert complaints == []


def violations(page: "Page", **options: Any) -> list[str]:
    """What axe has against a page, in one line each; nothing where axe is not installed, of which a test tells."""
    if find_spec("axe_playwright_python") is None:
        return []
    axe = import_module("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [f"{page.url}: {one['id']}: {[node['target'] for node in one['nodes']][:3]}" for one in found]
