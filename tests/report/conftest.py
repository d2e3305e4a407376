"""Made-up runs as training leaves them: a folder with a recipe, events and, where it has finished, metrics."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

WriteRun = Callable[..., Path]


def epoch(number: int, valid: float, best: bool = True, step: int = 363) -> dict[str, Any]:
    """The event of one epoch, which took ten seconds."""
    return {
        "event": "epoch",
        "time": 1_772_000_000.0 + 10 * number,
        "epoch": number,
        "step": step,
        "learning_rate": 0.001,
        "seconds": 10.0,
        "train": {"perplexity": 0.7 * valid, "cross_entropy": math.log(0.7 * valid)},
        "valid": {"perplexity": valid, "cross_entropy": math.log(valid)},
        "best": best,
    }


def start(command: str = "porism train language table-02 --seed 1") -> dict[str, Any]:
    return {"event": "start", "time": 1_772_000_000.0, "command": command}


def metrics(test: float = 154.92, **changes: Any) -> dict[str, Any]:
    """What metrics.json says of a run that came to this test perplexity."""
    terms = {
        "input": {"formula": "2*D*H", "value": 10_000},
        "recurrent": {"formula": "2*H**2", "value": 20_000},
    }
    return {
        "task": "language",
        "recipe": "table-02",
        "run": "runs/table-02",
        "seed": 1,
        "device": "cpu",
        "parameters": 1_525_100,
        "epochs": 3,
        "best_epoch": 2,
        "seconds": 192.0,
        "tokens_per_second": 21_291.4,
        "metrics": {
            "train": {"perplexity": 0.7 * test, "cross_entropy": math.log(0.7 * test)},
            "valid": {"perplexity": 1.1 * test, "cross_entropy": math.log(1.1 * test)},
            "test": {"perplexity": test, "cross_entropy": math.log(test)},
        },
        "metric": "perplexity",
        "lower_is_better": True,
        "published": {"test": {"perplexity": 159.64}},
        "limit": {},
        "cost": {"flops": {"formula": "2*H*(D + H)", "value": 30_000, "terms": terms}},
        "samples": [{"prompt": "in palo alto", "output": "in palo alto calif.", "notes": ["alto was read as <unk>"]}],
        "hardware": {"cpu": "a processor", "cores": 2, "memory_gb": 24, "gpu": None},
        "versions": {"python": "3.11", "torch": "2.13"},
        "command": "porism train language table-02 --device cpu --seed 1",
    } | changes


def run_writer(inside: Path) -> WriteRun:
    """What writes a run's folder and returns it: `write_run(metrics=metrics(150.0), hidden=200)`.

    Keywords that are not named below are fields of the recipe.
    """

    def write(
        name: str = "run",
        *,
        events: list[dict[str, Any]] | None = None,
        metrics: dict[str, Any] | None = None,
        recipe: str = "table-02",
        seed: int = 1,
        source: str = "ptb",
        task: str = "language",
        fingerprint: str = "ab12",
        **fields: Any,
    ) -> Path:
        folder = inside / name
        folder.mkdir()
        about = {"task": task, "recipe": recipe, "seed": seed, "source": source, "device": "cpu", "precision": "fp32"}
        resolved = {"name": recipe, "model": "elman", "hidden": 100} | fields
        content = tomli_w.dumps(about | {"threads": 2, "fingerprint": fingerprint, "fields": resolved})
        (folder / "recipe.toml").write_text(content, encoding="utf-8")
        written = [start(), epoch(1, 301.2), epoch(2, 180.5), epoch(3, 182.0, best=False)] if events is None else events
        lines = "".join(json.dumps(event) + "\n" for event in written)
        (folder / "events.jsonl").write_text(lines, encoding="utf-8")
        if metrics is not None:
            (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    return run_writer(tmp_path)
