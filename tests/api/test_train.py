"""porism.train and porism.load: the runs of `porism train`, in Python's words."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.api.conftest import TINY, best_bits

import porism
from porism.cli import main
from porism.errors import Interrupted, PorismError, RecipeError, RunError
from porism.training.interrupt import ask_to_stop

SOURCE = Path(porism.__file__).parent


def test_a_run_says_what_came_of_it(trained: porism.Run, text: str) -> None:
    assert (trained.task, trained.recipe.name, trained.seed, trained.status) == ("language", "elman", 1, "finished")
    assert set(trained.metrics) == {"train", "valid", "test"}
    assert [line["epoch"] for line in trained.history] == [1, 2]
    assert trained.history[-1]["valid"]["perplexity"] == trained.metrics["valid"]["perplexity"]
    assert trained.command.startswith("porism train language elman")
    assert (trained.path / "report.html").is_file()
    assert repr(trained) == f"Run('language', 'elman', seed=1, finished, test perplexity {_test(trained):.4g})"
    assert "<svg" in trained._repr_html_()
    assert "porism train language elman" in trained._repr_html_()


def _test(run: porism.Run) -> float:
    return run.metrics["test"]["perplexity"]


def test_the_command_line_gives_the_same_bits(
    trained: porism.Run, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]
    words = ["train", "language", "elman", "--data", text, "--threads", "1", "--device", "cpu", *fields]
    assert main([*words, "--out", str(tmp_path / "cli"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["metrics"] == trained.metrics
    assert best_bits(tmp_path / "cli") == best_bits(trained.path)
    assert porism.load(tmp_path / "cli").recipe == trained.recipe


def test_a_loaded_run_answers_and_measures_the_same(trained: porism.Run) -> None:
    again = porism.load(trained.path)
    assert again.evaluate() == trained.metrics["test"]
    assert again.evaluate(split="valid") == trained.metrics["valid"]
    (one,) = again.predict("the cat", temperature=0.7, length=5)
    assert [one] == trained.predict(["the cat"], temperature=0.7, length=5)
    assert (one.input, one.probabilities) == ("the cat", None)
    assert isinstance(again.model, torch.nn.Module)
    assert not again.model.training
    assert again.cost.letters
    assert again.report(trained.path.parent / "page.html").read_text().startswith("<!")
    with pytest.raises(RecipeError, match="only words have vectors"):
        _ = again.vectors


def test_a_stopped_run_goes_on_to_the_same_bits(trained: porism.Run, text: str, tmp_path: Path) -> None:
    epochs: list[Any] = []

    def stop(event: Any) -> None:
        epochs.append(event)
        ask_to_stop()

    with pytest.raises(Interrupted, match=re.escape(f"porism.load({str(tmp_path / 'run')!r}).resume()")):
        porism.train(
            "language", "elman", data=text, out=tmp_path / "run", threads=1, device="cpu", callbacks=[stop], **TINY
        )
    assert [event["epoch"] for event in epochs] == [1]
    run = porism.load(tmp_path / "run")
    assert (run.status, run.metrics, len(run.history)) == ("stopped", {}, 1)
    assert run.resume() is run
    assert (run.status, run.metrics) == ("finished", trained.metrics)
    assert best_bits(run.path) == best_bits(trained.path)


def test_a_script_that_is_run_again_goes_on(text: str, tmp_path: Path) -> None:
    def script(**fields: Any) -> porism.Run:
        return porism.train(
            "language", data=text, out=tmp_path / "run", resume=True, threads=1, device="cpu", **{**TINY, **fields}
        )

    assert len(script(epochs=1).history) == 1
    assert len(script().history) == 2
    with pytest.raises(RunError, match="learning_rate is 0.01, requested 0.5"):
        script(learning_rate=0.5)
    with pytest.raises(RecipeError, match="resume=True needs out="):
        porism.train("language", resume=True)


def test_a_dry_run_leaves_nothing(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = porism.train("language", data=text, fast_dev_run=True, **TINY)
    assert (run.status, [line["step"] for line in run.history]) == ("finished", [1])
    folder = run.path.parent
    assert folder.is_dir()
    del run
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RecipeError, match="keeps nothing"):
        porism.train("language", fast_dev_run=True, out=tmp_path / "run")


def test_threads_stay_as_they_were(text: str) -> None:
    before = torch.get_num_threads()
    porism.train("language", data=text, fast_dev_run=True, threads=before + 1, **TINY)
    assert torch.get_num_threads() == before


WRONG: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "task": (RecipeError, "there is no task 'langage'. Did you mean language?", {"task": "langage"}),
    "no task": (RecipeError, "task is a NoneType, expected a task's name or a torch.nn.Module.", {"task": None}),
    "recipe": (RecipeError, "language has no recipe 'elmann'. Did you mean elman?", {"recipe": "elmann"}),
    "field": (RecipeError, "has no field 'epoch'. Did you mean epochs?", {"epoch": 3}),
    "old field": (RecipeError, "keep is now dropout: dropout=0.1", {"keep": 0.9}),
    "value": (RecipeError, "epochs=0 cannot be", {"epochs": 0}),
    "infinite": (RecipeError, "learning_rate=inf cannot be", {"learning_rate": float("inf")}),
    "device": (PorismError, 'there is no device \'tpu\'. Use device="auto", "cpu" or "cuda".', {"device": "tpu"}),
    "seed": (RecipeError, "seed takes a whole number from 0", {"seed": -1}),
    "threads": (RecipeError, "threads takes a whole number from 1", {"threads": 0}),
    "loss": (RecipeError, "loss= is of task supervised; language has its own", {"loss": "mse"}),
    "experiment": (RecipeError, "porism.compare('language', 'steps-question')", {"recipe": "steps-question"}),
    "callback": (RecipeError, "callbacks: 5 cannot be called", {"callbacks": [5]}),
    "data": (PorismError, "nowhere.txt: no such file or folder", {"data": "nowhere.txt"}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_said_in_one_line_of_python(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind, words, given = WRONG[wrong]
    with pytest.raises(kind, match=re.escape(words)) as raised:
        porism.train(**{"task": "language", "progress": False, **given})
    assert "--" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_taken_says_how_to_go_on(trained: porism.Run, text: str) -> None:
    with pytest.raises(RunError) as raised:
        porism.train("language", data=text, out=trained.path, threads=1, device="cpu", **TINY)
    assert f"{trained.path} already holds a run. Go on with it by porism.load({str(trained.path)!r}).resume()" in str(
        raised.value
    )
    with pytest.raises(RunError) as raised:
        porism.train("language", data=text, out=trained.path, seed=7, threads=1, device="cpu", **{**TINY, "epochs": 9})
    assert f"{trained.path} already holds another run: seed is 1, requested 7; epochs is " in str(raised.value)
    assert "requested 9. Choose another out, or go on with that one by: porism.load(" in str(raised.value)
    with pytest.raises(RunError, match="is not a run"):
        porism.load(trained.path.parent)


def _problems() -> list[str]:
    """What every error outside of the command line says is wrong: the first thing it is given, its holes filled.

    Sweeps and torchrun are of the command line too.
    """
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        if {"cli", "claims", "kernels", "sweep", "distributed"} & set(file.relative_to(SOURCE).parts):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                texts = [_filled(part) for part in [node.exc.args[0]] if isinstance(part, ast.Constant | ast.JoinedStr)]
                found += texts
    return found


def _filled(part: ast.Constant | ast.JoinedStr) -> str:
    values = part.values if isinstance(part, ast.JoinedStr) else [part]
    return "".join(str(one.value) if isinstance(one, ast.Constant) else "3" for one in values)


def test_an_error_names_options_in_its_advice_alone_which_has_both_words() -> None:
    problems = _problems()
    assert len(problems) > 300
    assert [text for text in problems if re.search(r"(?<![\w-])--[a-z]|porism (train|predict|compare) ", text)] == []
