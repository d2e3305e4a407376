"""Fields of recipes are typed: the stub says what the recipes do, and a checker finds what is wrong."""

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
RIGHT = """
import torch
from torch import nn
import porism

run = porism.train("language", "elman", data="book.txt", epochs=3, hidden_size=20)
perplexity: float = run.metrics["test"]["perplexity"]
outputs: list[str] = [one.output for one in run.predict(["The function"], temperature=0.7)]
other: porism.Run = porism.load("runs/language-elman").resume(epochs=20)
X, y = torch.randn(9, 4), torch.arange(9) % 3
own = porism.train(nn.Linear(4, 3), data=(X, y), loss="cross_entropy", epochs=5, learning_rate=1e-3, test_split=0.2)
made = porism.train("images", model=lambda info: nn.Linear(8, info.num_classes or 2), translate=2)
both = porism.compare("graphs", ["gcn", "kipf"], seeds=3, budget={"seconds": 60}, hidden_size=8)
mine = porism.compare("language", {"mine": nn.Embedding(9, 9), "elman": "elman"}, data="book.txt")
pair: porism.Comparison = porism.compare({"small": nn.Linear(4, 3)}, data=(X, y), loss="mse")
best: porism.Run | None = pair.best
for name in ("language", "words"):
    porism.train(name, epochs=1)
"""
WRONG = {
    'porism.train("language", epoch=3)': "epoch",
    'porism.train("language", epochs="many")': "epochs",
    'porism.train("graphs", seq_len=3)': "seq_len",
    'porism.train("images", cell="gru")': "cell",
    'porism.compare("language", ["elman"], hidden=3)': "hidden",
}


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = spec_from_file_location("write_fields", ROOT / "tools/write_fields.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stub_is_what_the_recipes_say(writer: ModuleType) -> None:
    assert writer.is_written(), "write it anew: python tools/write_fields.py"


def test_the_stub_has_a_field_of_every_task(writer: ModuleType) -> None:
    text = writer.stub()
    for line in ("seq_len: int", "num_neighbors: int | None", "class SupervisedFields", "batch_size: int"):
        assert line in text


@pytest.mark.sweep(0)
def test_a_strict_checker_takes_what_is_right_and_finds_what_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "right.py").write_text(RIGHT)
    lines = "\n".join(WRONG)
    (tmp_path / "wrong.py").write_text(f"import porism\n\n{lines}\n")
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache")]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = {
        name: subprocess.run(
            [*words, str(tmp_path / name)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        ).stdout
        for name in ("right.py", "wrong.py")
    }
    assert "right.py" not in done["right.py"], done["right.py"]
    for number in range(3, 3 + len(WRONG)):
        assert f"wrong.py:{number}: error" in done["wrong.py"], done["wrong.py"]
