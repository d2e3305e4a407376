"""Values that a change which only moves code must leave as they are.

    python tools/golden.py record golden.json      before the change
    python tools/golden.py compare golden.json     after it: prints what differs, and exits 1 if anything does

Recorded are three steps of every recipe that needs no download, every layer of the tests in float64, the cost of every
layer and recipe, the JSON of the commands, and what runs of 0.1 answer. Equal means equal, without a tolerance: one
thread, one process, one machine. Values of another machine are other values, so none are kept in the repository.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch  # noqa: E402
from tests.layers.cases import CASES  # noqa: E402
from torch import Tensor  # noqa: E402

from porism.cli import main as porism  # noqa: E402
from porism.tasks import TASKS, find  # noqa: E402

STEPS = 3
SIZES = {"B": 2, "T": 7, "D": 3, "H": 5, "V": 11, "C": 3, "Y": 5, "X": 4, "N": 9, "E": 20}
LAYERS = ("elman", "grid", "attention", "window", "taylor", "hybrid", "gcn", "skipgram", "readout")
RUNS = {
    "language": ("runs/run-0.1", ".", ["the cat"]),
    "images": ("runs/runs-0.1/images", "run", ["one.png"]),
    "graphs": ("runs/runs-0.1/graphs", "run", ["0", "33"]),
    "words": ("runs/runs-0.1/words", "run", ["cat"]),
    "speech": ("runs/runs-0.1/speech", "run", ["test0.flac"]),
}
"""Of each task: the folder below tests/, the run in it, and its inputs."""
CHANGING = re.compile(r'"(seconds|\w+_per_second|time|version|report)": [^,}]+')
"""Parts of JSON that a clock, a path or the version decides."""

Values = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="names that begin so")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found = dict(values(chosen.only))
    if chosen.what == "record":
        chosen.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} values in {chosen.file}")
        return 0
    before = {
        name: value for name, value in json.loads(chosen.file.read_text()).items() if name.startswith(chosen.only)
    }
    after = json.loads(json.dumps(found))
    differing = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    for name in differing:
        print(f"{name}\n  before {_short(before.get(name))}\n  after  {_short(after.get(name))}")
    print(f"{len(before)} values, {len(differing)} differ")
    return 1 if differing else 0


def values(only: str) -> Iterator[tuple[str, Any]]:
    """Every value by name, with a line of progress for each group."""
    for name, measure in groups():
        if not name.startswith(only):
            continue
        began = time.monotonic()
        with contextlib.redirect_stderr(io.StringIO()) as shown:
            try:
                value = measure()
            except Exception as error:  # a value of its own: it must stay, too
                value = f"{type(error).__name__}: {error}", shown.getvalue()[-500:]
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.__stderr__)
        yield name, value


def groups() -> Iterator[tuple[str, Callable[[], Any]]]:
    for layer in CASES:
        yield f"layer/{layer}", lambda layer=layer: layer_values(layer)
    for task in TASKS:
        for recipe in find(task).recipes:
            yield f"task/{task}/{recipe}", lambda task=task, recipe=recipe: task_values(task, recipe)
    for layer in LAYERS:
        yield f"cost/{layer}", lambda layer=layer: command(["cost", layer, "--json"])
    for task in TASKS:
        for recipe in find(task).recipes:
            yield (
                f"cost/{task}/{recipe}",
                lambda task=task, recipe=recipe: command(["cost", f"{task}/{recipe}", "--json"]),
            )
    for task, (folder, run, inputs) in RUNS.items():
        yield f"run/{task}", lambda folder=folder, run=run, inputs=inputs: run_values(folder, run, inputs)
    yield (
        "train/language",
        lambda: trained(["train", "language", "elman", "--set", "epochs=1", "--set", "hidden_size=8"]),
    )
    yield "compare/graphs", lambda: trained(["compare", "graphs", "gcn", "row", "--set", "epochs=30"])
    yield "check/gradients", lambda: command(["check", "gradients", "--json"])


def layer_values(name: str) -> Values:
    """Answer and gradients in float64, as sha256."""
    case = CASES[name]
    torch.manual_seed(1)
    layer = case.build(SIZES).double()
    inputs = {
        name: x.double().requires_grad_() if x.is_floating_point() else x for name, x in case.inputs(SIZES).items()
    }
    answer = case.run(layer, inputs)
    torch.manual_seed(2)
    (answer * torch.randn_like(answer)).sum().backward()
    leaves = {**dict(layer.named_parameters()), **inputs}
    gradients = {name: _digest(x.grad) for name, x in leaves.items() if isinstance(x, Tensor) and x.grad is not None}
    return {"answer": _digest(answer), "gradients": gradients, "state": {n: list(x.shape) for n, x in _state(layer)}}


def task_values(task: str, recipe: str) -> Values:
    """The losses of a few steps of plain gradient descent, and the first gradients."""
    kind = find(task)
    loaded = kind.load(kind.recipes[recipe], None)
    torch.manual_seed(1)
    model = loaded.build()
    initial = {name: _digest(x) for name, x in _state(model)}
    batches, carry, losses, gradients = loaded.batches(1, 1), loaded.start(model), [], {}
    for step in range(min(STEPS, len(batches))):
        model.zero_grad()
        loss, carry = loaded.loss(model, batches[step], carry)
        loss.backward()
        losses.append(loss.item().hex())
        if step == 0:
            gradients = {name: _digest(x.grad) for name, x in model.named_parameters() if x.grad is not None}
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.01 * parameter.grad
    return {"fingerprint": loaded.fingerprint(), "initial": initial, "losses": losses, "gradients": gradients}


def run_values(folder: str, run: str, inputs: list[str]) -> Values:
    with _elsewhere() as place:
        shutil.copytree(ROOT / "tests" / folder, place / "there")
        os.chdir(place / "there")
        commands = {"evaluate": ["evaluate", run], "predict": ["predict", run, *inputs]}
        found: Values = {name: command([*words, "--json"]) for name, words in commands.items()}
        found["report"] = command(["report", run, "--out", "report.html"])
        page = Path("report.html").read_text()
        return {**found, "page": hashlib.sha256(re.sub(r"porism \d+\.\d+\S*", "", page).encode()).hexdigest()}


def trained(words: list[str]) -> Any:
    with _elsewhere() as place:
        os.chdir(place)
        return command([*words, "--device", "cpu", "--threads", "1", "--out", "run", "--json"])


def command(words: list[str]) -> Any:
    """The JSON of a command, without what a clock decides; what it printed, where it gives none."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = porism(words)
    lines = CHANGING.sub("", out.getvalue()).splitlines()
    return [code, lines[-1] if lines and "--json" in words else lines]


@contextlib.contextmanager
def _elsewhere() -> Iterator[Path]:
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        try:
            yield Path(place)
        finally:
            os.chdir(here)


def _state(module: torch.nn.Module) -> list[tuple[str, Tensor]]:
    return [(name, x) for name, x in module.state_dict().items() if isinstance(x, Tensor)]


def _digest(x: Tensor) -> str:
    dense = x.detach().to_dense() if x.layout is not torch.strided else x.detach()
    return hashlib.sha256(dense.contiguous().cpu().numpy().tobytes()).hexdigest()[:16]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 300 else f"{text[:300]} ..."


if __name__ == "__main__":
    sys.exit(main())
