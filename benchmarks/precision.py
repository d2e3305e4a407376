"""Does a CPU with matrix units for bf16 (AMX) train each recipe in the faster type?

    python benchmarks/precision.py                                  the recipes below, on one thread
    python benchmarks/precision.py --recipes language/lstm --turns 40

A recipe's training steps on the embedded data in fp32 and in bf16 take turns, from the same start and on the same
batches. What `precision=auto` takes stands beside the times, which are what one thread worked.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
import tyro

from kept import Kept, machine, result_of
from porism.runs.recipe import override
from porism.tasks import find
from porism.training import optimizer
from porism.training.device import choose_precision, cpu_has_amx
from porism.training.request import NO_OBJECTS
from porism.training.session import prepare
from porism.training.step import EagerStep
from porism.training.task import Batch, Task
from turns import in_turns, spread, times_faster, worked

MEASURES = ("training/step.py", "training/device.py", "layers/readout", "tasks/language/model", "tasks/speech/model")
CPU = torch.device("cpu")
RECIPES = (
    "language/elman",
    "language/lstm",
    "language/elman-tied",
    "language/lstm-tied",
    "language/attention",
    "language/attention-tied",
    "language/taylor",
    "language/attention hidden_size=256 embedding_dim=256",
    "language/attention hidden_size=384 embedding_dim=384",
    "language/attention hidden_size=512 embedding_dim=512",
    "language/table-02",
    "language/table-12",
    "images/grid-4",
    "images/convolutional",
    "images/pooled",
    "images/complete",
    "sentiment/attention",
    "speech/joint",
    "speech/lstm",
    "supervised/mlp",
    "graphs/gcn",
)


def training(task: Task, precision: str) -> Callable[[], None]:
    """A step of the recipe, each time on the next batch."""
    torch.manual_seed(1)
    model = task.new_model().train()
    made = optimizer.make(task.recipe, task.trained_parameters(model), CPU)
    step = EagerStep(task, model, made, CPU, precision)

    def batches() -> Iterator[Batch]:
        for epoch in count(1):
            yield from task.batches(epoch, 1)

    at, carry = batches(), task.start(model)

    def advance() -> None:
        nonlocal carry
        _, carry = step(next(at), carry)

    return advance


def measured(spec: str, turns: int) -> dict[str, Any]:
    """A recipe, by its name and the fields that are set in it."""
    name, *fields = spec.split()
    kind = find(name.partition("/")[0])
    recipe = override(kind.recipes[name.partition("/")[2]], fields)
    task = prepare(kind, recipe, None, NO_OBJECTS)
    times = in_turns({p: training(task, p) for p in ("fp32", "bf16")}, turns, warm_up=3, clock=worked)
    return {
        "recipe": spec,
        "milliseconds": {p: spread(found) for p, found in times.items()},
        "times_faster": times_faster(times["bf16"], times["fp32"]),
        "chosen": choose_precision(recipe, CPU),
    }


def main(recipes: tuple[str, ...] = RECIPES, turns: int = 25, resume: bool = False, out: Path | None = None) -> None:
    """Measure, print and keep.

    recipes: task/recipe, with fields that are set after it.
    turns: steps of each type.
    resume: keep the parts that the result has, and measure the others.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    if not cpu_has_amx():
        raise SystemExit("This CPU has no matrix units for bf16 (AMX): it trains in fp32, whatever the recipe.")
    torch.set_num_threads(1)
    kept = Kept(out or result_of("precision_amx"), machine(CPU), {"turns": turns, "threads": 1}, resume, MEASURES)
    for spec in recipes:
        kept.part(spec, partial(measured, spec, turns))


if __name__ == "__main__":
    tyro.cli(main)
