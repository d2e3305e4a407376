"""A user's mistake is one clear line on standard error and exit code 2."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.cli.conftest import TINY, Say

from porism.runs import checkpoint


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "one.txt").write_text("word")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("CLAIMS = [Claim()]")
    (tmp_path / "number.py").write_text("CLAIMS = 3")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 9)
    (tmp_path / "broken.txt.gz").write_bytes(gzip.compress(b"the cat\n" * 999)[:-20])
    (tmp_path / "folder").mkdir()
    (tmp_path / "exit0.py").write_text("import sys; sys.exit(0)")
    (tmp_path / "leaving.py").write_text(LEAVING)
    (tmp_path / "classes.csv").write_text("".join(f"{row},{row % 5},{row % 2}\n" for row in range(40)))
    (tmp_path / "words.csv").write_text("".join(f"{row},{row % 5},{'ab'[row % 2]}\n" for row in range(40)))
    (tmp_path / "numbers.csv").write_text("".join(f"{row},{row % 5},{row}.5\n" for row in range(40)))
    return tmp_path


LEAVING = """
import sys
from torch import nn

class Net(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)

class Late(Net):
    def forward(self, x):
        sys.exit("too late")

def make(*sizes):
    sys.exit(0)
"""


MISTAKES = [
    ("train language --data nowhere.txt", "nowhere.txt"),
    ("train language --data empty.txt", "empty.txt"),
    ("train language --data one.txt", "one.txt"),
    ("train language --data binary.txt", "binary.txt"),
    ("train language --data broken.txt.gz", "broken.txt.gz"),
    ("train language --data folder", "folder"),
    ("train language elmann", "language has no recipe 'elmann'. Did you mean elman?"),
    ("train langauge", "there is no task 'langauge'. Did you mean language?"),
    ("train words --data one.txt", "one.txt: one word only, 'word', without a context. Give more text."),
    ("train words --data binary.txt", "binary.txt, byte 0: a zero byte, so no text."),
    ("train", "which task?"),
    ("train language --set hiden=3", "has no field 'hiden'. Did you mean hidden_size?"),
    ("train language --set hidden_size=x", "hidden_size=x cannot be: expected int, got str"),
    ("train language --set hidden_size=0", "hidden_size=0 cannot be: expected int >= 1"),
    ("train language --set batch_size=100000", "100000 rows"),
    (
        "train language --set tie_weights=true --set embedding_dim=5 --set hidden_size=6",
        "tie_weights needs embedding_dim and hidden_size of one size",
    ),
    ("train language --device tpu", "there is no device 'tpu'. Use --device auto, cpu or cuda."),
    ("train language --device meta", "device 'meta' is not supported"),
    ("train language --threads 0", "--threads takes a whole number from 1 to "),
    ("train language --threads 100000", "--threads takes a whole number from 1 to "),
    ("compare language elman --threads 100000", "--threads takes a whole number from 1 to "),
    ("train language --threads x", "Error parsing --threads: invalid literal for int() with base 10: 'x'."),
    ("train language --seed 99999999999999999999999", "--seed takes a whole number from 0 to 4294967295, got 9999"),
    ("train images --seed 18446744073709551615", "--seed takes a whole number from 0 to 4294967295"),
    ("train words --seed -1", "--seed takes a whole number from 0 to 4294967295, got -1."),
    ("compare language elman --seed 99999999999999999999999", "--seed takes a whole number from 0 to 4294967295"),
    ("compare language elman --seed 4294967295 --seeds 2", "--seed 4294967295 with --seeds 2 goes beyond"),
    ("check gradients --seed 99999999999999999999999", "--seed takes a whole number from 0 to 4294967295"),
    ("train graphs --set split_seed=99999999999999999999999", "split_seed=99999999999999999999999 cannot be"),
    ("train language --checkpoint-every nan", "--checkpoint-every takes seconds from 0 on, got nan."),
    ("train language --checkpoint-every -5", "--checkpoint-every takes seconds from 0 on, got -5."),
    ("compare language elman --checkpoint-every=nan", "--checkpoint-every takes seconds from 0 on, got nan."),
    ("train language --set learning_rate=inf", "learning_rate=inf cannot be: expected a finite number"),
    ("compare language elman --set weight_decay=inf", "weight_decay=inf cannot be: expected a finite number"),
    ("train language --set max_grad_norm=inf", "max_grad_norm=inf cannot be: expected a finite number"),
    ("train language --data None", "None: no such file or folder"),
    ("train --recipes --resume folder language", "--recipes lists what can be trained"),
    (
        "train language --seed x",
        "Error parsing --seed: invalid literal for int() with base 10: 'x'. See porism train --help.",
    ),
    ("train language --qqqq", "there is no option --qqqq. See porism train --help."),
    ("evaluate", "See porism evaluate --help."),
    ("train --resume folder", "folder is not a run: it has no recipe.toml"),
    ("train language nowhere/recipe.toml", "nowhere/recipe.toml cannot be read"),
    ("compare language elman nothing", "language has no recipe 'nothing'"),
    ("compare language elman --resume", "--resume needs --out"),
    ("compare language elman --seeds 1,x", "--seeds takes a whole number, or some with commas, got 1,x."),
    ("compare language elman --seeds 1,2,1", "--seeds 1,2,1 names a seed twice"),
    ("compare images pooling-question --learning-rate 0.5", "pooling-question tries learning_rate itself"),
    ("compare language elman --seeds 0", "--seeds takes a whole number from 1 to 10000, got 0"),
    ("compare language elman --seeds 10000000000", "--seeds takes a whole number from 1 to 10000, got 10000000000"),
    ("evaluate nowhere", "nowhere is not a run"),
    ("predict folder hello", "folder is not a run"),
    ("predict folder", "folder is not a run"),
    (
        "predict folder hello --set seed=99999999999999999999999",
        "--set seed=99999999999999999999999: a whole number has",
    ),
    ("predict folder hello --set top_k=-99999999999999999999", "a whole number has at most 64 bits"),
    ("predict folder --analogy a b c", "folder is not a run"),
    ("report folder", "folder has no recipe.toml"),
    ("data fetch nothing", "nothing"),
    ("check everything", "invalid choice 'everything'"),
    ("check claims --topic graph", "the ledger has no topic 'graph'. Did you mean graphs?"),
    ("check claims --id 000-99", "the ledger has no claim '000-99'. Did you mean 000-"),
    (
        "check gradients --topic graphs",
        "--topic, --id, --ledger, --out, --rerun and --kept are for claims, got gradients",
    ),
    ("check claims --ledger nowhere.py", "nowhere.py: there is no such file"),
    ("check claims --ledger empty.txt", "empty.txt: not a Python file"),
    ("check claims --ledger empty.py", "empty.py: holds no CLAIMS"),
    ("check claims --ledger number.py", "number.py: holds no CLAIMS"),
    ("check claims --kept nowhere", "nowhere: there is no such folder. Give --kept a folder of kept results."),
    ("check claims --kept one.txt", "one.txt: there is no such folder."),
    ("train images --model broken.py:Net", "broken.py cannot be run: NameError: name 'Claim' is not defined."),
    ("train images --model :Net", ":Net names nothing of a file or a module. Write file.py:Name, or package.module:N"),
    ("train images --model number.py:", "number.py: names nothing of a file or a module. Write file.py:Name"),
    ("train images --model number.py:CLAIMS", "model is int, expected a torch.nn.Module or a function"),
    ("train images --model nowhere.py:Net", "nowhere.py is not there. Write file.py:Name, or package.module:Name"),
    ("check claims --ledger broken.py", "broken.py: cannot be run: NameError"),
    ("check claims --ledger exit0.py", "exit0.py: cannot be run: it calls sys.exit(0), which would end porism"),
    ("train supervised --model exit0.py:N", "exit0.py cannot be run: it calls sys.exit(0), which would end porism"),
    ("train supervised --model leaving.py:make", "model make cannot be made: it calls sys.exit(0), which"),
    (
        "train supervised --data classes.csv --model leaving.py:Late --loss cross_entropy",
        "train runs code of yours: it calls sys.exit('too late'), which would end porism without a word.",
    ),
    ("cost exit0.py:N --json", "cost: exit0.py:N: exit0.py cannot be run: it calls sys.exit(0), which"),
    ("cost leaving.py:make --with 3 --input B --json", "cost: make(3) cannot be made: it calls sys.exit(0), which"),
    ("cost leaving.py:make --input B --json", "cost runs code of yours: it calls sys.exit(0), which would end"),
    ("cost leaving.py:Late --input 2", "cost runs code of yours: it calls sys.exit('too late'), which"),
    (
        "train supervised --data numbers.csv",
        "cross_entropy takes classes as whole numbers. For numbers use --loss mse, for probabilities --loss bce.",
    ),
    (
        "train supervised --data words.csv --loss mse",
        "targets are text, and mse takes numbers. For classes use --loss cross_entropy.",
    ),
    (
        "train supervised --data classes.csv --model leaving.py:Net",
        "which loss? The model takes no target and so has none itself. Give --loss cross_entropy, mse or bce.",
    ),
    ("check claims --id 000-24 --out ledger.txt", "written as .html or .md, got ledger.txt"),
    ("trian language", "there is no command 'trian'. Did you mean train?"),
]


@pytest.mark.parametrize(("command", "message"), MISTAKES, ids=[command for command, _ in MISTAKES])
def test_a_mistake_is_one_line_and_exit_2(say: Say, files: Path, command: str, message: str) -> None:
    completed = say(command.split())
    assert completed.code == 2
    assert message in completed.err
    assert completed.err.startswith("porism: ")
    assert completed.err.count("\n") == 1
    assert "Traceback" not in completed.err
    assert not (files / "runs").exists()


def test_a_recipe_of_a_module_of_ones_own_needs_that_module(say: Say) -> None:
    completed = say("train", "supervised", "--model", "own")
    assert completed.code == 2
    assert completed.err == ("porism: recipe mlp is of a module of your own. Give it with --model FILE.py:Name.\n")


def test_data_that_two_tasks_call_alike_is_named_once(say: Say) -> None:
    known = say(["data", "fetch", "synthetik"]).err.count("synthetic")
    assert known == 1


LONG, ZERO, NO_TEXT = "x" * 300, "a\0b", "a\udcff"


@pytest.mark.parametrize(
    "path", [LONG, f"folder/{LONG}", "x/" * 2048, ZERO, NO_TEXT], ids=lambda path: ascii(path)[:12]
)
@pytest.mark.parametrize(
    "command",
    [
        ["train", "language", "--out"],
        ["train", "language", "--data"],
        ["train", "--resume"],
        ["compare", "language", "elman", "--out"],
        ["compare", "language", "elman", "--resume", "--out"],
        ["evaluate"],
        ["report"],
        ["report", "folder", "--out"],
        ["predict", "--set=length=1", "--", "PATH", "hello"],
        ["train", "language", "PATH.toml"],
        ["check", "claims", "--id", "000-24", "--out"],
        ["check", "claims", "--ledger"],
        ["cost", "elman", "--against", "readout", "--plot"],
    ],
    ids=" ".join,
)
def test_a_path_that_no_file_can_have_is_one_line_and_exit_2(
    say: Say, files: Path, command: list[str], path: str
) -> None:
    words = [word.replace("PATH", path) for word in command]
    before = sorted(files.rglob("*"))
    completed = say(words if words != command else [*words, path])
    assert completed.code == 2
    assert completed.err.startswith("porism: the path ")
    assert completed.err.count("\n") == 1
    assert len(completed.err) < 200
    assert sorted(files.rglob("*")) == before


def test_a_folder_may_have_brackets_and_colons_in_its_name(say: Say, text: Path) -> None:
    name = "a[/b] [bold]:smile:"
    fixed = ["--device=cpu", "--threads=1", "--set=precision=fp32"]
    completed = say("train", "language", "--data", text, "--out", name, fixed, TINY)
    assert (completed.code, completed.err) == (0, "")
    assert f"language elman on cpu in fp32 with 1 thread: {name}\n" in completed.out
    assert f"report: {name}/report.html\n" in completed.out
    for command in (["train", "--resume", name], ["evaluate", name], ["predict", name, "the"], ["report", name]):
        again = say(command)
        assert (again.code, again.err) == (0, ""), command


def test_without_tensorboard_no_run_is_begun(say: Say, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    completed = say("train", "language", "--data", text, "--out", "run", "--tensorboard", TINY)
    assert completed.code == 2
    assert "TensorBoard needs a package" in completed.err
    assert not Path("run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_gpu_that_is_not_there(say: Say) -> None:
    completed = say(["train", "language", "--device", "cuda"])
    assert completed.code == 2
    assert completed.err == "porism: device 'cuda' is not there: torch sees 0 CUDA devices. Use --device cpu or auto.\n"


def test_debug_shows_where_it_came_from(say: Say) -> None:
    completed = say(["train", "language", "elmann", "--debug"])
    assert completed.code == 2
    assert "Traceback" in completed.err


def test_a_folder_with_a_run_is_not_overwritten(say: Say, text: Path) -> None:
    assert say("train", "language", "--data", text, "--out", "run", TINY).code == 0
    before = Path("run/metrics.json").read_bytes()
    completed = say("train", "language", "--data", text, "--out", "run", TINY)
    assert completed.code == 2
    assert "run already holds a run. Go on with it by --resume run" in completed.err
    assert Path("run/metrics.json").read_bytes() == before


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounting a small disk needs root on Linux")
def test_a_full_disk_leaves_no_half_written_checkpoint(say: Say, text: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        train = (
            "train",
            "language",
            "--data",
            text,
            "--out",
            disk / "run",
            TINY,
            "--set=hidden_size=60",
            "--set=epochs=9",
        )
        completed = say(*train)
        assert completed.code == 2
        assert f"porism: the disk is full: {disk / 'run'}" in completed.err
        assert completed.err.count("\n") == 1
        for folder in (disk / "run").iterdir():
            if folder.is_dir():
                checkpoint.read(folder)
    finally:
        subprocess.run(["umount", disk], check=True)
