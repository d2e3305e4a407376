"""HEAD answers as GET does, without a body."""

import http.client
import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from porism.web.server import PageServer
from porism.web.settings import ServerSettings

if TYPE_CHECKING:
    from starlette.testclient import TestClient


@pytest.mark.parametrize("address", ["/", "/cost", "/runs", "/api/runs", "/static/page.css", "/no-such-page"])
def test_head_is_get_without_its_body(client: "TestClient", address: str) -> None:
    whole, head = client.get(address), client.head(address)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    for name in ("content-type", "content-length", "etag", "content-security-policy"):
        assert head.headers.get(name) == whole.headers.get(name)


def test_head_of_what_takes_no_get_is_refused(client: "TestClient") -> None:
    assert client.head("/api/jobs/1/stop").status_code in (404, 405)


def test_head_of_a_stream_of_events_ends(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    server = PageServer(ServerSettings(runs=tmp_path, port=port))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        with closing(http.client.HTTPConnection(host, port, timeout=60)) as connection:
            # The second asks whether the connection is free again: a stream that still ran would hold it.
            for address in ("/api/events", "/"):
                connection.request("HEAD", address)
                with connection.getresponse() as answer:
                    assert (answer.status, answer.read()) == (200, b"")
    finally:
        server.should_exit = True
        thread.join(timeout=60)
