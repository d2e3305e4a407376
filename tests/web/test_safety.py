"""Who may ask, and what a browser may do with an answer."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from anyio import BrokenResourceError
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from tests.web.conftest import HOME

from porism.web.app import create_app
from porism.web.context import ServerContext
from porism.web.safety import LARGEST_JSON, POLICY, Safety
from porism.web.settings import ServerSettings

CHECK = {"ids": ["000-24"]}
ANSWERS: tuple[Callable[[TestClient], object], ...] = (
    lambda client: client.get("/"),
    lambda client: client.get("/api/runs"),
    lambda client: client.get("/api/nothing"),
    lambda client: client.get("/static/0/nothing"),
    lambda client: client.post("/api/claims/check", json={"ids": []}),
    lambda client: client.get("/api/runs", headers={"host": "evil.example"}),
)


@pytest.mark.parametrize("ask", ANSWERS)
def test_every_answer_limits_the_browser(client: TestClient, ask: Callable[[TestClient], object]) -> None:
    headers = ask(client).headers  # type: ignore[attr-defined]
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8765", "[::2]", ""])
def test_a_foreign_host_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/runs", headers={"host": host})
    assert (answer.status_code, answer.json()["code"]) == (400, "host")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8765", "LOCALHOST", "[::1]:8765"])
def test_this_machine_is_known_by_three_names(client: TestClient, host: str) -> None:
    assert client.get("/api/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "http://evil.example"},
    ],
)
def test_another_page_makes_no_job(client: TestClient, context: ServerContext, headers: dict[str, str]) -> None:
    before = len(context.jobs.listed())
    for answer in (
        client.post("/api/claims/check", json=CHECK, headers=headers),
        client.delete("/api/jobs/none", headers=headers),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "origin")
    assert len(context.jobs.listed()) == before


@pytest.mark.parametrize("headers", [{}, {"sec-fetch-site": "same-origin"}, {"origin": HOME}])
def test_this_page_and_scripts_may_ask(client: TestClient, headers: dict[str, str]) -> None:
    # A claim that is not there: it has come past all checks, and makes no job.
    assert client.post("/api/claims/check", json={"ids": ["nope"]}, headers=headers).status_code == 404


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "", "text/plain; application/json"],
)
def test_what_a_form_can_send_is_not_read(client: TestClient, kind: str) -> None:
    answer = client.post("/api/claims/check", content=b'{"ids": ["000-24"]}', headers={"content-type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "media_type")


def test_a_body_that_is_too_long_is_refused_while_it_is_read(client: TestClient) -> None:
    read = 0

    def body() -> Iterator[bytes]:
        nonlocal read
        while read < 10 * LARGEST_JSON:
            read += 100_000
            yield b" " * 100_000

    answer = client.post("/api/claims/check", content=body(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.fixture(scope="module")
def locked(trained: Path) -> Iterator[TestClient]:
    settings = ServerSettings(runs=trained, host="0.0.0.0", port=8765, token="right-token")
    with TestClient(create_app(settings), base_url="http://192.168.1.5:8765", follow_redirects=False) as client:
        yield client


def test_bound_elsewhere_a_token_is_needed(locked: TestClient) -> None:
    for answer in (
        locked.get("/api/runs"),
        locked.get("/?token=wrong"),
        locked.get("/api/runs", headers={"cookie": "porism_8765=wrong"}),
        locked.get("/api/runs", headers={"cookie": "porism_9000=right-token"}),
        locked.post("/api/claims/check?token=right-token", json={"ids": ["nope"]}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (401, "token")


BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/", "/cost?of=taylor", "/?token=wrong", "/api/runs"])
def test_in_a_browser_a_missing_token_is_a_page(locked: TestClient, path: str) -> None:
    answer = locked.get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert "<h1>This server needs a token.</h1>\n<p>Open the link that porism serve printed.</p>" in answer.text
    # No style sheet and no script: those need the token too.
    assert not any(tag in answer.text for tag in ("<link", "<script", "<style", "right-token"))
    assert (answer.headers["vary"], answer.headers["content-security-policy"]) == ("Accept", POLICY)


def test_in_a_browser_a_foreign_name_is_a_page(client: TestClient) -> None:
    answer = client.get("/", headers={**BROWSER, "host": "evil.example"})
    assert answer.status_code == 400
    assert "<h1>This server answers to 127.0.0.1 and localhost only.</h1>" in answer.text


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/event-stream", ""])
def test_scripts_without_a_token_are_refused_in_json(locked: TestClient, accept: str) -> None:
    assert locked.get("/api/runs", headers={"accept": accept}).json()["code"] == "token"
    assert locked.post("/api/claims/check", json={}, headers=BROWSER).json()["code"] == "token"


def test_the_link_is_exchanged_for_a_cookie(locked: TestClient) -> None:
    answer = locked.get("/cost?of=taylor&token=right-token")
    assert (answer.status_code, answer.headers["location"]) == (303, "/cost?of=taylor")
    cookie = answer.headers["set-cookie"]
    assert "porism_8765=right-token" in cookie
    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    locked.cookies.clear()
    assert locked.get("/api/runs", headers={"cookie": "porism_8765=right-token"}).status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/"])
def test_the_redirect_leads_to_no_other_server(locked: TestClient, path: str) -> None:
    answer = locked.get(f"http://192.168.1.5:8765{path}?token=right-token")
    locked.cookies.clear()
    assert answer.headers["location"].startswith("/evil.example")


def test_what_a_browser_has_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/api/claims")
    again = client.get("/api/claims", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/api/claims", headers={"if-none-match": 'W/"other"'}).status_code == 200


def test_a_fault_of_ours_is_told_in_the_same_form(
    client: TestClient, context: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(context.runs, "listed", fail)
    unraised = TestClient(client.app, base_url=HOME, raise_server_exceptions=False)
    answer = unraised.get("/api/runs")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize(
    ("error", "is_left"),
    [
        (BrokenResourceError(), True),
        (ExceptionGroup("", [BrokenResourceError(), ExceptionGroup("", [BrokenResourceError()])]), True),
        (ExceptionGroup("", [BrokenResourceError(), ZeroDivisionError()]), False),
        (ZeroDivisionError(), False),
    ],
    ids=["left", "left in groups", "both", "a fault"],
)
def test_a_reader_who_leaves_a_stream_is_no_fault(error: Exception, is_left: bool, tmp_path: Path) -> None:
    """Closing a page would print the trace of an error on the server's terminal otherwise."""

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    client = TestClient(Safety(stream, ServerSettings(runs=tmp_path)), base_url=HOME)
    with nullcontext() if is_left else pytest.raises(type(error)):
        client.get("/api/events")
