"""porism evaluate: measure a trained model."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from porism.cli.limits import check_path
from porism.cli.options import Json, optional
from porism.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(kw_only=True)
class EvaluateCommand:
    """Measure the best models of runs on a split. Nothing is updated: twice gives the same number.

    $ porism evaluate runs/language-elman
    $ porism evaluate runs/language-elman runs/language-lstm --split valid --json
    $ porism evaluate runs/language-elman --data other.txt      on other data, with the run's own vocabulary
    """

    folders: Annotated[Positional[list[Path]], arg(metavar="RUN...")]
    """The folders that porism train printed."""
    split: Annotated[str, arg(metavar="train|valid|test")] = "test"
    """What to measure on."""
    data: Annotated[str | None, optional("PATH|NAME", str)] = None
    """Other data than the run's own: a file, a folder or a known name (see porism data)."""
    device: Annotated[str | None, optional("auto|cpu|cuda", str)] = None
    """Left out: where it was trained, else the CPU."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error: that of one run, or `runs`."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json

        if not self.folders:
            raise RunError(
                "which runs? Give one or more folders that porism train printed. See porism evaluate --help."
            )
        if self.data is not None:
            check_path(self.data)
        console = console_for(self.json)
        results = [self._evaluated(folder, console) for folder in self.folders]
        if self.json:
            print_json(results[0] if len(results) == 1 else {"runs": results})
        return 0

    def _evaluated(self, folder: Path, console: "Console") -> dict[str, Any]:
        import time

        import torch

        from porism.api.run import Run
        from porism.cli.output import tell
        from porism.runs.run import RunFolder
        from porism.tasks import find
        from porism.training.device import choose_device
        from porism.training.loop import evaluate
        from porism.training.progress import ConsoleProgress
        from porism.training.session import best_checkpoint, count_parameters, load_task, restore_task, trained_model

        run = RunFolder.open(folder)
        device = choose_device(self.device or ("cpu" if not torch.cuda.is_available() else run.facts.device))
        saved = best_checkpoint(run, ConsoleProgress(console))
        kind = find(run.facts.task)
        task = load_task(kind, run) if self.data is None else restore_task(kind, run, saved)
        model = trained_model(task, saved, device)
        start = time.monotonic()
        if self.data is None:
            metrics = evaluate(task, model, self.split)
        else:
            metrics = Run(folder, device=str(device)).evaluate(self.data, split=self.split)
        seconds = time.monotonic() - start
        which = f"{folder} " if len(self.folders) > 1 else ""
        for name, value in metrics.items():
            tell(console, f"{which}{self.split} {name.replace('_', ' ')}: {value:.4f}")
        before = run.metrics() or {}
        rate = f"{task.unit}_per_second"
        return {
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
            **({} if self.data is None else {"data": self.data}),
        }
