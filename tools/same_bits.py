"""Starts one training many times, each in a process of its own, and holds the bits of what came out against each other.

python tools/same_bits.py                                     # every task, 20 starts each with 1 and with 2 threads
python tools/same_bits.py language words --starts 5 --threads 2

A training is the first batches of two epochs of a small recipe, with validation after each. What is compared: the
parameters, the state of the optimizer and all of valid, by their sha256. Ends with 1 where two starts differ.
Words on several threads differ by default, which their run says; here they are trained with deterministic=true.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "language": ("elman", {"hidden_size": 32, "embedding_dim": 32}),
    "images": ("convolutional", {}),
    "graphs": ("gcn", {}),
    "speech": ("lstm", {"hidden_size": 32}),
    "words": ("small", {"deterministic": True}),
    "sentiment": ("attention", {"hidden_size": 32, "num_heads": 2}),
    "supervised": ("mlp", {}),
}
"""The recipe of each task, and fields that make it smaller."""
BATCHES = 10
"""Of an epoch."""


def bits(task: str, threads: int) -> str:
    """The sha256 of what one training leaves."""
    import torch

    from porism.runs.recipe import with_fields
    from porism.runs.record import read_run
    from porism.tasks import find
    from porism.training.request import TrainingRequest
    from porism.training.session import begin

    kind, (name, fields) = find(task), SMALL[task]
    validations = kind.recipes[name].check_val_every_n_epoch

    def batches(self: Any, epoch: int, seed: int) -> list[Any]:
        whole = kind.batches(self, epoch, seed)
        return [whole[index] for index in range(min(len(whole), BATCHES * validations))]

    recipe = with_fields(kind.recipes[name], {**fields, "epochs": 2 * validations})
    with tempfile.TemporaryDirectory() as folder:
        short = type(kind.__name__, (kind,), {"batches": batches})
        request = TrainingRequest(short, recipe, seed=1, device="cpu", threads=threads)
        training = begin(request, Path(folder) / "run")
        training.fit()
        found = hashlib.sha256()
        valid = [epoch.valid for epoch in read_run(training.run.path).epochs]
        found.update(json.dumps(valid, sort_keys=True).encode())
        state = [*training.model.state_dict().values()]
        state += [x for slot in training.optimizer.state.values() for x in slot.values() if isinstance(x, torch.Tensor)]
        for x in state:
            found.update(x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def starts(task: str, threads: int, count: int) -> Counter[str]:
    """How often each outcome came of `count` starts."""
    command = [sys.executable, __file__, task, "--threads", str(threads), "--one"]
    found = (subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(count))
    return Counter(
        run.stdout.strip() if run.returncode == 0 else f"failed: {run.stderr.strip()[-300:]}" for run in found
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(SMALL)}; left out: all")
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--one", action="store_true", help="train once, here, and print the sha256")
    given = parser.parse_args(arguments)
    if unknown := [task for task in given.tasks if task not in SMALL]:
        parser.error(f"there is no task {unknown[0]!r}, expected {', '.join(SMALL)}")
    if given.one:
        print(bits(given.tasks[0], given.threads[0]))
        return 0
    same = True
    for task in given.tasks or SMALL:
        for threads in given.threads:
            began = time.monotonic()
            found = starts(task, threads, given.starts)
            alike = len(found) == 1 and not next(iter(found)).startswith("failed")
            same = same and alike
            verdict = "identical" if alike else f"{len(found)} outcomes: {dict(found)}"
            print(
                f"{task} {SMALL[task][0]}, {threads} threads, {given.starts} starts: {verdict} "
                f"({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
