"""An address that is no room is a page that names the rooms; what scripts ask for is refused in JSON."""

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from porism.web.missing import MOST_LETTERS
from porism.web.safety import POLICY

ROOMS = ("/cost", "/patterns", "/models", "/compare", "/ledger")


@pytest.mark.parametrize("path", ["/nowhere", "/cost/x", "/apix", "/statics", "/docs", "/../etc/passwd", "/%2e%2e/x"])
def test_an_unknown_address_names_the_rooms(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no page at /" in answer.text
    assert all(f'<dt><a href="{room}">' in answer.text for room in ROOMS)
    assert answer.headers["content-security-policy"] == POLICY


def test_what_an_address_holds_stays_text_and_is_cut(client: TestClient) -> None:
    answer = client.get("/<script>alert(1)</script>" + 2000 * "x")
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text
    assert "x" * (MOST_LETTERS + 1) not in answer.text


@pytest.mark.parametrize("path", ["/api", "/api/nothing", "/static/0/nothing", "/static"])
def test_scripts_are_refused_in_json(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["message"]


def test_a_method_that_no_room_has_is_refused_in_json(client: TestClient) -> None:
    assert client.post("/nowhere", json={}).json()["code"] == "not_found"
    assert client.post("/cost", json={}).json()["code"] == "method"
