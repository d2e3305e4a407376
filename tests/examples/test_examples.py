import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_net_of_your_own_loop_learns_to_count(capsys: pytest.CaptureFixture[str]) -> None:
    loss = runpy.run_path(str(EXAMPLES / "own_loop.py"))["main"]()
    assert loss < 0.05
    assert "after six comes seven" in capsys.readouterr().out
