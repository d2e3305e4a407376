"""What a trained model has to show beside numbers: plain data in `exhibits.json`, which the report draws.

>>> Matrix(title="Confusion on test", rows=["cat", "dog"], columns=["cat", "dog"], counts=[[48, 2], [5, 45]])
"""

from collections.abc import Sequence

import msgspec


class Exhibit(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something to look at, with a title and a sentence or two on what it is."""

    title: str
    about: str = ""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of pixels from the top, each pixel one byte of grey or three of red, green and blue."""

    pixels: bytes
    width: int
    height: int
    colours: int = 1
    caption: str = ""

    def __post_init__(self) -> None:
        size = self.width * self.height * self.colours
        if min(self.width, self.height) < 1 or self.colours not in (1, 3) or len(self.pixels) != size:
            raise ValueError(
                f"{len(self.pixels)} bytes for a picture of {self.width} x {self.height} pixels of {self.colours} bytes"
            )


class Pictures(Exhibit, frozen=True, kw_only=True):
    pictures: list[Picture]


class Clip(msgspec.Struct, frozen=True, kw_only=True):
    """A sound in a file's bytes, such as a WAV's."""

    sound: bytes
    kind: str = "audio/wav"
    caption: str = ""
    """As many lines as it takes."""


class Sounds(Exhibit, frozen=True, kw_only=True):
    """Recordings to listen to."""

    clips: list[Clip]


class Matrix(Exhibit, frozen=True, kw_only=True):
    """Counts by row and column: what something is, and what it was taken for."""

    rows: list[str]
    columns: list[str]
    counts: list[list[int]]

    def __post_init__(self) -> None:
        _check_table(len(self.rows), len(self.columns), self.counts)


class Lines(Exhibit, frozen=True, kw_only=True):
    """Curves by name over one axis."""

    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]]
    log_x: bool = False
    log_y: bool = False


class Points(Exhibit, frozen=True, kw_only=True):
    """A map: points in the plane by the group they belong to, and what to write at some of them."""

    groups: dict[str, list[tuple[float, float]]]
    labels: dict[str, tuple[float, float]] = {}


class Histogram(Exhibit, frozen=True, kw_only=True):
    """How many lie between an edge and the next: one count fewer than edges."""

    x: str
    y: str
    edges: list[float]
    counts: list[int]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.counts) + 1:
            raise ValueError(f"{len(self.counts)} counts between {len(self.edges)} edges")


class WeighedText(msgspec.Struct, frozen=True, kw_only=True):
    """Words, each with a weight from 0 to 1."""

    words: list[str]
    weights: list[float]
    caption: str = ""

    def __post_init__(self) -> None:
        if len(self.words) != len(self.weights):
            raise ValueError(f"{len(self.words)} words with {len(self.weights)} weights")


class WeighedTexts(Exhibit, frozen=True, kw_only=True):
    """Texts with a shade on every word, the darker the heavier."""

    texts: list[WeighedText]


class Table(Exhibit, frozen=True, kw_only=True):
    columns: list[str]
    rows: list[list[str | int | float]]

    def __post_init__(self) -> None:
        _check_table(len(self.rows), len(self.columns), self.rows)


def _check_table(rows: int, columns: int, cells: Sequence[Sequence[object]]) -> None:
    if len(cells) != rows or any(len(row) != columns for row in cells):
        widths = sorted({len(row) for row in cells})
        raise ValueError(f"{len(cells)} rows of {widths} cells for {rows} rows and {columns} columns")


AnyExhibit = Pictures | Sounds | Matrix | Lines | Points | Histogram | WeighedTexts | Table
