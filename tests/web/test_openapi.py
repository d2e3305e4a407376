"""Random requests from the server's own description: no fault of ours, and every answer is as it is described."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import schemathesis
from hypothesis import HealthCheck, given, settings
from starlette.testclient import TestClient
from tests.web.conftest import HOME

from porism.web.app import create_app
from porism.web.settings import ServerSettings
from porism.web.workers import Worker

CASES, CASES_WHOLE = 60, 5_000
STREAMS = "/api/events"
"""It never ends, and is tested by itself."""
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(create_app(ServerSettings()).openapi()).exclude(path=STREAMS)
OPERATIONS: list[Any] = [found.ok() for found in SCHEMA.get_all_operations()]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def client(trained: Path) -> Iterator[TestClient]:
    """A server whose workers answer nothing: a request that happens to be good starts no computation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "package", "tests.web.workers")
        with TestClient(
            create_app(ServerSettings(runs=trained)), base_url=HOME, raise_server_exceptions=False
        ) as client:
            yield client


def takes_something(operation: Any) -> bool:
    """Whether there is more than one request to send."""
    described = SCHEMA.raw_schema["paths"][operation.path][operation.method]
    return bool(described.get("parameters") or described.get("requestBody"))


def send(client: TestClient, case: Any) -> Any:
    sent = case.as_transport_kwargs(base_url=HOME)
    names = ("method", "url", "params", "headers", "json")
    content = sent.get("data")
    return client.request(
        **{name: sent[name] for name in names if sent.get(name) is not None},
        content=content if isinstance(content, bytes | str) else None,
    )


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_an_answer_is_as_it_is_described(client: TestClient, operation: Any, is_whole: bool) -> None:
    examples = (CASES_WHOLE if is_whole else CASES) // sum(map(takes_something, OPERATIONS)) + 1

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        case.validate_response(send(client, case), checks=CHECKS)

    check()


def test_every_address_is_described() -> None:
    described = {operation.path for operation in OPERATIONS} | {STREAMS}
    assert described == {
        *("/api/catalogue", "/api/cost", "/api/cost/value", "/api/cost/recount", "/api/cost/file", "/api/measure"),
        *("/api/patterns", "/api/runs", "/api/run", "/api/run/report", "/api/predict", "/api/uploads", "/api/compare"),
        *("/api/claims", "/api/claims/check", "/api/jobs", "/api/jobs/{job}", "/api/events"),
    }
