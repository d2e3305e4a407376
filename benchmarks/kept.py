"""Results as JSON, part by part, so that a benchmark can be stopped, resumed and split.

    kept = Kept(out, machine(device, packages=["gensim"]), settings={"heads": 16}, resume=False)
    kept.part("T=2048", lambda: measure(2048))

A part that is there is never measured again: parts are made anew all together, or not at all.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from porism.files import write_atomically
from porism.training.device import hardware, versions

RULES = 2
"""Results of another number, or of none, were made under other rules: README.md says so above their tables."""


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
    """The result of a benchmark: machine, settings, and parts by name."""

    def __init__(self, out: Path, made_on: dict[str, Any], settings: dict[str, Any], resume: bool) -> None:
        self.out = out
        self.result: dict[str, Any] = {"rules": RULES, **made_on, "settings": settings, "parts": {}}
        if not (resume and out.exists()):
            return
        there = json.loads(out.read_text())
        for name in ("rules", "hardware", "versions", "settings"):
            if there.get(name) != json.loads(json.dumps(self.result[name])):
                sys.exit(
                    f"{out} has {name} {there.get(name)}, this run {self.result[name]}. "
                    "Leave --resume out, which measures all anew, or give another --out."
                )
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
