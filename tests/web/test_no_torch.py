"""The server's process answers every question without torch and without sympy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

SCRIPT = """
import json, sys
from pathlib import Path
from starlette.testclient import TestClient
from porism.web.app import create_app
from porism.web.settings import ServerSettings

addresses = (
    "/", "/cost?of=taylor", "/patterns", "/models", "/compare", "/ledger", "/api/catalogue", "/api/claims", "/api/runs",
    "/api/cost/value?of=taylor", "/api/cost/file", "/api/jobs", "/api/run?id=tiny/elman", "/openapi.json",
    "/api/compare?runs=tiny/elman,tiny/attention",
)
with TestClient(create_app(ServerSettings(runs=Path(sys.argv[1]))), base_url="http://127.0.0.1") as client:
    early = [name for name in ("numpy", "rich.table") if name in sys.modules]
    answers = {address: client.get(address).status_code for address in addresses}
    body = {"run": "tiny/elman", "input": "a", "options": {"export": "x"}}
    answers["predict"] = client.post("/api/predict", json=body).status_code
print(json.dumps([early, answers, [name for name in ("torch", "sympy", "transformers") if name in sys.modules]]))
"""


def test_no_question_imports_torch_or_sympy(trained: Path) -> None:
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(trained)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    early, answers, heavy = json.loads(done.stdout.splitlines()[-1])
    assert answers.pop("predict") == 422
    assert set(answers.values()) == {200}
    assert heavy == []
    assert early == [], "what a comparison needs is not waited for at the start"
