"""How quick is the page, and how does its server bear many readers at once?

    python benchmarks/page.py                        two minutes; needs chromium for the page itself
    python benchmarks/page.py --seconds 10 --clients 8

No peer: budgets. The server is started as `porism serve` starts it, on loopback. Then
- the first answer: seconds from the command to the first page,
- the page in a browser: bytes and requests of a first load of the cost room, when its headline is painted, and how long
  a slider takes to the new curve (median of 50),
- load: clients that ask for costs without a pause, listen to events and let a model generate, for so many seconds; half
  way the process that generates is killed.

Each figure that has a budget is printed with it and with pass or MISS; one miss, and it leaves with 1. Seconds of the
server's processor stand beside those of the clock, which a busy machine lengthens.
"""

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import tyro

BUDGETS = {
    "first answer, s": 3.0,
    "first load, kB": 90.0,
    "first load compressed, kB": 30.0,
    "requests": 10,
    "headline painted, s": 1.0,
    "slider to curve, ms": 16.0,
    "cost at p95, ms": 300.0,
    "memory growth, %": 10.0,
    "errors": 0,
}
RUN = "elman"
SLIDE = """() => {
    const slider = document.getElementById("slide-T"), times = [];
    for (let i = 0; i < 60; i++) {
        slider.value = 2 + (i % 12);
        const began = performance.now();
        slider.dispatchEvent(new Event("input"));
        document.body.getBoundingClientRect();
        if (i >= 10) times.push(performance.now() - began);
    }
    return times;
}"""
PAINTED = """() => new Promise((done) => new PerformanceObserver((list) => done(list.getEntries().at(-1).startTime))
    .observe({ type: "largest-contentful-paint", buffered: true }))"""


@contextmanager
def server(runs: Path) -> Iterator[tuple[int, int, float]]:
    """Port and process of a server, and the seconds until its first answer."""
    began = time.monotonic()
    command = [sys.executable, "-m", "porism", "serve", "--port", "0", "--runs", str(runs), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            port = json.loads(process.stdout.readline())["port"]
            request(port, "GET", "/")
            yield port, process.pid, time.monotonic() - began
        finally:
            process.send_signal(signal.SIGINT)


def request(port: int, method: str, path: str, body: Any = None, timeout: float = 60) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    is_json = answer.headers.get("Content-Type", "").startswith("application/json")
    return answer.status, json.loads(content) if is_json else content


def in_browser(port: int) -> dict[str, float]:
    """The cost room as a browser has it."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("page.py needs chromium to open the page in.")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page, sizes = browser.new_page(), []

        def add(answer: Any) -> None:
            found = answer.request.sizes()
            sizes.append((len(answer.body()), found["responseBodySize"] + found["responseHeadersSize"]))

        page.on("requestfinished", lambda one: add(one.response()))
        page.goto(f"http://127.0.0.1:{port}/cost")
        page.wait_for_load_state("networkidle")
        painted = page.evaluate(PAINTED)
        slides = page.evaluate(SLIDE)
        browser.close()
    return {
        "first load, kB": sum(raw for raw, _ in sizes) / 1000,
        "first load compressed, kB": sum(sent for _, sent in sizes) / 1000,
        "requests": len(sizes),
        "headline painted, s": painted / 1000,
        "slider to curve, ms": statistics.median(slides),
    }


@dataclass
class Load:
    """Clients of a server, and what they met."""

    port: int
    end: float
    costs: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    generated: int = 0
    events: int = 0

    def guarded(self, client: Callable[[int], None], seed: int) -> None:
        try:
            while time.monotonic() < self.end:
                client(seed)
        except Exception as error:  # whatever a client meets is an error of the server here
            self.errors.append(f"{client.__name__}: {type(error).__name__}: {error}")

    def ask_costs(self, seed: int) -> None:
        draw = random.Random(seed + len(self.costs))
        of = ",".join(draw.sample(["attention", "window", "taylor", "hybrid", "elman", "gcn"], 2))
        began = time.monotonic()
        status, _ = request(
            self.port, "GET", f"/api/cost/value?of={of}&at=B:{draw.randint(1, 64)},T:{draw.randint(1, 9999)}"
        )
        self.costs.append(time.monotonic() - began)
        if status != 200:
            self.errors.append(f"cost: {status}")

    def listen(self, seed: int) -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", f"/api/events?runs=*,{RUN}")
        answer = connection.getresponse()
        while time.monotonic() < self.end and answer.readline():
            self.events += 1
        connection.close()

    def generate(self, seed: int) -> None:
        body = {"run": RUN, "input": "the value", "options": {"max_new_tokens": 40}, "seed": seed + self.generated}
        status, job = request(self.port, "POST", "/api/predict", body)
        while status in (200, 202) and job["state"] in ("queued", "running"):
            time.sleep(0.1)
            status, job = request(self.port, "GET", f"/api/jobs/{job['job']}")
        if status == 429:
            time.sleep(0.5)
        elif status not in (200, 202):
            self.errors.append(f"generate: {status} {job}")
        elif job["state"] == "done":
            self.generated += 1
        elif job.get("error", {}).get("code") == "worker_died":
            self.lost.append(job["error"]["message"])
        else:
            self.errors.append(f"generate: {job['state']} {job.get('error')}")


def memory_of(process: int) -> float:
    """MB that a process holds."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_of(process: int) -> float:
    """Seconds of the processor that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kill_generator(server_process: int) -> None:
    """Kill the process that generates."""
    for child in Path(f"/proc/{server_process}/task/{server_process}/children").read_text().split():
        if b"porism.web.processes.predict" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), signal.SIGKILL)
            return
    sys.exit("page.py found no process that generates, to kill it.")


def under_load(port: int, process: int, clients: int, seconds: float) -> dict[str, float]:
    """What happens while clients of three kinds ask."""
    load, cpu = Load(port, time.monotonic() + seconds), cpu_of(process)
    listeners, generators = max(1, clients // 10), max(1, clients // 10)
    kinds = [load.listen] * listeners + [load.generate] * generators
    kinds += [load.ask_costs] * (clients - len(kinds))
    threads = [threading.Thread(target=load.guarded, args=(kind, number)) for number, kind in enumerate(kinds)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 2)
    before, generated = memory_of(process), load.generated
    kill_generator(process)
    for thread in threads:
        thread.join()
    if load.generated == generated:
        load.errors.append("nothing was generated after the process was killed")
    if not load.lost:
        load.errors.append("no job says that its process was killed")
    for error in load.errors[:5]:
        print(f"  {error}", file=sys.stderr)
    costs = sorted(load.costs)
    return {
        "clients": clients,
        "cost queries a second": len(costs) / seconds,
        "cost at p50, ms": 1000 * costs[len(costs) // 2],
        "server, ms of CPU a cost query": 1000 * (cpu_of(process) - cpu) / len(costs),
        "cost at p95, ms": 1000 * costs[int(0.95 * len(costs))],
        "texts generated": load.generated,
        "events": load.events,
        "memory, MB": memory_of(process),
        "memory growth, %": 100 * (memory_of(process) / before - 1),
        "errors": len(load.errors),
    }


def main(clients: int = 50, seconds: float = 60) -> int:
    """Measure the page.

    clients: those of the load: a tenth listens to events, a tenth generates, the rest asks for costs.
    """
    with tempfile.TemporaryDirectory() as folder:
        train = ["train", "language", "elman", "--epochs", "1", "--no-baselines", "--out", f"{folder}/{RUN}", "--quiet"]
        subprocess.run([sys.executable, "-m", "porism", *train], check=True, stdout=subprocess.DEVNULL)
        with server(Path(folder)) as (port, process, first):
            found = {"first answer, s": first, "first answer, s of CPU": cpu_of(process)}
            found |= in_browser(port) | under_load(port, process, clients, seconds)
    return told(found)


def told(found: dict[str, float]) -> int:
    """Print all figures, each with its budget and whether it is kept; 1 where one is not, or was not measured."""
    missed = [name for name, budget in BUDGETS.items() if not found.get(name, float("nan")) <= budget]
    for name, value in found.items():
        verdict = f"   at most {BUDGETS[name]:<5g}{'MISS' if name in missed else 'pass'}" if name in BUDGETS else ""
        print(f"{name:32} {value:10.4g}{verdict}")
    kept = f"{len(BUDGETS) - len(missed)} of {len(BUDGETS)} budgets kept"
    print(f"{kept}; missed: {', '.join(missed)}" if missed else kept)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
