"""The page as a browser lays it out."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.report.conftest import WriteRun, metrics

from porism.report.page import write_report

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Pages of its own behind the address bar, which nobody sees here.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
)


@pytest.mark.skipif(BROWSER is None, reason="needs chromium to lay the page out")
@pytest.mark.parametrize("runs", [1, 7])
def test_a_phone_never_scrolls_sideways(write_run: WriteRun, tmp_path: Path, runs: int) -> None:
    long = "a" * 200
    folders = [
        write_run(f"{n}", recipe=f"a-recipe-with-a-name-{n}", note=long, metrics=metrics(150.0 + n, command=long))
        for n in range(runs)
    ]
    page = write_report(folders, tmp_path / "report.html", command=f"porism report {long}").read_text(encoding="utf-8")
    opened = page.replace("<details>", "<details open>")
    # A window has a smallest width, a frame in it has none.
    measure = "document.title = frames[0].document.documentElement.scrollWidth"
    frame = (
        f'<iframe width="375" height="667" style="border:0" srcdoc="{html.escape(opened)}" onload="{measure}"></iframe>'
    )
    (tmp_path / "phone.html").write_text(f"<title></title>{frame}", encoding="utf-8")
    command = [
        f"{BROWSER}",
        *FLAGS,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        f"{tmp_path / 'phone.html'}",
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    width = re.search(r"<title>(\d+)</title>", output)
    assert width is not None, output[:200]
    assert int(width.group(1)) <= 375
