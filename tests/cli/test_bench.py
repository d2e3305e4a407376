"""porism bench lists what there is to measure, and runs one with its own arguments."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Said

from porism.cli import bench, main

SCRIPT = '''"""How tall is it?

The rest is for readers.
"""
import json, sys
from pathlib import Path

def main(out):
    print("words for people")
    if "--quietly" not in sys.argv:
        Path(out).write_text(json.dumps({"arguments": sys.argv[1:]}))
    sys.exit(3 if "--fail" in sys.argv else 0)

main(sys.argv[sys.argv.index("--out") + 1])
'''

Tell = Callable[..., Said]


@pytest.fixture
def tell(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tell:
    """Runs porism bench in an empty folder, with what the benchmark itself prints."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "tall_tales.py").write_text(SCRIPT)
    (folder / "tables.py").write_text('"""Writes tables."""\ndef main(check): ...\n')
    (folder / "peers.py").write_text('"""No program."""\ndef keep(out): ...\n')
    monkeypatch.setattr(bench, "FOLDERS", (tmp_path / "nowhere", folder))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Said:
        capfd.readouterr()
        code = main(["bench", *words])
        return Said(code, *capfd.readouterr())

    return run


def last_line(completed: Said) -> Any:
    return json.loads(completed.out.splitlines()[-1])


def test_without_a_name_the_benchmarks_are_listed_with_their_questions(tell: Tell) -> None:
    completed = tell()
    assert completed.code == 0
    assert "tall_tales" in completed.out
    assert "How tall is it?" in completed.out
    assert "peers" not in completed.out
    assert last_line(tell("--json")) == {"benchmarks": [{"name": "tall_tales", "question": "How tall is it?"}]}


def test_a_benchmark_runs_with_what_stands_behind_its_name(tell: Tell) -> None:
    completed = tell("tall-tales", "--rows", "x")
    assert completed.code == 0
    assert completed.out == "words for people\nresult: runs/benchmarks/tall_tales.json\n"
    kept = json.loads(Path("runs/benchmarks/tall_tales.json").read_text())
    assert kept["arguments"] == ["--rows", "x", "--out", "runs/benchmarks/tall_tales.json"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_json_is_all_of_standard_output_wherever_it_is_asked_for(tell: Tell, place: int) -> None:
    words = ["tall_tales", "--rows"]
    completed = tell(*words[:place], "--json", *words[place:])
    assert completed.out.count("\n") == 1
    assert last_line(completed)["arguments"][0] == "--rows"
    assert "words for people" in completed.err


def test_the_result_is_kept_where_out_says(tell: Tell) -> None:
    assert last_line(tell("tall_tales", "--out", "new/there.json", "--json")) == {
        "arguments": ["--out", "new/there.json"]
    }
    assert Path("new/there.json").is_file()
    assert not Path("runs").exists()


def test_the_exit_code_is_the_benchmarks(tell: Tell) -> None:
    completed = tell("tall_tales", "--fail", "--json")
    assert completed.code == 3
    assert last_line(completed)["arguments"][0] == "--fail"


def test_an_earlier_result_does_not_pass_for_this_ones(tell: Tell) -> None:
    tell("tall_tales")
    assert tell("tall_tales", "--quietly", "--json").out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tal_tales"], "porism: bench: there is no benchmark 'tal_tales'. Did you mean tall_tales?\n"),
        (["tables"], "porism: bench: there is no benchmark 'tables'."),
        (["zzz", "--json"], "porism: bench: there is no benchmark 'zzz'. Known: tall_tales.\n"),
        (["--nonsense"], "porism: there is no option --nonsense. See porism bench --help.\n"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(tell: Tell, words: list[str], message: str) -> None:
    completed = tell(*words)
    assert completed.code == 2
    assert completed.err.startswith(message)
    assert completed.err.count("\n") == 1
    assert completed.out == ""


def test_benchmarks_that_are_not_there(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "FOLDERS", (Path("here"), Path("there")))
    completed = tell()
    assert completed.code == 2
    assert completed.err == "porism: bench: the benchmarks are not there: neither here nor there is a folder.\n"


def test_the_checkout_has_them() -> None:
    assert {"counters", "language_training", "language_table"} <= bench._benchmarks().keys()
    assert "tables" not in bench._benchmarks()
