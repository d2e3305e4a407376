"""porism serve: it says where the page is, answers soon, and ends at Ctrl-C."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from tests.cli.conftest import Say

from porism.cli import serve

SOON = 3.0
"""Seconds in which it must answer."""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--port", "70000"], "--port is 70000, expected 0 to 65535"),
        (["--allow", "torch.nn"], "--allow takes package.module:Name, got 'torch.nn'"),
        (["--runs", "text.txt"], "text.txt is a file. Name a folder that holds runs."),
        (["--host", "256.0.0.1"], "256.0.0.1:8765 cannot be listened on"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(say: Say, text: Path, words: list[str], why: str) -> None:
    said = say("serve", *words)
    assert said.code == 2
    assert why in said.err
    assert said.err.count("\n") == 1


def test_a_port_that_is_taken_is_named_with_a_way_on(say: Say) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = say("serve", "--port", str(taken.getsockname()[1]))
    assert said.code == 2
    assert "cannot be listened on: Address already in use. Choose another with --port" in said.err


def test_without_its_packages_the_install_line_is_told(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "porism.web.server", raising=False)
    said = say("serve", "--port", "0")
    assert said.code == 2
    assert 'pip install "porism[web]"' in said.err


def test_it_answers_soon_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    server = subprocess.Popen(
        [sys.executable, "-m", "porism", "serve", "--port", "0", "--runs", "none", "--token", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        address, token = told["address"].split("?token=")
        cookie = {"Cookie": f"porism_{told['port']}={token}"}
        with urlopen(Request(f"{address}api/runs", headers=cookie), timeout=60) as answer:
            assert json.load(answer) == []
        # Seconds of the processor, which a busy machine does not lengthen.
        if (status := Path(f"/proc/{server.pid}/stat")).exists():
            fields = status.read_text().rpartition(")")[2].split()
            assert (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") < SOON
        # A page that is open does not keep it from ending.
        with urlopen(Request(f"{address}api/events?runs=*", headers=cookie), timeout=60) as stream:
            assert stream.readline() == b": connected\n"
            server.send_signal(signal.SIGINT)
            _, err = server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0
    assert err.splitlines() == [f"the page is at {told['address']}", "runs of none. Ctrl-C ends it."]


def test_an_answer_does_not_wait_for_the_one_before_it() -> None:
    """asyncio sends at once where a socket says that it is TCP; otherwise each answer waits 40 ms for the last one."""
    delays: list[bool] = []

    async def accept() -> None:
        got = asyncio.Event()

        def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            delays.append(not writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()
            got.set()

        with serve._listening("127.0.0.1", 0) as listener:
            async with await asyncio.start_server(look, sock=listener):
                _, writer = await asyncio.open_connection(*listener.getsockname())
                await got.wait()
                writer.close()

    asyncio.run(accept())
    assert delays == [False]
