"""A stand-in for the predict worker, which answers nothing."""

from typing import Any

from porism.web.processes import process
from porism.web.processes.process import JobStep, serve


def answer(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    step.check()
    return {}


def main() -> int:
    process._be_considerate = lambda: None  # it would import torch
    return serve({"predict": answer, "patterns": answer})
