"""One server for all tests of a file, over a folder with runs of several tasks. No worker starts unless a test asks."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.runs.tiny_runs import SETTINGS, begin, write_text

from porism.runs.recipe import override
from porism.tasks.language.recipes import RECIPES
from porism.tasks.language.task import Language
from porism.training import session
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from porism.web.context import ServerContext

HOME = "http://127.0.0.1:8765"
OLD = Path(__file__).parents[1] / "runs/runs-0.1"
ALLOWED = ("torch.nn:LSTM",)


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, text_file: str) -> Path:
    """A folder of runs: two tiny language models, and one of 0.1 of every other task. Tests do not write into it."""
    folder = tmp_path_factory.mktemp("served") / "runs"
    session.complete(begin(folder / "tiny" / "elman", text_file), NoProgress())
    recipe = override(RECIPES["attention"], [*SETTINGS, "hidden_size=8", "embedding_dim=8", "num_heads=2", "epochs=1"])
    request = TrainingRequest(Language, recipe, source=text_file, device="cpu", seed=5, threads=1)
    session.complete(session.begin(request, folder / "tiny" / "attention"), NoProgress())
    for task in ("graphs", "images", "words"):
        shutil.copytree(OLD / task / "run", folder / "old" / task)
    return folder


@pytest.fixture(scope="module")
def client(trained: Path) -> "Iterator[TestClient]":
    testclient = pytest.importorskip("starlette.testclient", reason='the page needs pip install "porism[web]"')

    from porism.web.app import create_app
    from porism.web.settings import ServerSettings

    with testclient.TestClient(create_app(ServerSettings(runs=trained, allowed=ALLOWED)), base_url=HOME) as client:
        yield client


@pytest.fixture
def context(client: "TestClient") -> "ServerContext":
    found: ServerContext = client.app.state.context  # type: ignore[attr-defined]
    return found


Ended = Callable[[str], dict[str, Any]]


@pytest.fixture
def ended_of() -> "Callable[[TestClient, str], dict[str, Any]]":
    """Waits for the end of a job of a server."""

    def wait(client: "TestClient", job: str) -> dict[str, Any]:
        until = time.monotonic() + 120
        while (found := client.get(f"/api/jobs/{job}").json())["state"] in ("queued", "running"):
            assert time.monotonic() < until, found
            time.sleep(0.02)
        return dict(found)

    return wait


@pytest.fixture
def ended(client: "TestClient", ended_of: "Callable[[TestClient, str], dict[str, Any]]") -> Ended:
    """Waits for a job's end."""
    return lambda job: ended_of(client, job)


@pytest.fixture
def folder_with_links(tmp_path: Path, trained: Path) -> Path:
    """A runs folder with a run of its own, and with links to runs and files that lie outside of it."""
    runs, outside = tmp_path / "runs", tmp_path / "outside"
    shutil.copytree(trained / "tiny" / "elman", runs / "own")
    shutil.copytree(trained / "tiny" / "elman", outside)
    (outside / "report.html").write_text("<p>secret")
    shutil.copytree(trained / "tiny" / "elman", runs / "report-elsewhere")
    (runs / "report-elsewhere" / "report.html").symlink_to(outside / "report.html")
    (runs / "linked").symlink_to(outside, target_is_directory=True)
    return runs
