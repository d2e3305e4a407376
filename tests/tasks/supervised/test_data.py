"""Inputs and targets from files, and how they are split."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import porism
from porism.errors import DataError
from porism.runs.recipe import with_fields
from porism.tasks.blocks.held_out import split_positions
from porism.tasks.supervised.data import load_data, own_data
from porism.tasks.supervised.recipes import RECIPES

MLP = RECIPES["mlp"]


@pytest.mark.parametrize("seed", range(3))
def test_every_class_is_in_every_split_by_its_share(seed: int) -> None:
    labels = torch.tensor([0] * 50 + [1] * 30 + [2] * 20)
    found = split_positions(100, {"valid": 0.2, "test": 0.1}, seed, labels)
    counts = {split: labels[positions].bincount(minlength=3).tolist() for split, positions in found.items()}
    assert counts == {"train": [35, 21, 14], "valid": [10, 6, 4], "test": [5, 3, 2]}
    assert sorted(torch.cat(list(found.values())).tolist()) == list(range(100))


@pytest.mark.parametrize("apart", [False, True])
def test_test_examples_whose_inputs_train_has_are_counted(tmp_path: Path, apart: bool) -> None:
    """Labels by chance, each example three times: what is right on test was learned by heart."""
    draw = torch.Generator().manual_seed(0)
    X, y = torch.randn(60, 4, generator=draw).repeat(3, 1), (torch.arange(60) % 3).repeat(3)
    data = {"train": (X[60:], y[60:]), "valid": (X[:30], y[:30]), "test": (X[30:60], y[30:60])} if apart else (X, y)
    run = porism.train("supervised", "linear", data=data, epochs=1, out=tmp_path / "run", baselines=False)
    found = json.loads((run.path / "metrics.json").read_text())
    assert found["copies"]["test"] > 0.8 * found["examples"]["test"]
    assert f"test examples {found['copies']['test']} are in train too" in (run.path / "report.html").read_text()


def test_a_class_that_a_split_lacks_is_told(tmp_path: Path) -> None:
    """One example is in one split: what is measured on test says nothing of its class."""
    table = tmp_path / "table.csv"
    table.write_text("".join(f"{n},{n * n % 13},{'rare' if n == 7 else 'often'}\n" for n in range(100)))
    told = load_data(str(table), MLP).facts["missing classes"]
    assert len(told.split("; ")) == 2
    assert "has no rare example" in told
    assert "missing classes" not in load_data(None, MLP).facts


def test_three_examples_are_the_fewest() -> None:
    assert {s: len(p) for s, p in split_positions(3, {"valid": 0.15, "test": 0.15}, 0).items()} == {
        "train": 1,
        "valid": 1,
        "test": 1,
    }
    with pytest.raises(DataError, match="2 examples, expected at least 3"):
        split_positions(2, {"valid": 0.15, "test": 0.15}, 0)


def test_a_table_and_an_archive_hold_the_same(tmp_path: Path) -> None:
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    np.savez(tmp_path / "data.npz", X=X, y=y)
    rows = "\n".join(f"{a},{b},{label}" for (a, b), label in zip(X, y, strict=True))
    (tmp_path / "data.csv").write_text(f"height,width,kind\n{rows}\n")
    prints = {load_data(str(tmp_path / name), MLP).fingerprint() for name in ("data.npz", "data.csv")}
    assert prints == {own_data((X, y), MLP).fingerprint()}


def test_names_of_classes_come_from_the_table(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("".join(f"{n},{'dog' if n % 2 else 'cat'}\n" for n in range(20)))
    assert load_data(str(tmp_path / "data.csv"), MLP).classes == ("cat", "dog")
    with pytest.raises(DataError, match="targets are text, and mse takes numbers"):
        load_data(str(tmp_path / "data.csv"), with_fields(MLP, {"loss": "mse"}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1,2,a\n1,b,a\n", "line 2: '1,b,a', expected 2 numbers and a target"),
        ("1,2,a\n1,a\n", "line 2: '1,a', expected 2 numbers and a target"),
        ("1,2,a\n1,nan,a\n", "line 2"),
        ("a\nb\n", "expected 1 numbers and a target"),
    ],
)
def test_a_bad_row_is_named_by_its_line(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(content)
    with pytest.raises(DataError) as raised:
        load_data(str(path), MLP)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


def test_classes_of_text_have_one_number_in_all_splits() -> None:
    X = torch.zeros(4, 1)
    data = own_data({"train": (X, ["b", "c", "b", "c"]), "valid": (X, ["a", "a", "b", "c"])}, MLP)
    assert data.classes == ("a", "b", "c")
    targets = {split: examples.batch(torch.arange(4))[-1].tolist() for split, examples in data.splits.items()}
    assert targets == {"train": [1, 2, 1, 2], "valid": [0, 0, 1, 2]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("".join(f"{n},{n}\n" for n in range(9)) + "1,1000000000\n", "labels run to 1000000000, so 1,000,000,001"),
        ('1,"a\n' + "b" * 140_000, "line 2: field larger than field limit"),
        ("1,0\n", "1 examples, expected at least 3"),
    ],
)
def test_what_no_model_can_learn_is_told_by_the_file(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(content)
    with pytest.raises(DataError) as raised:
        load_data(str(path), MLP)
    assert words in str(raised.value)
    assert str(raised.value).startswith(str(path))


def test_a_number_that_is_none_is_told_by_file_and_row(tmp_path: Path) -> None:
    X = np.arange(12.0).reshape(6, 2)
    X[4, 1] = np.nan
    np.savez(tmp_path / "data.npz", X=X, y=np.arange(6) % 2)
    with pytest.raises(DataError, match=r"data\.npz: the input at \[4, 1\] is nan, expected finite numbers"):
        load_data(str(tmp_path / "data.npz"), MLP)


@pytest.mark.parametrize("kind", ["bool", "uint8", "int32"])
def test_classes_may_be_of_any_whole_type(kind: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
    np.savez(tmp_path / "data.npz", X=X, y=(X[:, 0] > 0).astype(kind))
    data = str(tmp_path / "data.npz")
    run = porism.train("supervised", "linear", data=data, epochs=1, out=tmp_path / "run", baselines=False)
    assert 0 <= run.metrics["test"]["accuracy"] <= 1
