"""porism evaluate: measure a trained model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from porism.cli.options import Json, optional


@dataclass(kw_only=True)
class EvaluateCommand:
    """Measure a run's best model on a split. Nothing is updated: twice gives the same number.

    $ porism evaluate runs/language-elman
    $ porism evaluate runs/language-elman --split valid --json
    """

    folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder that porism train printed."""
    split: Annotated[str, arg(metavar="train|valid|test")] = "test"
    """What to measure on."""
    device: Annotated[str | None, optional("auto|cpu|cuda", str)] = None
    """Left out: where it was trained, else the CPU."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        import time

        import torch

        from porism.cli.output import console_for, print_json, tell
        from porism.runs.run import RunFolder
        from porism.tasks import find
        from porism.training.device import choose_device
        from porism.training.loop import evaluate
        from porism.training.progress import ConsoleProgress
        from porism.training.session import best_checkpoint, count_parameters, load_task, trained_model

        console = console_for(self.json)
        run = RunFolder.open(self.folder)
        requested = self.device or ("cpu" if not torch.cuda.is_available() else run.facts.device)
        device = choose_device(requested)
        task = load_task(find(run.facts.task), run)
        model = trained_model(task, best_checkpoint(run, ConsoleProgress(console)), device)
        start = time.monotonic()
        metrics = evaluate(task, model, self.split)
        seconds = time.monotonic() - start
        for name, value in metrics.items():
            tell(console, f"{self.split} {name.replace('_', ' ')}: {value:.4f}")
        if self.json:
            before = run.metrics() or {}
            rate = f"{task.unit}_per_second"
            print_json(
                {
                    "task": run.facts.task,
                    "recipe": run.facts.recipe,
                    "run": str(run.path),
                    "seed": run.facts.seed,
                    "device": str(device),
                    "parameters": count_parameters(model),
                    "epochs": before.get("epochs"),
                    "seconds": round(seconds, 3),
                    rate: before.get(rate),
                    "metrics": {self.split: metrics},
                }
            )
        return 0
