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
        ("a\nb\n", "line 1: 'a', expected 1 number and a target"),
        ("?,1,0\n1,2,0\n", "line 1: '?,1,0', expected 2 numbers and a target"),
        ("?,NA,0\n1,2,0\n", "line 1: '?,NA,0', expected 2 numbers and a target"),
        ("nan,x,0\n1,2,0\n", "line 1: 'nan,x,0', expected 2 numbers and a target"),
        ("1,0\n2,1\n3,\n", "line 3: no target in the last column"),
        ("x,y\n1,0\n\n2, \n", "line 4: no target in the last column"),
        ("1,a\n2,b\n3,nan\n", "line 3: target 'nan', expected a finite number or a word"),
        ("1,0\n2,1\n3,1e400\n", "line 3: target '1e400', expected a finite number or a word"),
        ("1,0\n2,1\n3,NA\n", "line 3: target 'NA' is a word, and 2 of 3 targets are numbers"),
        ("1,1\n2,2\n3,a\n", "line 3: target 'a' is a word, and 2 of 3 targets are numbers"),
        ("1,a\n2,2\n3,b\n", "line 2: target '2' is a number, and 2 of 3 targets are words"),
        ("1,0\n2,99999999999999999999\n3,1\n", "line 2: class '99999999999999999999', expected a whole number"),
        ("1,0\n2,9223372036854775808\n3,1\n", "line 2: class '9223372036854775808', expected a whole number"),
        ("1;2;0\n1;x;0\n", "line 2: '1;x;0', expected 2 numbers and a target"),
        ("1,5;a\n2,5;b\n", "line 1: '1,5;a', expected 1 number and a target. Write numbers with a point, such as 1.5"),
        ("1,5\t2\t0\n2,5\t3\t1\n", "expected 2 numbers and a target. Write numbers with a point, such as 1.5"),
        ("a,b,c\n1;2;0\n2;3;1\n", "The first row is separated by commas: separate all rows alike."),
        ("1,5;2;0\n1,5;3;0\n", "expected 2 numbers and a target. Write numbers with a point, such as 1.5"),
    ],
)
def test_a_bad_row_is_named_by_its_line(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(content)
    with pytest.raises(DataError) as raised:
        load_data(str(path), MLP)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("target", ["", "nan", "1e400", "NA"])
def test_a_number_to_learn_that_is_none_is_named_by_its_line(target: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("".join(f"{n},{n / 2}\n" for n in range(9)) + f"9,{target}\n")
    with pytest.raises(DataError, match="line 10: "):
        load_data(str(path), with_fields(MLP, {"loss": "mse"}))


def test_targets_beyond_whole_numbers_of_64_bits_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("".join(f"{n},{n}{'0' * 20}\n" for n in range(9)))
    targets = load_data(str(path), with_fields(MLP, {"loss": "mse"})).splits["train"].batch(torch.arange(3))[-1]
    assert targets.is_floating_point()
    assert targets.isfinite().all()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("header", [True, False])
def test_tables_are_separated_as_their_first_row_is(separator: str, header: bool, tmp_path: Path) -> None:
    rows = [f"{n},{n + 0.5},{n % 2}" for n in range(20)]
    found = []
    for name, used in (("commas.csv", ","), ("others.csv", separator)):
        text = "\n".join((["height,width,kind"] if header else []) + rows).replace(",", used)
        (tmp_path / name).write_text(text)
        found.append(load_data(str(tmp_path / name), MLP).fingerprint())
    assert found[0] == found[1]


def test_semicolons_in_a_class_separate_nothing(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("".join(f"{n},{'a;b;c' if n % 2 else 'd;e;f'}\n" for n in range(20)))
    assert load_data(str(tmp_path / "data.csv"), MLP).classes == ("a;b;c", "d;e;f")


def test_a_run_says_that_it_has_read_a_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{n},{n % 2}\n" for n in range(20))
    for name, header in (("with", "height,kind\n"), ("without", "")):
        data = tmp_path / f"{name}.csv"
        data.write_text(header + rows)
        run = porism.train("supervised", "linear", data=data, epochs=1, out=tmp_path / name, progress=True)
        facts = json.loads((run.path / "metrics.json").read_text())["facts"]
        told = " ".join(capsys.readouterr().err.split())
        assert facts.get("header") == ("height, kind" if header else None)
        assert ("the first row is read as a header, and not as an example: height, kind" in told) == bool(header)


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
