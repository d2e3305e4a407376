"""Results as JSON, part by part, so that a benchmark can be stopped, resumed and split.

    kept = Kept(out, machine(device, packages=["gensim"]), {"heads": 16}, resume=False, measures=MEASURES)
    kept.part("T=2048", lambda: measure(2048))

A part that is there is never measured again: parts are made anew all together, or not at all.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from porism.files import write_atomically
from porism.training.device import hardware, versions
from sources import checksums

RULES = 2
"""Results of another number, or of none, were made under other rules: README.md says so above their tables."""


RESULTS = Path(__file__).parent / "results"
KINDS = {"aarch64": "arm", "arm64": "arm", "x86_64": "x86", "amd64": "x86"}
"""What processors call themselves, and what their results are named by."""


def result_of(name: str, device: str = "cpu") -> Path:
    """Where a benchmark that runs on several kinds of machine keeps its result: in a file for each kind.

    >>> result_of("grid", "cuda").name
    'grid_cuda.json'
    """
    processor = platform.machine().lower()
    return RESULTS / f"{name}_{KINDS.get(processor, processor) if device == 'cpu' else device}.json"


def machine(device: torch.device, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Hardware, how busy it was, and versions, of the packages among them (None: not installed)."""
    found = hardware(device)
    if found["gpu"]:
        found |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    return {
        "hardware": found | {"cpu": _cpu_model(found["cpu"])},
        "versions": {**versions(), **{name: _version(name) for name in packages}},
        "load": round(os.getloadavg()[0], 2),
    }


class Kept:
    """The result of a benchmark: machine, settings, the code that it measures, and parts by name.

    measures: files and folders of the package whose code the numbers are of. recipes: the settings of those that are
    trained.
    """

    def __init__(
        self,
        out: Path,
        made_on: dict[str, Any],
        settings: dict[str, Any],
        resume: bool,
        measures: Sequence[str],
        recipes: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.out = out
        sources = checksums(measures, "cuda" if made_on["hardware"]["gpu"] else "cpu")
        self.result: dict[str, Any] = {"rules": RULES, **made_on, "settings": settings, "sources": sources}
        if recipes is not None:
            self.result["recipes"] = recipes
        self.result["parts"] = {}
        if not (resume and out.exists()):
            return
        there = json.loads(out.read_text())
        for name in ("rules", "hardware", "versions", "settings"):
            if there.get(name) != json.loads(json.dumps(self.result[name])):
                sys.exit(
                    f"{out} has {name} {there.get(name)}, this run {self.result[name]}. "
                    "Leave --resume out, which measures all anew, or give another --out."
                )
        for name, what in (("sources", "code"), ("recipes", "settings of recipes")):
            if there.get(name) != self.result.get(name):
                sys.exit(f"{out} was measured with other {what}. Leave --resume out, which measures all anew.")
        self.result = there

    def part(self, name: str, measure: Callable[[], Any]) -> Any:
        """What is kept under that name, or measured now, printed and kept."""
        parts = self.result["parts"]
        if name not in parts:
            parts[name] = measure()
            print(json.dumps({name: parts[name]}), flush=True)
            self.write()
        return parts[name]

    def write(self) -> None:
        self.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.out, (json.dumps(self.result, indent=1, ensure_ascii=False) + "\n").encode())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model(name: str) -> str:
    """ARM's kernels do not say in /proc/cpuinfo what lscpu knows."""
    try:
        lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return name
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    model = found.get("Model name", name).strip()
    return name if model in ("", "-") else model
