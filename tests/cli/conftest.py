from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import needs

from porism.cli import main

TINY = [f"--set={field}" for field in ("hidden_size=8", "embedding_dim=6", "batch_size=4", "seq_len=5", "epochs=1")]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Say = Callable[..., Said]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Say:
    """Runs a porism command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*words: str | Path | Sequence[str]) -> Said:
        flat = [str(w) for word in words for w in ([word] if isinstance(word, str | Path) else word)]
        capsys.readouterr()
        try:
            code = main(flat)
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        # What a command refuses for want of a package is no answer to judge, where a package is missing.
        if code == 2 and needs.missing() and 'not installed: pip install "porism[' in captured.err:
            pytest.skip(captured.err.strip().splitlines()[-1].removeprefix("porism: "))
        return Said(code, captured.out, captured.err)

    return run


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sees the dog\nthe dog hears the cat\n" * 60)
    return path
