"""Memory is that of the model and of what a recipe allows, however large the text is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 2**20
ALLOWED = 1
LARGER = 20

TRAIN = """
import json, sys
from pathlib import Path

import torch

from porism.tasks.words.task import Words
from porism.tasks.words.recipes import RECIPES
from porism.runs.recipe import override


def peak() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].removesuffix("kB")) * 1024


def trained(source: str) -> int:
    task = Words.load(override(RECIPES["skipgram"], ["max_memory_mib=1", "vector_size=4", "epochs=1"]), source)
    step = task.step(task.build())
    return sum(task.count(batch) for batch in task.batches(1, 1) if step(batch, {})[0] >= 0)


torch.set_num_threads(2)
small, large = sys.argv[1:]
# What is compiled and imported is there after the small text.
before = (trained(small), peak())
after = (trained(large), peak())
print(json.dumps([*before, *after]))
"""


@pytest.mark.sweep(0)
@pytest.mark.skipif(sys.platform != "linux", reason="the most a process has held is known on Linux alone")
def test_a_text_twenty_times_larger_than_memory_takes_no_more_than_a_small_one(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="numba trains words")
    pytest.importorskip("sklearn", reason="scikit-learn draws their map")
    line = " ".join(f"word{number * number % 997}" for number in range(40)) + "\n"
    files = {"small.txt": 1 * MIB, "large.txt": LARGER * ALLOWED * MIB}
    for name, size in files.items():
        with (tmp_path / name).open("w") as file:
            for _ in range(0, size, len(line) * 1000):
                file.write(line * 1000)
    assert (tmp_path / "large.txt").stat().st_size >= LARGER * ALLOWED * MIB
    sources = [str(tmp_path / name) for name in files]
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, *sources],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PORISM_DATA": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    small_words, small_peak, large_words, large_peak = json.loads(done.stdout)
    assert large_words > 16 * small_words
    # It was trained on from the file.
    assert sum(file.stat().st_size for file in (tmp_path / "cache" / "words").glob("*/tokens.i32")) > 8 * ALLOWED * MIB
    # The text alone would take 20 MiB, and as numbers 12. Of what is held out a larger text has more, to a limit.
    assert large_peak - small_peak < 6 * ALLOWED * MIB
