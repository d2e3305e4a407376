"""Pictures, sounds, matrices, curves, maps and tables on the page."""

import base64
import io
import re

import msgspec
import pytest
import torch
from tests.report.conftest import WriteRun, metrics, run_writer

from porism.errors import RunError, ShapeError
from porism.report.page import write_report
from porism.runs.exhibits import (
    AnyExhibit,
    Clip,
    Histogram,
    Lines,
    Matrix,
    Pictures,
    Points,
    Sounds,
    Table,
    WeighedText,
    WeighedTexts,
)
from porism.runs.record import read_run
from porism.tasks.blocks.pictures import picture

SHOWN: list[AnyExhibit] = [
    Pictures(title="Worst", about="Wrong & sure.", pictures=[picture(torch.rand(1, 3, 5), "a <3>, taken for an 8")]),
    Matrix(title="Confusion", rows=["cat", "dog"], columns=["cat", "dog"], counts=[[48, 2], [0, 0]]),
    Lines(title="Depth", x="layers", y="energy", lines={"row": [(2, 1.0), (4, 0.5)], "none": [(2, 1.0)]}, log_x=True),
    Points(title="Map", groups={"one": [(0.0, 1.0), (1.0, 2.0)], "two": [(3.0, 1.0)]}, labels={"a <b>": (3.0, 1.0)}),
    Table(
        title="By class",
        columns=["class", "accuracy", "count", "bias", "known"],
        rows=[["cat", 0.96, 12_345, "0.18", "within 0.01"], ["dog", 0.9, 1, "", "exactly"]],
    ),
    Sounds(title="To hear", clips=[Clip(sound=b"RIFF \x00\xff", caption="said: a & b\nwritten: ab")]),
    Histogram(title="Lengths", x="tokens", y="texts", edges=[1.0, 3.0, 5.0], counts=[4, 2]),
    WeighedTexts(
        title="Attention", texts=[WeighedText(words=["not", "<good>"], weights=[0.2, 0.8], caption="taken for bad")]
    ),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("exhibits")
    run = run_writer(folder)(metrics=metrics())
    (run / "exhibits.json").write_bytes(msgspec.json.encode(SHOWN))
    return write_report([run], folder / "report.html").read_text(encoding="utf-8")


def test_what_was_written_is_read_back(write_run: WriteRun) -> None:
    run = write_run(metrics=metrics())
    (run / "exhibits.json").write_bytes(msgspec.json.encode(SHOWN))
    assert list(read_run(run).exhibits) == SHOWN


def test_every_exhibit_stands_under_its_title(page: str) -> None:
    pytest.importorskip("PIL", reason="pictures are written with it")
    titles = ["Worst", "Confusion", "Depth", "Map", "By class", "To hear", "Lengths", "Attention"]
    assert re.findall(r"<article><h3>(\w[\w ]*)</h3>", page)[:8] == titles
    assert "a &lt;3&gt;, taken for an 8" in page
    assert "Wrong &amp; sure." in page
    assert "12,345" in page


def test_a_column_of_numbers_is_one_whether_their_digits_are_fixed_or_not(page: str) -> None:
    table = page[page.index("<h3>By class</h3>") : page.index("<h3>To hear</h3>")]
    assert re.findall(r"<th(?: class=(number))?>(\w+)</th>", table) == [
        ("", "class"), ("number", "accuracy"), ("number", "count"), ("number", "bias"), ("", "known"),
    ]  # fmt: skip
    assert "<td class=number>0.18</td><td>within 0.01</td>" in table


def test_words_are_shaded_by_their_share_of_the_heaviest(page: str) -> None:
    assert '<span style="--share: 25%" title="0.2000">not</span>' in page
    assert '<span style="--share: 100%" title="0.8000">&lt;good&gt;</span>' in page
    assert "taken for bad" in page


def test_a_histogram_of_whole_numbers_has_whole_ticks(page: str) -> None:
    drawn = page[page.index("<h3>Lengths</h3>") : page.index("<h3>Attention</h3>")]
    ticks = re.findall(r"<text[^>]*>([\d.]+)</text>", drawn)
    assert {"1", "2", "3", "4", "5"} <= set(ticks)
    assert not any("." in tick for tick in ticks)


def test_a_map_has_its_labels(page: str) -> None:
    assert re.search(r"<text[^>]*>a &lt;b&gt;</text>", page)


def test_a_picture_holds_the_pixels_it_was_given(page: str) -> None:
    image = pytest.importorskip("PIL.Image")
    data = re.search(r"data:image/png;base64,([^\"]+)", page)
    assert data
    read = image.open(io.BytesIO(base64.b64decode(data.group(1))))
    assert read.size == (5, 3)
    first = SHOWN[0]
    assert isinstance(first, Pictures)
    assert read.tobytes() == first.pictures[0].pixels


def test_a_player_holds_the_sound_it_was_given(page: str) -> None:
    data = re.search(r'<audio controls [^>]*src="data:audio/wav;base64,([^\"]+)"', page)
    assert data
    assert base64.b64decode(data.group(1)) == b"RIFF \x00\xff"
    assert "said: a &amp; b\nwritten: ab" in page


def test_a_cell_is_shaded_by_its_share_of_the_row(page: str) -> None:
    assert re.findall(r'<td class=number style="--share: (\d+)%"', page) == ["96", "4", "0", "0"]


def test_a_picture_is_one_image_of_one_or_three_colours() -> None:
    assert picture(torch.tensor([[[0.0, 0.5, 1.0, 2.0]]])).pixels == bytes([0, 128, 255, 255])
    assert picture(torch.rand(3, 2, 2)).colours == 3
    with pytest.raises(ShapeError, match=r"a picture takes \(1, Y, X\) or \(3, Y, X\), got \(4, 1, 8, 8\)"):
        picture(torch.rand(4, 1, 8, 8))


def test_broken_exhibits_name_their_file(write_run: WriteRun) -> None:
    run = write_run(metrics=metrics())
    (run / "exhibits.json").write_text('[{"type": "Film"}]')
    with pytest.raises(RunError, match=r"exhibits.json: .*Film"):
        read_run(run)
