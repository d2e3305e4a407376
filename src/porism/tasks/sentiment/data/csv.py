"""Reviews in a CSV or TSV file: a header, then a text and a score from 1 to 5 in every row.

>>> read_reviews(Path("reviews.csv"))[0]                          # doctest: +SKIP
Review(text='It does what it should', label=2, negated=None)
"""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from porism.errors import DataError, advise, fields, nearest, one_line, shown
from porism.tasks.blocks.download import COMPRESSED, check_unpacked, open_content, readable
from porism.tasks.blocks.memory import check_fits
from porism.tasks.blocks.tables import most_frequent_separator
from porism.tasks.blocks.texts import decoded
from porism.tasks.sentiment.data.reviews import CLASS_OF_SCORE, Review

TEXT_COLUMNS = ("text", "content", "review", "review_text", "review_body", "body", "comment", "sentence", "message")
SCORE_COLUMNS = ("score", "rating", "stars", "star_rating", "review_rating", "overall")
TABLES = {".csv": None, ".tsv": "\t", ".tab": "\t"}
"""How a file of this name is separated; None for whatever its header shows."""
LONGEST_LINE = 2**20
"""Bytes. No row of reviews is longer, and a file without line ends would fill the memory."""
BYTES_A_BYTE = 4
"""Of memory for a byte of text, with its row and its tokens."""
CHECK_EVERY = 2**24


class Columns(NamedTuple):
    """Where text and score are."""

    text: int
    score: int


def is_table(path: Path) -> bool:
    """Whether a file is named as a CSV or TSV is, plain or compressed."""
    return _kind(path) in TABLES


def read_reviews(
    path: Path,
    text_column: str | None = None,
    score_column: str | None = None,
    *,
    longest_line: int = LONGEST_LINE,
) -> list[Review]:
    """The reviews of a file, `.csv` or `.tsv`, plain, .gz or .xz. Columns are found by their usual names."""
    with open_content(path) as file:
        lines = _Lines(file, path, longest_line)
        header_line = next(lines, "")
        separator = TABLES.get(_kind(path)) or most_frequent_separator(header_line)
        rows = _rows(path, lines, header_line, separator)
        header = next(rows, (1, []))[1]
        if not any(header):
            raise DataError(f"{path}: empty, expected a header and rows with a text and a score from 1 to 5.")
        columns = _find_columns(path, header, text_column, score_column)
        reviews = [_review(path, number, row, columns, len(header)) for number, row in rows]
    if not reviews:
        raise DataError(f"{path}: a header and no rows. Give rows with a text and a score from 1 to 5.")
    return reviews


def _kind(path: Path) -> str:
    return (path.with_suffix("") if path.suffix in COMPRESSED else path).suffix.lower()


class _Lines(Iterator[str]):
    """Lines of text, each checked before the next is read."""

    def __init__(self, file: IO[bytes], path: Path, longest: int) -> None:
        self.file, self.path, self.longest = file, path, longest
        self.number = self.size = 0

    def __next__(self) -> str:
        with readable(self.path):
            line = self.file.readline(self.longest + 1)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) > self.longest:
            raise DataError(
                f"{self.path}, line {self.number}: more than {self.longest:,} bytes in one line, so no table of texts. "
                "Give a CSV or TSV file with a text a row."
            )
        self._check_size(len(line))
        return decoded(line, str(self.path), first_line=self.number)

    def _check_size(self, more: int) -> None:
        before, self.size = self.size, self.size + more
        if before // CHECK_EVERY != self.size // CHECK_EVERY:
            check_unpacked(self.path, self.size)
            check_fits(self.path, BYTES_A_BYTE * CHECK_EVERY, "the next part of its texts")


def _rows(path: Path, lines: _Lines, first: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its first line; blank lines are left out."""

    def all_lines() -> Iterator[str]:
        yield first
        yield from lines

    reader = csv.reader(all_lines(), delimiter=separator, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{path}, line {number}: not a row of a table ({one_line(error)}). Check its double quotes: a text "
                'with a separator, a quote or a line end inside stands in "...", and a quote inside is doubled.'
            ) from None
        if row:
            yield number, row


def _find_columns(path: Path, header: Sequence[str], text: str | None, score: str | None) -> Columns:
    columns = Columns(
        _find_column(path, header, "text", text, TEXT_COLUMNS),
        _find_column(path, header, "score", score, SCORE_COLUMNS),
    )
    if columns.text == columns.score:
        raise DataError(f"{path}: {shown(header[columns.text])} cannot be the text and the score. Name two columns.")
    return columns


def _find_column(path: Path, header: Sequence[str], what: str, given: str | None, usual: Sequence[str]) -> int:
    """The column of a name that was given, else the only one with a usual name."""
    listed = ", ".join(shown(name) for name in header[:20]) + (", ..." if len(header) > 20 else "")
    named = fields(**{f"{what}_column": "NAME"})
    if given is not None:
        found = [place for place, name in enumerate(header) if name == given]
        if len(found) == 1:
            return found[0]
        times = f"{len(found)} columns" if found else "no column"
        raise DataError(f"{path}: {times} {given!r}. {nearest(given, header)} Its columns: {listed}.")
    known = [_plain(name) for name in usual]
    found = [place for place, name in enumerate(header) if _plain(name) in known]
    if len(found) == 1:
        return found[0]
    if found:
        several = " and ".join(shown(header[place]) for place in found)
        raise DataError(f"{path}: {several} could each be the column of the {what}.", advise("Say which: {}.", named))
    raise DataError(
        f"{path}: no column for the {what}, looked for {', '.join(usual)}. Its columns: {listed}.",
        advise("Name one: {}.", named),
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _review(path: Path, number: int, row: Sequence[str], columns: Columns, width: int) -> Review:
    where = f"{path}, line {number}"
    if len(row) != width:
        raise DataError(f"{where}: {len(row)} columns, and the header has {width}. Check its separators and quotes.")
    text, score = row[columns.text], row[columns.score]
    if not text.strip():
        raise DataError(f"{where}: the text is empty. Give it one, or leave the row out.")
    return Review.from_score(text, _score(where, score))


def _score(where: str, text: str) -> int:
    """A whole number from 1 to 5, however it is written: 4 and 4.0 are the same."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value not in CLASS_OF_SCORE:
        raise DataError(f"{where}: score {shown(text)}, expected a whole number from 1 to 5.")
    return int(value)
