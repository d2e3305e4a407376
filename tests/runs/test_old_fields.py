"""Fields of 0.1 are read under the names of 0.2, and mean what they meant."""

import dataclasses
import json
import shlex
from pathlib import Path

import pytest
import torch
from tests.runs.tiny_runs import copied

from porism.cli import main
from porism.errors import RecipeError
from porism.layers.dropout import dropout
from porism.runs.old_fields import RENAMED, convert, convert_epochs
from porism.runs.recipe import from_fields, override
from porism.runs.record import read_run
from porism.runs.run import RunFolder, read_recipe
from porism.tasks import TASKS, find

HERE = Path(__file__).parent
OLD = {
    "language": HERE / "run-0.1",
    **{task: HERE / "runs-0.1" / task / "run" for task in TASKS if (HERE / "runs-0.1" / task).exists()},
}
GRAPHS = OLD["graphs"]
CHOSEN_ANEW = {"language": ("dropout",)}


@pytest.mark.parametrize("task", sorted(OLD))
def test_a_recipe_of_0_1_is_todays_with_what_was_set(task: str) -> None:
    facts, fields = read_recipe(OLD[task] / "recipe.toml")
    today = find(task).recipes[facts.recipe]
    # Its description may be in better words today, and settings may have been chosen anew.
    same = {field: getattr(today, field) for field in ("description", *CHOSEN_ANEW.get(task, ()))}
    then = dataclasses.replace(from_fields(type(today), fields), **same)
    assert then == override(today, facts.overrides)


@pytest.mark.parametrize("task", sorted(RENAMED))
def test_every_new_name_is_a_field_and_no_old_one_is(task: str) -> None:
    recipe = find(task).recipes[find(task).default_recipe]
    known = {field.name for field in dataclasses.fields(recipe)}
    assert {change.name for change in RENAMED[task].values()} <= known
    meant_otherwise = {"patience", "epochs", "split"}
    assert not (set(RENAMED[task]) - meant_otherwise) & known


@pytest.mark.parametrize(
    ("task", "old", "new"),
    [
        ("language", {"keep": 0.9, "patience": 2, "select": "final"},
         {"dropout": 0.1, "patience": 3, "restore_best_weights": False}),
        ("language", {"hidden": 8, "feed_forward": 2}, {"hidden_size": 8}),
        ("language", {"hidden": 8, "feed_forward": 3}, {"hidden_size": 8, "dim_feedforward": 24}),
        ("speech", {"hidden": 8, "mlp": 16}, {"hidden_size": 8}),
        ("speech", {"hidden": 8, "mlp": 9},
         {"hidden_size": 8, "dim_feedforward": 9, "decoder_dim_feedforward": 9}),
        ("speech", {"hidden": 8, "mlp": 16, "decoder_mlp": 5}, {"hidden_size": 8, "decoder_dim_feedforward": 5}),
        ("speech", {"padded_loss": True}, {"ignore_padding": False, "scoring": "published"}),
        ("speech", {"padded_loss": False}, {"ignore_padding": True}),
        ("graphs", {"epochs": 20, "passes": 10, "fan": 0}, {"epochs": 200, "check_val_every_n_epoch": 10}),
        ("graphs", {"fan": 7, "normalisation": "row", "split": "given"},
         {"num_neighbors": 7, "normalization": "rw", "split": "public"}),
    ],
)  # fmt: skip
def test_values_are_converted(task: str, old: dict[str, object], new: dict[str, object]) -> None:
    assert convert(task, old) == new


def test_own_text_of_0_1_is_read_at_white_space(tmp_path: Path) -> None:
    recipe = copied(OLD["language"], tmp_path / "run") / "recipe.toml"
    facts, fields = read_recipe(recipe)
    assert facts.source == "text.txt"
    assert fields["tokenizer"] == "whitespace"
    assert facts.overrides[-1] == "tokenizer=whitespace"
    recipe.write_text(recipe.read_text().replace('"text.txt"', '"ptb"'))
    facts, fields = read_recipe(recipe)
    assert "tokenizer" not in fields
    assert "tokenizer=whitespace" not in facts.overrides


def test_dropout_drops_what_keep_did(is_whole: bool) -> None:
    x = torch.ones(1 << 14)
    for thousandths in range(1, 1000, 1 if is_whole else 7):
        keep = thousandths / 1000
        drop = convert("language", {"keep": keep})["dropout"]
        torch.manual_seed(thousandths)
        before = dropout(x, keep)
        torch.manual_seed(thousandths)
        assert torch.equal(dropout(x, 1 - drop), before), keep


@pytest.mark.parametrize(
    ("task", "assignment", "message"),
    [
        ("language", "keep=0.9", "keep is now dropout: --dropout 0.1"),
        ("language", "feed_forward=3", "feed_forward is now dim_feedforward: --dim-feedforward 384"),
        ("language", "keep=x", "keep is now dropout"),
        ("images", "select=final", "select is now restore_best_weights: --no-restore-best-weights"),
        ("graphs", "fan=0", "fan is now num_neighbors: --num-neighbors none"),
        ("speech", "padded_loss=true", "padded_loss is now ignore_padding: --no-ignore-padding"),
    ],
)
def test_an_old_name_is_refused_by_the_new_one(task: str, assignment: str, message: str) -> None:
    kind = find(task)
    with pytest.raises(RecipeError) as raised:
        override(kind.recipes[kind.default_recipe], [assignment])
    assert str(raised.value) == message


def test_the_command_line_ends_with_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "language", "--set", "keep=0.9"]) == 2
    assert "keep is now dropout: --dropout 0.1" in capsys.readouterr().err


def test_epochs_of_0_1_were_validations() -> None:
    assert convert_epochs({"epoch": 3, "step": 7}, every=10) == {"epoch": 30, "step": 7}
    new = {"epoch": 30, "check_val_every_n_epoch": 10}
    assert convert_epochs(new, every=10) == new


@pytest.fixture
def graphs(tmp_path: Path) -> Path:
    return copied(GRAPHS, tmp_path / "run")


def test_a_run_that_validated_after_ten_passes_is_reported_in_passes(graphs: Path) -> None:
    record = read_run(graphs)
    assert [epoch.epoch for epoch in record.epochs] == [10, 20, 30, 40, 50]
    assert record.metrics is not None
    assert (record.metrics.epochs, record.metrics.best_epoch) == (50, 20)
    settings = "--set epochs=50 --set hidden_size=4 --precision fp32 --threads 1"
    command = f"porism train graphs gcn {settings} --device cpu --seed 5"
    assert record.command == record.metrics.command == command


def test_it_goes_on_in_passes_and_its_file_keeps_its_words(graphs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", str(graphs), "--set", "epochs=75"]) == 2
    assert (
        "epochs=75 cannot be: the run is validated after 10 epochs each. Use --set epochs=80."
        in capsys.readouterr().err
    )
    assert RunFolder.open(graphs).metrics() is not None
    assert main(["train", "--resume", str(graphs), "--set", "epochs=80", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["epochs"] == 80
    record = read_run(graphs)
    assert [epoch.epoch for epoch in record.epochs] == [10, 20, 30, 40, 50, 60, 70, 80]
    found = RunFolder.open(graphs)
    assert (found.fields["epochs"], found.fields["patience"]) == (80, 21)
    assert "--set epochs=80" in shlex.join(found.facts.command())
    written = (graphs / "recipe.toml").read_text()
    assert "epochs = 8\n" in written
    assert "normalisation" in written
