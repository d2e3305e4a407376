"""The server ends at once, and leaves no browser waiting for an answer."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from porism.web import server as page_server
from porism.web.server import PageServer
from porism.web.settings import ServerSettings


def test_a_connection_that_came_as_the_server_ended_is_closed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "GRACE", 1)
    listener = socket.create_server(("127.0.0.1", 0))
    server = PageServer(ServerSettings(runs=tmp_path, port=listener.getsockname()[1]))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    with socket.create_connection(listener.getsockname(), timeout=60) as late:
        limit = time.monotonic() + 60
        while not server.server_state.connections:
            assert time.monotonic() < limit, "the server does not start"
            time.sleep(0.01)
        for connection in server.server_state.connections:
            monkeypatch.setattr(connection, "shutdown", lambda: None)  # as one that is accepted a moment later
        server.should_exit = True
        thread.join(timeout=60)
        with suppress(ConnectionResetError):  # closed as well
            assert late.recv(1) == b""
