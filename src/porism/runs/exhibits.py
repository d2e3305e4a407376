"""What a trained model has to show beside numbers: plain data in `exhibits.json`, which the report draws.

>>> Matrix(title="Confusion on test", rows=["cat", "dog"], columns=["cat", "dog"], counts=[[48, 2], [5, 45]])
"""

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


class WeighedText(msgspec.Struct, frozen=True, kw_only=True):
    """Words, each with a weight from 0 to 1."""

    words: list[str]
    weights: list[float]
    caption: str = ""


class WeighedTexts(Exhibit, frozen=True, kw_only=True):
    """Texts with a shade on every word, the darker the heavier."""

    texts: list[WeighedText]


class Table(Exhibit, frozen=True, kw_only=True):
    columns: list[str]
    rows: list[list[str | int | float]]


AnyExhibit = Pictures | Sounds | Matrix | Lines | Points | Histogram | WeighedTexts | Table
