"""A stand-in for the check worker, which decides nothing."""

from typing import Any

from porism.web.processes import process
from porism.web.processes.process import JobStep, serve


def check(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    step.check()
    return {"claims": []}


def main() -> int:
    process._be_considerate = lambda: None  # it would import torch
    return serve({"check": check})
