"""The command line on random words: exit code 0 or 2, one line for a mistake, and nothing half written."""

import contextlib
import io
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from tests.fuzz.cases import Fuzz, attempt, check_both, check_line
from tests.fuzz.mutations import PIECES
from tests.runs import tiny_runs

from porism.cli import main
from porism.runs import checkpoint
from porism.runs.run import RunFolder
from porism.training import session

VERBS = "train train compare evaluate predict report recipes runs data sweep cost completion"
"""Those that neither start other programs nor measure."""
NAMES = (
    "language words images graphs speech sentiment supervised elman lstm run text.txt nowhere . /dev/null report.html"
)
OPTIONS = """
    --set --data --seed --threads --device --out --resume --epochs --hidden-size --json --quiet --help --show --recipes
    --precision --split --seeds --budget --workers --over --trials --checkpoint-every --no-baselines --at --input --with
    --topn --temperature --max-new-tokens --sort --task --learning-rate --model --lr --sed -x -- --out=
"""
VALUES = """
    0 1 -1 nan inf 1e400 99999999999999999999999 none cpu cuda auto equal own epochs=1 epochs=0 hidden_size=x
    hidden_size = a=b seconds=nan hidden_size=4,8 T=8 B,T,D text.txt run out run/recipe.toml bash test valid bf16
    [/red] %s {}
"""
TEXTS = st.sampled_from([piece.decode(errors="surrogateescape") for piece in PIECES]) | st.text(max_size=8)
WORD = st.one_of(*(st.sampled_from(text.split()) for text in (NAMES, OPTIONS, VALUES)), TEXTS)


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and a run on it."""
    folder = tmp_path_factory.mktemp("home")
    session.complete(tiny_runs.begin(folder / "run", tiny_runs.write_text(folder)))
    return folder


def said(words: list[str]) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return Said(code, out.getvalue(), err.getvalue())


def test_random_words_are_answered_or_refused(
    fuzz: Fuzz, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # To train is what other tests do: here it is what stands before it that is tried.
    monkeypatch.setattr("porism.training.loop.Training._train_epoch", _refuse_to_train)
    before = checkpoint.read(home / "run" / "best").state
    codes = []

    def check(words: list[str]) -> None:
        found = attempt(lambda: said(words))
        assert isinstance(found, Said)
        codes.append(found.code)
        assert found.code in (0, 2), found
        if found.code == 2:
            line = found.err.splitlines()[-1]
            check_line(line)
            assert line.startswith("porism: "), found.err
        assert "Traceback" not in found.err
        assert checkpoint.read(home / "run" / "best").state == before
        assert RunFolder.open(home / "run").metrics() is not None

    verbs = st.sampled_from(VERBS.split()) | TEXTS
    fuzz(st.builds(lambda verb, rest: [verb, *rest], verbs, st.lists(WORD, max_size=6)), check, share=60, whole=1500)
    check_both(codes)


def _refuse_to_train(*_: object) -> None:
    from porism.errors import TrainingError

    raise TrainingError("here nothing is trained.")
