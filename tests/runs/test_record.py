"""A run's folder is read as it was meant, torn and resumed ones too, and a broken one is named."""

import json
from pathlib import Path

import pytest
from tests.report.conftest import WriteRun, epoch, metrics, start
from tests.runs.tiny_runs import copied

from porism.errors import RunError
from porism.runs.record import read_run


def append(folder: Path, text: str | bytes) -> None:
    with (folder / "events.jsonl").open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def test_a_finished_run(write_run: WriteRun) -> None:
    events = [start(), epoch(1, 300.0), {"event": "finish", "epochs": 1, "reason": "all epochs done"}]
    record = read_run(write_run(events=events, metrics=metrics(), hidden=63))
    assert record.finished
    assert record.fields["hidden_size"] == 63
    assert record.metrics is not None
    assert (record.metrics.unit, record.metrics.rate) == ("tokens", 21_291.4)
    assert record.metrics.flops == 30_000
    assert record.score("test", "perplexity") == 154.92
    assert record.reason == "all epochs done"


def test_an_unfinished_run_has_its_best_epoch(write_run: WriteRun) -> None:
    record = read_run(write_run())
    assert not record.finished
    assert [done.epoch for done in record.epochs] == [1, 2, 3]
    assert record.score("valid", "perplexity") == 180.5
    assert record.score("test", "perplexity") is None


@pytest.mark.parametrize("torn", ['{"event": "epo', '{"event": "note", "text": "', b'{"text": "\xc3', b"\x00\x00\n"])
def test_a_torn_last_line_is_no_event(write_run: WriteRun, torn: str | bytes) -> None:
    folder = write_run()
    append(folder, torn)
    assert len(read_run(folder).epochs) == 3


def test_a_whole_last_line_without_its_end_is_an_event(write_run: WriteRun) -> None:
    folder = write_run()
    append(folder, json.dumps(epoch(4, 170.0)))
    assert len(read_run(folder).epochs) == 4


def test_a_broken_line_in_the_middle_is_named(write_run: WriteRun) -> None:
    folder = write_run()
    append(folder, '{"event": "epo\n' + json.dumps(epoch(4, 170.0)) + "\n")
    with pytest.raises(RunError, match=r"events\.jsonl, line 5: not JSON: .* Mend it, or leave this run out"):
        read_run(folder)


@pytest.mark.parametrize(
    ("at", "kept"),
    [
        ((1, 363), [300.0]),
        ((2, 0), [300.0]),
        ((2, 100), [300.0]),
        ((2, 363), [300.0, 200.0]),
        ((3, 0), [300.0, 200.0]),
        ((1, 0), []),
    ],
)
def test_a_resumed_run_forgets_what_it_goes_over_again(
    write_run: WriteRun, at: tuple[int, int], kept: list[float]
) -> None:
    back = {"event": "resume", "epoch": at[0], "step": at[1]}
    folder = write_run(events=[start(), epoch(1, 300.0), epoch(2, 200.0), epoch(3, 150.0), back])
    record = read_run(folder)
    assert [done.valid["perplexity"] for done in record.epochs] == kept
    assert record.resumes == 1
    # What is reported after the resume stands.
    append(folder, json.dumps(epoch(2, 199.0)) + "\n" + json.dumps(epoch(3, 149.0)) + "\n")
    assert [done.valid["perplexity"] for done in read_run(folder).epochs][-2:] == [199.0, 149.0]
    assert [done.epoch for done in read_run(folder).epochs] == sorted({done.epoch for done in read_run(folder).epochs})


def test_seconds_add_up_over_the_epochs_that_count(write_run: WriteRun) -> None:
    back = {"event": "resume", "epoch": 2, "step": 0}
    record = read_run(write_run(events=[start(), epoch(1, 300.0), epoch(2, 200.0), back, epoch(2, 199.0)]))
    assert [record.seconds_until(done) for done in record.epochs] == [10.0, 20.0]


def test_an_interrupt_holds_until_the_run_goes_on(write_run: WriteRun) -> None:
    folder = write_run(events=[start(), epoch(1, 300.0), {"event": "interrupt", "epoch": 2, "step": 7}])
    assert read_run(folder).interrupted
    append(folder, json.dumps({"event": "resume", "epoch": 2, "step": 7}) + "\n")
    assert not read_run(folder).interrupted


def test_notes_are_kept_and_unknown_events_passed_over(write_run: WriteRun) -> None:
    record = read_run(write_run(events=[start(), {"event": "note", "text": "slow disk"}, {"event": "eclipse"}]))
    assert record.notes == ("slow disk",)


def test_what_is_no_number_is_no_score(write_run: WriteRun) -> None:
    record = read_run(write_run(metrics=metrics(float("nan"))))
    assert record.score("test", "perplexity") is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("recipe.toml", "task = = 1\n", r"recipe\.toml is not a recipe that porism wrote: .*line 1"),
        (
            "recipe.toml",
            "task = 'language'",
            r"recipe\.toml is not a recipe .*: Object missing required field `recipe`",
        ),
        (
            "recipe.toml",
            "task = 1",
            r"recipe\.toml is not a recipe .*: Expected `str`, got `int` - at `\$\.task`",
        ),
        ("metrics.json", '{\n"metric": \n', r"metrics\.json, line 3: not JSON"),
        ("metrics.json", "[]", r"metrics\.json: Expected `object`, got `array`"),
        ("metrics.json", '{"metric": 3}', r"metrics\.json: Expected `str`, got `int` - at `\$\.metric`"),
        ("events.jsonl", '{"event": "epoch"}\n', r"events\.jsonl, line 1: Object missing required field `epoch`"),
        ("events.jsonl", "\n7\n", r"events\.jsonl, line 2: Expected `object`, got `int`"),
    ],
)
def test_a_broken_file_is_named(write_run: WriteRun, name: str, content: str, message: str) -> None:
    folder = write_run(metrics=metrics())
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=message) as caught:
        read_run(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_what_is_no_run(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.touch()
    for path, found in [(tmp_path / "gone", "does not exist"), (tmp_path, "has no recipe.toml"), (file, "is not a")]:
        with pytest.raises(RunError, match=f"{found}.*expected a run's folder. Name one that a training wrote"):
            read_run(path)


@pytest.mark.parametrize(
    "exhibit",
    [
        {"type": "Pictures", "title": "t", "pictures": [{"pixels": "AAAA", "width": 2, "height": 2}]},
        {"type": "Pictures", "title": "t", "pictures": [{"pixels": "", "width": 0, "height": 2}]},
        {"type": "Matrix", "title": "t", "rows": ["a"], "columns": ["a", "b"], "counts": [[1]]},
        {"type": "Table", "title": "t", "columns": ["a", "b"], "rows": [["1", "2"], ["3"]]},
        {"type": "Histogram", "title": "t", "x": "x", "y": "y", "edges": [0.0, 1.0], "counts": [1, 2]},
        {"type": "WeighedTexts", "title": "t", "texts": [{"words": ["a", "b"], "weights": [0.5]}]},
    ],
    ids=lambda exhibit: str(exhibit["type"]),
)
def test_an_exhibit_that_cannot_be_drawn_is_refused_by_its_file(tmp_path: Path, exhibit: dict[str, object]) -> None:
    run = copied(Path(__file__).parent / "run-0.1", tmp_path / "run")
    (run / "exhibits.json").write_text(json.dumps([exhibit]))
    with pytest.raises(RunError, match=r"exhibits\.json: .* Mend it, or leave this run out of the report"):
        read_run(run)
