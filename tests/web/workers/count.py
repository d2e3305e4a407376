"""A stand-in for the count worker, whose jobs do as they are told."""

import os
import signal
import time
from typing import Any

from porism.errors import RecipeError
from porism.web.processes import process
from porism.web.processes.process import JobStep, serve


def derive(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    match payload["arguments"].split():
        case ["answer"]:
            step.progress(1, 2, "halves")
            step.part(text="one")
            step.part(text="two")
            return {"process": os.getpid(), "niceness": os.nice(0), "nan": float("nan")}
        case ["patiently"]:
            while True:
                step.check()
                time.sleep(0.01)
        case ["deaf"]:
            time.sleep(600)
        case ["die"]:
            os.kill(os.getpid(), signal.SIGKILL)
        case ["print"]:
            print("printed by the code of a user")
            os.write(1, b"and past Python")
            return {}
        case ["refuse"]:
            raise RecipeError("epochs=0 cannot be. Use 1.")
    raise ZeroDivisionError("of a user")


def main() -> int:
    # This worker has no use for torch, which takes the time of all these tests to import.
    process._be_considerate = lambda: None  # it would import torch
    return serve({"derive": derive})
