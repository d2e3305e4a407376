"""porism evaluate and porism predict: several runs, standard input, folders, an example of the right task."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import TINY, Say

from porism.cli import main


def last_line(out: str) -> Any:
    return json.loads(out.strip().splitlines()[-1])


CPU = ["--device", "cpu", "--threads", "1"]
SMALL_WORDS = ["--vector-size", "4", "--min-count", "1", "--epochs", "1", "--validation-split", "0.1"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = tmp_path_factory.mktemp("answers") / "text.txt"
    text.write_text("the cat sees the dog\nthe dog hears the cat\n" * 60)
    return text


@pytest.fixture(scope="module")
def language(text: Path) -> Path:
    """A run of language."""
    run = text.parent / "language"
    assert main(["train", "language", "--data", str(text), *CPU, *TINY, "--out", str(run)]) == 0
    return run


@pytest.fixture(scope="module")
def words(text: Path) -> Path:
    """A run of words on the same text."""
    pytest.importorskip("numba", reason="numba trains words")
    run = text.parent / "words"
    assert main(["train", "words", "--data", str(text), *CPU, *SMALL_WORDS, "--out", str(run)]) == 0
    assert "note" not in (run / "events.jsonl").read_text()
    return run


def test_several_runs_are_evaluated_at_once(say: Say, language: Path, tmp_path: Path) -> None:
    shutil.copytree(language, tmp_path / "copy")
    found = last_line(say("evaluate", language, "copy", "--split", "valid", "--json").out)["runs"]
    assert [Path(run["run"]).name for run in found] == ["language", "copy"]
    assert found[0]["metrics"] == found[1]["metrics"]
    assert "copy valid perplexity:" in say("evaluate", language, "copy", "--split", "valid").out
    assert "which runs?" in say("evaluate").err


def test_a_run_is_measured_on_other_data_by_its_own_words(say: Say, language: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("the cow sees the dog\nthe dog hears the cow\n" * 60)
    found = last_line(say("evaluate", language, "--data", other, "--json").out)
    own = last_line(say("evaluate", language, "--json").out)
    assert found["data"] == str(other)
    assert found["parameters"] == own["parameters"]
    assert found["metrics"]["test"]["perplexity"] != own["metrics"]["test"]["perplexity"]
    # A text without a split of its own is measured whole.
    valid = last_line(say("evaluate", language, "--data", other, "--split", "valid", "--json").out)
    assert valid["metrics"]["valid"] == found["metrics"]["test"]


def test_no_input_is_answered_by_an_example_of_the_task(say: Say, language: Path, words: Path) -> None:
    assert say("predict", words).err.endswith(f"porism predict {words} function\n")
    assert say("predict", language).err.endswith('"a function is"\n')


def test_a_hyphen_reads_lines(say: Say, language: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat\n\nthe dog\n"))
    found = last_line(say("predict", language, "-", "a", "--max-new-tokens", "2", "--json").out)["predictions"]
    assert [one["prompt"] for one in found] == ["the cat", "the dog", "a"]
    assert all(len(one["output"].split()) <= 2 for one in found)


def test_options_do_what_set_does(say: Say, language: Path, words: Path) -> None:
    command = ["predict", str(language), "the", "--json"]
    by_option = say(command, "--max-new-tokens", "9", "--temperature", "2", "--top-k", "3", "--seed", "7")
    by_set = say(command, "--set=max_new_tokens=9", "--set=temperature=2", "--set=top_k=3", "--set=seed=7")
    assert by_option.out == by_set.out
    assert last_line(say("predict", words, "cat", "--topn", "2", "--json").out) == last_line(
        say("predict", words, "cat", "--set", "count=2", "--json").out
    )
    twice = say(command, "--seed", "1", "--set", "seed=2")
    assert "seed is set twice, also by --set seed=2" in twice.err


def test_one_unknown_word_leaves_the_answers_to_the_others(say: Say, words: Path) -> None:
    first, second = last_line(say("predict", words, "catt", "dog", "--json").out)["predictions"]
    assert first["output"] == ""
    assert "Did you mean cat?" in first["notes"][0]
    assert len(second["details"]["neighbours"]) >= 3
    refused = say("predict", words, "catt")
    assert (refused.code, "Did you mean cat?" in refused.err) == (2, True)


@pytest.mark.sweep(0)
def test_a_folder_of_pictures_is_its_files(say: Say, tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for shade in (10, 200):
        pillow.new("L", (8, 8), shade).save(folder / f"{shade}.png")
    (folder / "notes.txt").write_text("not a picture")
    small = ["--hidden-size", "2", "--epochs", "1", "--batch-size", "256", "--out", "run", "--no-baselines"]
    assert say("train", "images", small).code == 0
    found = last_line(say("predict", "run", folder, "--json").out)["predictions"]
    assert [Path(one["prompt"]).name for one in found] == ["10.png", "200.png"]
    (tmp_path / "empty").mkdir()
    assert "no files here that images reads" in say("predict", "run", "empty").err


def test_a_training_whose_bits_differ_says_so(say: Say, text: Path) -> None:
    pytest.importorskip("numba", reason="numba trains words")
    command = ["train", "words", "--data", str(text), *SMALL_WORDS, "--device", "cpu"]
    told = say(command, "--threads", "2", "--out", "two").out
    assert "note: two runs of one seed have different vectors" in told
    assert "two runs of one seed have different vectors" in Path("two/events.jsonl").read_text()
    assert "the last epoch counts, whichever is best on valid" in told


def test_a_continuation_is_printed_as_one_text(say: Say, language: Path) -> None:
    command = ["predict", str(language), "the", "--temperature", "0", "--max-new-tokens", "2"]
    (found,) = last_line(say(command, "--json").out)["predictions"]
    assert found["details"]["text"] == f"the {found['output']}"
    assert say(command).out.splitlines()[0] == found["details"]["text"]


def test_the_help_shows_what_each_task_takes(say: Say) -> None:
    from porism.tasks import TASKS

    shown = say("predict", "--help").out
    for task in TASKS:
        assert f"\n{task}: " in shown
        assert f"$ porism predict runs/{task}-" in shown
