"""Two machines train one run: two network namespaces of this one, each with an address and a torchrun of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.training.test_distributed import LANGUAGE, alone

PORT = 29400


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def machines() -> Iterator[dict[str, str]]:
    """Two namespaces by name, joined by a cable, with their addresses."""
    if shutil.which("ip") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("needs the command ip, and root, to make two network namespaces")
    names = [f"porism{os.getpid()}{end}" for end in "ab"]
    third = os.getpid() % 250
    addresses = dict(zip(names, [f"10.231.{third}.1", f"10.231.{third}.2"], strict=True))
    try:
        try:
            for name in names:
                ip("netns", "add", name)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespace can be made here: {error.stderr.strip()}")
        ip("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in addresses.items():
            ip("-n", name, "address", "add", f"{address}/30", "dev", "cable")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "cable", "up")
        yield addresses
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def start(machines: dict[str, str], name: str, words: list[str]) -> subprocess.Popen[bytes]:
    first = next(iter(machines))
    torchrun = [
        *("ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "1", "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", f"{machines[first]}:{PORT}", "--rdzv-conf", f"is_host={int(name == first)}"),
        *("--local-addr", machines[name], "-m", "porism"),
    ]
    # A namespace has no name service, by which gloo would find the address of this machine.
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "cable", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([*torchrun, *words], env=environment)


def workers_of(agent: subprocess.Popen[bytes]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()]


@pytest.mark.sweep(0)
def test_two_machines_train_as_one_process_does_and_one_that_loses_its_process_comes_back(
    machines: dict[str, str], text: str, tmp_path: Path
) -> None:
    words = [*LANGUAGE, "--data", text, "--epochs", "8", "--checkpoint-every", "0", "--out", str(tmp_path / "run")]
    agents = [start(machines, name, words) for name in machines]
    try:
        while not (tmp_path / "run" / "last").is_dir():
            assert [agent.poll() for agent in agents] == [None, None]
            time.sleep(0.05)
        # That of the machine without rank 0, which holds the lock.
        leader = int((tmp_path / "run" / ".lock").read_text().split()[1])
        (follower,) = (pid for agent in agents for pid in workers_of(agent) if pid != leader)
        os.kill(follower, signal.SIGKILL)
        assert [agent.wait(timeout=300) for agent in agents] == [0, 0]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events if event["event"] in ("start", "resume", "finish")] == [
        *("start", "resume", "finish")
    ]
    alone([*words[:-1], str(tmp_path / "one")])
    one, two = (json.loads((tmp_path / name / "metrics.json").read_text())["metrics"] for name in ("one", "run"))
    assert two["test"] == pytest.approx(one["test"], rel=1e-4)
