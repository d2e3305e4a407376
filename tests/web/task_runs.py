"""A run of every task, each trained for two epochs on small data."""

from pathlib import Path

import numpy as np
from tests import needs
from tests.fuzz.forms import FORMS, SMALL
from tests.fuzz.mutations import write_tree

from porism.runs.recipe import override
from porism.tasks import find
from porism.training import session
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest

soundfile = needs.lazy("soundfile")

RUNS: dict[str, tuple[str, str, list[str], str | None]] = {
    "language": ("language", "elman", ["hidden_size=8", "embedding_dim=8"], "long lines"),
    "sentiment": ("sentiment", "attention", [], "csv"),
    "supervised": ("supervised", "mlp", [], None),
    "graphs": ("graphs", "gcn", [], None),
    "words": ("words", "full", [], "file"),
    "digits": ("images", "strided", ["optimizer=adam", "learning_rate=0.005", "dropout=0.2"], None),
    "complete": ("images", "complete", ["batch_size=64", "hidden_size=4"], None),
    "speech": ("speech", "joint", ["learning_rate=0.01"], "list"),
}
"""By the name of the run: task, recipe, what makes it small beside SMALL, and the form of its data; None: embedded."""
ATTENDING = ("language", "attention", ["hidden_size=8", "embedding_dim=8", "num_heads=2"], "long lines")
"""A run whose attention can be looked at, under the name `attending`."""


def train_run(folder: Path, name: str) -> Path:
    """The run of this name, trained in a folder. It is not evaluated, which would take longer than all else."""
    task, recipe, settings, form = ATTENDING if name == "attending" else RUNS[name]
    kind, source = find(task), None
    if form == "long lines":  # so that a text ends only where it is told to
        place = folder / "data" / name
        place.mkdir(parents=True)
        (place / "a.txt").write_text("".join(f"{'the cat sees a dog, and it is good! ' * 40}\n" for _ in range(12)))
        source = str(place / "a.txt")
    elif form is not None:
        data = FORMS[task]()[form]
        place = folder / "data" / name
        place.mkdir(parents=True)
        write_tree(place, data.files)
        source = str(place / data.source)
    small = SMALL[task][1] if recipe == SMALL[task][0] else []
    chosen = override(kind.recipes[recipe], [*small, *settings, "epochs=2"])
    request = TrainingRequest(kind, chosen, source=source, device="cpu", seed=5, threads=1, baselines=False)
    training = session.begin(request, folder / "runs" / name)
    with training.only_writer(NoProgress()):
        training.fit(NoProgress())
    return folder / "runs" / name


def trained_run(folder: Path, name: str) -> Path:
    """The same, which another test may have trained there."""
    found = folder / "runs" / name
    return found if found.exists() else train_run(folder, name)


def write_recording(path: Path, seconds: float = 0.5) -> Path:
    """A tone that rises, which no model of these can transcribe well, and each in its own way."""
    time = np.arange(int(16_000 * seconds)) / 16_000
    soundfile.write(path, 0.2 * np.sin(2 * np.pi * (200 + 400 * time) * time), 16_000)
    return path
