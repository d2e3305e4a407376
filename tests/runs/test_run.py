import json
from pathlib import Path

import pytest
from tests.runs.tiny_runs import begin, resume, write_text

from porism.errors import RunError
from porism.runs.recipe import from_fields, override
from porism.runs.run import RunFacts, RunFolder
from porism.tasks.language.recipes import RECIPES, LanguageRecipe
from porism.tasks.language.task import Language
from porism.training import session
from porism.training.request import TrainingRequest

FACTS = RunFacts(
    task="language",
    recipe="elman",
    seed=3,
    device="cpu",
    precision="fp32",
    threads=1,
    fingerprint="ab",
    source="a b.txt",
)


def test_a_run_comes_back_from_its_folder(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", FACTS, RECIPES["elman"])
    found = RunFolder.open(tmp_path / "run")
    assert found.facts == FACTS
    assert from_fields(LanguageRecipe, found.fields) == RECIPES["elman"]
    assert found.metrics() is None


def test_the_command_repeats_the_run() -> None:
    what = ["porism", "train", "language", "elman", "--data", "a b.txt"]
    assert FACTS.command() == [*what, "--precision", "fp32", "--threads", "1", "--device", "cpu", "--seed", "3"]


def test_a_torn_event_is_cut_off_before_the_next(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, FACTS, RECIPES["elman"])
    run.append("start", command="x")
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "epo')
    run.append("resume", epoch=1, step=0)
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["start", "resume"]


def test_a_folder_is_never_overwritten(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, FACTS, RECIPES["elman"])
    with pytest.raises(RunError, match=f"{tmp_path} already holds a run. Go on with it by --resume"):
        RunFolder.create(tmp_path, FACTS, RECIPES["elman"])


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run: it has no recipe.toml. Give the folder that a training printed"):
        RunFolder.open(tmp_path)
    with pytest.raises(RunError, match="There is no such folder"):
        RunFolder.open(tmp_path / "nothing")
    (tmp_path / "recipe.toml").write_text("task = 3\n[fields]\n")
    with pytest.raises(RunError, match="recipe.toml is not a recipe that porism wrote"):
        RunFolder.open(tmp_path)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["best/thesis.tex", "last/photos.txt", "last.previous/keep.txt", "report.html", ".a"])
def test_a_folder_of_others_is_refused_and_stays_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("years")
    with pytest.raises(
        RunError, match=rf"{tmp_path} is not empty and no run: it holds {name.split('/')[0]}\. Choose a"
    ):
        RunFolder.create(tmp_path, FACTS, RECIPES["elman"])
    assert everything(tmp_path) == {name: b"years"}


def test_training_neither_deletes_nor_moves_nor_overwrites_what_is_not_its_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    for name in ("best/thesis.tex", "last/photos.txt", "last.previous/keep.txt", "report.html", "metrics.json"):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("years")
    before = everything(mine)
    with pytest.raises(RunError, match="is not empty and no run"):
        session.begin(
            TrainingRequest(Language, override(RECIPES["elman"], ["epochs=1", "hidden_size=4"]), device="cpu"), mine
        )
    assert everything(mine) == before


def test_what_others_put_into_a_run_stays_as_it_is(tmp_path: Path) -> None:
    text = write_text(tmp_path)
    run = begin(tmp_path / "run", text).run.path
    (run / "best").mkdir()
    (run / "best/thesis.tex").write_text("years")
    with pytest.raises(RunError, match=f"{run}/best holds thesis.tex, which porism did not write there. Move it"):
        resume(run)
    (run / "best").rename(tmp_path / "best")
    training = resume(run)
    (run / "last").mkdir()
    (run / "last/photos.txt").write_text("x")
    with pytest.raises(RunError, match=f"{run}/last holds photos.txt"):
        training.fit()
    assert (run / "last/photos.txt").read_text() == "x"


def test_an_empty_folder_and_one_with_what_a_stopped_start_left_are_taken(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", FACTS, RECIPES["elman"])
    (tmp_path / "run/recipe.toml").rename(tmp_path / "run/.recipe.toml.writing")  # as 0.1 wrote it
    (tmp_path / "run/.recipe.toml.17.writing").write_text("half of")
    RunFolder.create(tmp_path / "run", FACTS, RECIPES["elman"])
    (tmp_path / "other").mkdir()
    (tmp_path / "other/.DS_Store").write_bytes(b"x")
    RunFolder.create(tmp_path / "other", FACTS, RECIPES["elman"])
    (tmp_path / "third").mkdir()
    (tmp_path / "third/.recipe.toml.writing").write_text("mine")
    with pytest.raises(RunError, match=r"it holds \.recipe\.toml\.writing"):
        RunFolder.create(tmp_path / "third", FACTS, RECIPES["elman"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("link", "link is a link to nowhere, which is not there. Choose another --out."),
        ("link/below", "link is a link to nowhere, which is not there. Choose another --out."),
        ("file", "file is a file, and a run is a folder. Choose another --out."),
        ("file/below", "file/below cannot be written: Not a directory. Choose another folder"),
        ("x" * 300, "cannot be written: File name too long."),
        ("a\0b", "cannot be the name of a folder: embedded null byte. Choose another --out."),
    ],
)
def test_a_name_that_cannot_be_a_folder_is_one_line(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=message) as caught:
        RunFolder.create(tmp_path / name, FACTS, RECIPES["elman"])
    assert "\n" not in str(caught.value)
    with pytest.raises(RunError):
        RunFolder.open(tmp_path / name)


def test_results_are_read_as_they_were_written_or_refused(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, FACTS, RECIPES["elman"])
    run.append("start", command="x")
    metrics = {"epochs": 3, "metrics": {"test": {"perplexity": 154.92}}}
    run.write_metrics(metrics)
    assert RunFolder.open(tmp_path).metrics() == metrics
    path = tmp_path / "metrics.json"
    content = path.read_text()
    for altered in (content.replace("154.92", "1.01"), content[:40], "", "[]"):
        path.write_text(altered)
        with pytest.raises(RunError, match=f"^{path}") as caught:
            RunFolder.open(tmp_path).metrics()
        assert "\n" not in str(caught.value)


def test_a_run_of_a_format_to_come_is_refused(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, FACTS, RECIPES["elman"])
    path = tmp_path / "recipe.toml"
    path.write_text(path.read_text().replace("format = 3", "format = 4"))
    with pytest.raises(RunError, match="is of format 4; this porism reads those up to 3. Use a newer one."):
        RunFolder.open(tmp_path)
