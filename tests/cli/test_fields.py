"""Every field of a recipe is an option of its own, listed in the help at the recipe's value."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.cli.conftest import Say

from porism.cli.compare import CompareCommand
from porism.cli.train import TrainCommand
from porism.cli.words import field_options, option_value, positional_words, verb_options
from porism.runs.field_help import field_names, meanings
from porism.tasks import TASKS, choices

SMALL = ["--hidden-size", "8", "--embedding_dim", "6", "--batch-size=4", "--seq-len", "5", "--epochs", "1"]


def recipe_class(task: str) -> type:
    known = choices(task)
    return type(known.recipes[known.default])


@pytest.mark.parametrize("task", TASKS)
def test_no_field_is_named_like_another_option(task: str) -> None:
    fields = field_options(recipe_class(task))
    assert not fields.keys() & {*verb_options(TrainCommand), *verb_options(CompareCommand), "--help", "--debug"}


@pytest.mark.parametrize("task", TASKS)
def test_every_field_says_what_it_means(task: str) -> None:
    texts = meanings(recipe_class(task))
    assert [name for name in field_names(recipe_class(task)) if not texts[name]] == []


@pytest.mark.parametrize("task", TASKS)
def test_all_recipes_of_a_task_have_the_same_fields(task: str) -> None:
    assert {type(recipe) for recipe in choices(task).recipes.values()} == {recipe_class(task)}


def test_the_help_lists_every_field_at_the_recipe_s_value(say: Say) -> None:
    shown = say("train", "language", "attention", "--help").out
    assert {f"--{name.replace('_', '-')}" for name in field_names(recipe_class("language"))} <= set(
        re.findall(r"--[a-z-]+", shown)
    )
    words = " ".join(shown.replace("│", " ").split())
    assert "--seq-len INT Tokens of a window, through which the gradient runs back. (default: 40)" in words
    assert "--max-grad-norm FLOAT|none Largest norm of the whole gradient. (default: none)" in words
    assert "--tie-weights, --no-tie-weights One matrix for the embedding and the projection. (default: false)" in words
    assert "elman (the default), lstm, attention" in words
    assert words.startswith("usage: porism train language attention [-h] [OPTIONS] Train")
    of_default = " ".join(say("train", "language", "--help").out.replace("│", " ").split())
    assert of_default.startswith("usage: porism train language [-h] [OPTIONS] RECIPE Train")
    assert "gradient runs back. (default: 20)" in of_default
    of_both = " ".join(say("compare", "language", "elman", "attention", "--help").out.replace("│", " ").split())
    assert "gradient runs back. (default: each recipe's own)" in of_both


@pytest.mark.parametrize("verb", ["train", "compare", "sweep"])
def test_the_help_names_every_task(say: Say, verb: str) -> None:
    shown = " ".join(say(verb, "--help").out.replace("│", " ").split())
    *first, last = TASKS
    assert f"What to learn: {', '.join(first)} or {last}." in shown


def test_no_help_imports_torch_or_sympy() -> None:
    helps = [["train"], ["train", "speech"], ["train", "language", "elman"], ["compare", "images", "grid-4"], ["runs"]]
    helps += [["recipes"], ["completion"]]
    code = (
        f"import sys, io; from porism.cli import main; sys.stdout = io.StringIO()\n"
        f"for words in {helps}: assert main([*words, '--help']) == 0\n"
        "sys.exit(', '.join({'torch', 'sympy'} & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_field_s_option_does_what_set_does(say: Say, text: Path) -> None:
    flags = ["--max-grad-norm", "none", "--variational-dropout", "--no-tie-weights"]
    assert say("train", "language", "--data", text, SMALL, flags, "--out", "run").code == 0
    held = tomllib.loads(Path("run/recipe.toml").read_text())
    widths = {"hidden_size=8", "embedding_dim=6", "batch_size=4", "seq_len=5", "epochs=1"}
    assert set(held["overrides"]) == widths | {*("max_grad_norm=none", "variational_dropout=true", "tie_weights=false")}
    fields = held["fields"]
    assert (fields["hidden_size"], fields["seq_len"], fields["variational_dropout"]) == (8, 5, True)
    assert "max_grad_norm" not in fields


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("train language --epoch 3", "there is no option --epoch. Did you mean --epochs?"),
        ("train language --no-base", "there is no option --no-base. Did you mean --no-baselines?"),
        ("train language --nonsense", "there is no option --nonsense. See porism train --help."),
        ("compare language elman --work 2", "there is no option --work. Did you mean --workers?"),
        ("runs --js", "there is no option --js. Did you mean --json?"),
        ("train language elman --hiden_size=3", "there is no option --hiden_size. Did you mean --hidden-size?"),
        ("compare language elman lstm --epoch 3", "there is no option --epoch. Did you mean --epochs?"),
        ("evaluate run --splt test", "there is no option --splt. Did you mean --split?"),
        ("train language --keep 0.9", "keep is now dropout: --dropout 0.1"),
        ("train speech --padded-loss=true", "padded_loss is now ignore_padding: --no-ignore-padding"),
        ("train --epochs 3", "which task? Write porism train TASK"),
        ("train language --epochs 0", "epochs=0 cannot be: expected int >= 1. Set it with --epochs."),
        ("train language --epochs x", "epochs=x cannot be: expected int, got str. Set it with --epochs."),
        ("train language --optimizer adamm", "optimizer=adamm cannot be: expected one of adam, adamw, sgd."),
        ("compare language elman lstm --max-grad-norm x", "max_grad_norm=x cannot be: expected float | none, got str."),
        ("train language --tie-weights=true", "--tie-weights takes no value. Write --tie-weights or --no-tie-weights."),
        ("train language --epochs 3 --set epochs=4", "epochs is set twice: --epochs and --set epochs=4."),
        ("train language --epochs", "Missing value for argument '--epochs'."),
        ("train nowhere/recipe.toml --epochs 3", "there is no task 'nowhere/recipe.toml'"),
    ],
)
def test_a_mistake_in_an_option_is_told_by_the_nearest(say: Say, words: str, answer: str) -> None:
    completed = say(words.split())
    assert completed.code == 2
    assert answer in completed.err
    assert completed.err.count("\n") == 1


def test_a_resumed_run_takes_lengths_as_options_and_no_other_field(say: Say, text: Path) -> None:
    assert say("train", "language", "--data", text, SMALL, "--lr-scheduler", "constant", "--out", "run").code == 0
    refused = say("train", "--resume", "run", "--hidden-size", "9")
    assert refused.code == 2
    assert "hidden_size is 8, requested 9" in refused.err
    longer = say("train", "--resume", "run", "--epochs", "2", "--hidden-size", "8")
    assert (longer.code, "epochs 1 -> 2" in longer.out) == (0, True)
    assert "(default: 2)" in say("train", "--resume", "run", "--help").out


def test_words_are_told_from_the_values_of_options() -> None:
    flags = verb_options(TrainCommand)
    assert (flags["--json"], flags["--data"], "--task" in flags) == (True, False, False)
    words = ["--json", "language", "--data", "elman", "--epochs", "3", "--set=a=b", "lstm", "-"]
    assert positional_words(words, flags) == ["language", "lstm", "-"]
    assert option_value(words, "--data") == "elman"
    assert option_value(words, "--out") is None
