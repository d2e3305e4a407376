"""Before a training --show says what it would do and --fast-dev-run tries it; --model brings a module of one's own."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.conftest import TINY, Say

from porism.tasks import find
from porism.training.device import choose_precision

NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 10)

    def forward(self, images):
        return self.linear(images.flatten(1))

def made(info):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, info.num_classes))

def narrow():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5))

def wide(inputs, outputs):
    return nn.Linear(inputs, outputs)
"""


def last_line(out: str) -> Any:
    return json.loads(out.strip().splitlines()[-1])


def test_show_says_what_the_run_would_do_and_trains_nothing(say: Say, text: Path) -> None:
    words = [
        "train",
        "language",
        "attention",
        "--data",
        str(text),
        "--epochs",
        "3",
        "--device",
        "cpu",
        "--threads",
        "1",
    ]
    shown = say(words, "--show").out
    told = " ".join(shown.split())
    assert "seq_len 40 INT Tokens of a window, through which the gradient runs back." in told
    assert "At most 3 epochs, until 3 validations bring nothing better, on cpu in" in told
    assert "into runs/language-attention." in told
    assert not Path("runs").exists()
    result = last_line(say(words, "--show", "--json").out)
    assert (result["fields"]["epochs"], result["threads"], result["run"]) == (3, 1, "runs/language-attention")
    again = last_line(say(shlex.split(result["command"])[1:], "--show", "--json").out)
    fields = {
        **result["fields"],
        "precision": choose_precision(find("language").recipes["attention"], torch.device("cpu")),
    }
    assert {**again, "command": ""} == {**result, "command": "", "fields": fields}


def test_fast_dev_run_tries_all_and_keeps_nothing(say: Say, text: Path) -> None:
    tried = say("train", "language", "--data", text, TINY, "--fast-dev-run", "--quiet")
    assert tried.code == 0
    assert "language elman works: one step, its evaluation and its report. Nothing was kept." in tried.out
    assert not Path("runs").exists()
    assert "leave --out out" in say("train", "language", "--fast-dev-run", "--out", "run", "--data", text).err
    broken = say("train", "language", "--data", "nowhere.txt", "--fast-dev-run")
    assert (broken.code, "nowhere.txt" in broken.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--tune", "0"], "tuning takes minutes above 0, got 0. Use --tune 5."),
        (["--tune=-2"], "tuning takes minutes above 0, got -2. Use --tune 5."),
        (["--tune", "0.00001"], "1e-05 minutes of tuning are shorter than one trial: 1 epoch of elman"),
        (["--tune", "1", "--show"], "--tune is for a new run. Leave --resume, --show and --fast-dev-run out."),
    ],
)
def test_a_search_that_cannot_be_is_refused_in_a_line(say: Say, text: Path, words: list[str], line: str) -> None:
    refused = say("train", "language", "--data", text, TINY, words)
    assert refused.code == 2
    assert refused.err.startswith(f"porism: {line}")
    assert refused.err.count("\n") == 1
    assert not Path("runs").exists()


def test_baselines_are_left_out_on_request_and_when_it_is_repeated(say: Say, text: Path) -> None:
    alone = last_line(say("train", "language", "--data", text, TINY, "--no-baselines", "--json").out)
    assert alone["baselines"] == {}
    assert "--no-baselines" in alone["command"]
    assert last_line(say("train", "language", "--data", text, TINY, "--json").out)["baselines"]
    assert (
        "baselines is True, requested False" in say("train", "--resume", "runs/language-elman-2", "--no-baselines").err
    )


def test_quiet_leaves_the_epochs_out(say: Say, text: Path) -> None:
    lines = say("train", "language", "--data", text, TINY, "--quiet").out
    assert "epoch " not in lines
    assert "report: " in lines
    assert say("data", "list", "--quiet").code == 0


def test_a_module_of_one_s_own_is_trained_in_a_task(say: Say, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    words = ["train", "images", "--model", "net.py:made", "--epochs", "1", "--batch-size", "256", "--device", "cpu"]
    result = last_line(say(words, "--json", "--quiet").out)
    assert (result["recipe"], result["parameters"], result["run"]) == ("made", 650, "runs/images-made")
    assert result["command"].startswith(f"porism train images --model {tmp_path / 'net.py'}:made --set epochs=1")
    assert "net.py:made" in last_line(say(words, "--show", "--json").out)["command"]
    again = last_line(say(shlex.split(result["command"])[1:], "--json", "--quiet").out)
    assert again["metrics"] == result["metrics"]
    assert last_line(say("evaluate", "runs/images-made", "--json").out)["metrics"]["test"] == result["metrics"]["test"]
    refused = say(words, "--hidden-size", "3")
    assert (refused.code, "hidden_size is of the recipes' models" in refused.err) == (2, True)
    assert "nothing.py" in say("train", "images", "--model", "nothing.py:Net").err


def test_a_class_without_arguments_is_trained_and_what_does_not_fit_is_refused(say: Say, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    words = ["train", "images", "--epochs", "1", "--batch-size", "256", "--device", "cpu", "--quiet", "--model"]
    assert last_line(say(words, "net.py:Net", "--json").out)["parameters"] == 650
    narrow = say(words, "net.py:narrow")
    assert (narrow.code, narrow.err) == (
        2,
        "porism: images: the model's output is (256, 5), expected (256, 10): (B, classes).\n",
    )
    wide = say(words, "net.py:wide")
    assert (wide.code, "model wide takes inputs, outputs, expected no argument, or one" in wide.err) == (2, True)


def test_a_recipe_s_own_model_is_still_a_field(say: Say) -> None:
    shown = last_line(say("train", "images", "--model", "pooled", "--show", "--json").out)
    assert shown["fields"]["model"] == "pooled"
    refused = say("train", "images", "--model", "pooledd")
    assert "expected one of pooled" in refused.err


@pytest.mark.parametrize("option", ["--show", "--fast-dev-run", "--model=net.py:Net"])
def test_a_resumed_run_goes_on_as_it_is(say: Say, text: Path, option: str) -> None:
    assert say("train", "language", "--data", text, TINY, "--out", "run", "--quiet").code == 0
    assert "Leave --show, --fast-dev-run and --model out." in say("train", "--resume", "run", option).err
