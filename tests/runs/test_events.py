"""Lines of events are what was written, all of them and in order, or the file is refused."""

import json
from pathlib import Path

import pytest

from porism.errors import RunError
from porism.runs.events import Events, read_events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    events = Events(tmp_path / "events.jsonl", sealed=True)
    for epoch in range(1, 5):
        events.append("epoch", epoch=epoch, valid={"perplexity": 10.0 / epoch, 7: float("inf")}, best=True)
    return events.path


def epochs(path: Path, sealed: bool = True) -> list[int]:
    return [line.event["epoch"] for line in read_events(path, sealed).lines]


def test_what_is_written_is_read_and_the_keys_of_0_1_stay(path: Path) -> None:
    assert epochs(path) == [1, 2, 3, 4]
    event = json.loads(path.read_text().splitlines()[1])
    assert event.keys() == {"event", "time", "epoch", "valid", "best", "sha256"}
    assert read_events(path, True).lines[1].event == {key: event[key] for key in event if key != "sha256"}


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0], lines[1].replace("5.0", "1.0"), *lines[2:]],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [lines[0], lines[2], lines[1], lines[3]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [*lines[:2], '{"event": "epoch", "epoch": 9}', *lines[2:]],
        lambda lines: [*lines[:2], "7", *lines[2:]],
        lambda lines: [*lines[:3], lines[3][:30]],
        lambda lines: [*lines[:3], "null"],
    ],
    ids=["a number", "a line out", "two swapped", "one twice", "a line in", "no object", "cut", "nothing"],
)
def test_any_change_is_noticed(path: Path, change: object, sealed: bool) -> None:
    assert callable(change)
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    with pytest.raises(RunError, match=r"events\.jsonl, line \d: .*or delete events.jsonl: the run then goes on"):
        read_events(path, sealed)


def test_lines_missing_at_the_end_are_noticed_by_who_knows_the_newest(path: Path) -> None:
    newest = read_events(path, True).sha256
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    with pytest.raises(RunError, match=r"lines are missing or altered that were there when last was written"):
        read_events(path, True).check_holds(newest, Path("last"))
    read_events(path, True).check_holds(json.loads(lines[1])["sha256"], Path("last"))
    read_events(path, True).check_holds(None, Path("last"))
    path.unlink()
    read_events(path, True).check_holds(newest, Path("last"))


@pytest.mark.parametrize("torn", [b'{"event": "epo', b'{"a": "\xc3', b"\x00\x00", b'{"event": "epoch", "epoch": 5}'])
def test_a_torn_line_is_none_and_is_cut_off_before_the_next(path: Path, torn: bytes) -> None:
    with path.open("ab") as file:
        file.write(torn)
    assert epochs(path) == [1, 2, 3, 4]
    Events(path, sealed=True).append("epoch", epoch=5)
    assert epochs(path) == [1, 2, 3, 4, 5]


def test_one_who_writes_on_notices_what_others_wrote(path: Path) -> None:
    one, other = Events(path, sealed=True), Events(path, sealed=True)
    for number, events in enumerate((one, other, one, one, other), 5):
        events.append("epoch", epoch=number)
    assert epochs(path) == list(range(1, 10))
    path.unlink()
    one.append("epoch", epoch=1)
    assert epochs(path) == [1]


def test_lines_of_0_1_are_read_and_covered_by_what_follows(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "epoch", "epoch": 1}\n{"event": "epoch", "epoch": 2}')
    assert epochs(path, sealed=False) == [1, 2]
    before = read_events(path, sealed=False).sha256
    # As in 0.1, a line without its end is cut off.
    Events(path, sealed=False).append("epoch", epoch=2)
    Events(path, sealed=False).append("epoch", epoch=3)
    assert epochs(path, sealed=False) == [1, 2, 3]
    read_events(path, sealed=False).check_holds(before, Path("last"))
    path.write_text(path.read_text().replace('"epoch": 1}', '"epoch": 0}'))
    with pytest.raises(RunError, match=r"events\.jsonl, line 2: it is not what was written, or a line before it"):
        read_events(path, sealed=False)
