import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_net_of_your_own_loop_learns_to_count(capsys: pytest.CaptureFixture[str]) -> None:
    loss = runpy.run_path(str(EXAMPLES / "own_loop.py"))["main"]()
    assert loss < 0.05
    assert "after six comes seven" in capsys.readouterr().out


def test_a_module_of_your_own_is_trained_loaded_asked_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = runpy.run_path(str(EXAMPLES / "own_module.py"))["main"](tmp_path, epochs=8)
    accuracy = {row["model"]: row["test_accuracy"] for row in both.to_records()}
    assert accuracy["mine"] > accuracy["linear"]
    said = capsys.readouterr().out
    assert "is in ring" in said
    assert "mine" in said
