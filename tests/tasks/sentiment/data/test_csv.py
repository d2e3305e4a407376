"""Files of reviews: columns found by their names, and one clear line for what is wrong with a file."""

import gzip
import tracemalloc
from pathlib import Path

import pytest
from tests.tasks.sentiment.conftest import WriteReviews

from porism.errors import DataError
from porism.tasks.sentiment.data import load_reviews
from porism.tasks.sentiment.data.csv import SCORE_COLUMNS, TEXT_COLUMNS, read_reviews
from porism.tasks.sentiment.data.reviews import Review

SCORES = [("a", 1), ("b", 2), ("c", 3), ("d", "4"), ("e", "5.0")]
READ = [Review("a", 0), Review("b", 0), Review("c", 1), Review("d", 2), Review("e", 2)]


def test_scores_become_three_classes(write_reviews: WriteReviews) -> None:
    assert read_reviews(write_reviews(SCORES)) == READ


@pytest.mark.parametrize("text", TEXT_COLUMNS)
@pytest.mark.parametrize("score", SCORE_COLUMNS)
def test_columns_are_found_by_their_usual_names(write_reviews: WriteReviews, text: str, score: str) -> None:
    header = (score.upper().replace("_", " "), "user", text.title().replace("_", ""))
    assert read_reviews(write_reviews([(score, "me", text) for text, score in SCORES], header)) == READ


def test_columns_can_be_named(write_reviews: WriteReviews) -> None:
    path = write_reviews([(4, "no", "yes")], ("mark", "text", "said"))
    assert read_reviews(path, "said", "mark") == [Review("yes", 2)]


def test_tabs_semicolons_and_compression(write_reviews: WriteReviews, tmp_path: Path) -> None:
    assert read_reviews(write_reviews(SCORES, name="reviews.tsv")) == READ
    semicolons = tmp_path / "semicolons.csv"
    semicolons.write_text("text;score\nyes, it is;5\n")
    assert read_reviews(semicolons) == [Review("yes, it is", 2)]
    packed = tmp_path / "reviews.csv.gz"
    packed.write_bytes(gzip.compress(write_reviews(SCORES).read_bytes()))
    assert read_reviews(packed) == READ


def test_quotes_line_ends_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_bytes(b'\xef\xbb\xbftext,score\r\n"it says ""no"",\r\nand no",1\r\n\r\nyes,5\r\n')
    assert read_reviews(path) == [Review('it says "no",\r\nand no', 0), Review("yes", 2)]


BAD = {
    "no text column": (
        b"name,score\nx,1\n",
        "no column for the text, looked for text, content, review, .* 'name', 'sc",
    ),
    "no score column": (b"text,mark\nx,1\n", "no column for the score, looked for score, rating, .*score_column=NAME"),
    "two text columns": (b"text,review,score\nx,y,1\n", "'text' and 'review' could each be the column of the text"),
    "score 0": (b"text,score\nfine,3\nx,0\n", "line 3: score '0', expected a whole number from 1 to 5."),
    "score 6": (b"text,score\nx,6\n", "line 2: score '6', expected a whole number from 1 to 5."),
    "score between": (b"text,score\nx,4.5\n", "line 2: score '4.5', expected a whole number from 1 to 5."),
    "score nan": (b"text,score\nx,nan\n", "line 2: score 'nan', expected"),
    "score missing": (b"text,score\nx,\n", "line 2: score '', expected"),
    "score no number": (b"text,score\nx,good\n", "line 2: score 'good', expected"),
    "empty text": (b'text,score\na,1\n" \n ",2\n', "line 3: the text is empty. Give it one, or leave the row out."),
    "latin1": ("text,score\na,1\ncaf\xe9,5\n".encode("latin1"), "line 3: byte 0xe9 is not UTF-8."),
    "utf-16": ("text,score\na,1\n".encode("utf-16"), "UTF-16 or UTF-32, expected UTF-8."),
    "zero byte": (b"text,score\na,1\nb\0,2\n", "line 3: a zero byte, so no text."),
    "too few columns": (b"text,score\na,1\nb\n", "line 3: 1 columns, and the header has 2."),
    "too many columns": (b"text,score\na,1\nb, and c,2\n", "line 3: 3 columns, and the header has 2."),
    "open quote": (b'text,score\na,1\n"b,2\nc,3\n', "line 3: not a row of a table .* Check its double quotes"),
    "quote inside": (b'text,score\n"a" b,1\n', "line 2: not a row of a table .* Check its double quotes"),
    "empty file": (b"", "empty, expected a header and rows"),
    "header alone": (b"text,score\n", "a header and no rows."),
    "no table": (b"hello\nworld\n", "no column for the text"),
    "long text": (
        b"text,score\n" + b'"' + b"a\n" * 70_000 + b'",1\n',
        "line 2: not a row .*field larger than field limit",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_reviews(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"text,score\n" + b"a" * 5000)
    with pytest.raises(DataError, match="line 2: more than 4,096 bytes in one line, so no table of texts."):
        read_reviews(path, longest_line=4096)


def test_no_more_than_the_longest_line_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"text,score\n" + b"a" * 2**24)
    tracemalloc.start()
    with pytest.raises(DataError, match="more than 65,536 bytes in one line"):
        read_reviews(path, longest_line=2**16)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text_column": "txt"}, "no column 'txt'. Did you mean text\\? Its columns: 'text', 'score'"),
        ({"text_column": "score"}, "'score' cannot be the text and the score. Name two columns."),
    ],
)
def test_a_named_column_must_be_there(write_reviews: WriteReviews, given: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_reviews(str(write_reviews(SCORES, ("text", "score"))), **given)  # type: ignore[arg-type]


def test_a_folder_has_its_own_splits(tmp_path: Path, write_reviews: WriteReviews) -> None:
    rows = [("one", 1), ("two", 3), ("three", 5), ("four", 4)]
    for split, shown in {"train": rows, "val": [("Four", 4), ("five", 1)], "test": [("six", 3), ("six", 3)]}.items():
        write_reviews(shown, name=f"{split}.csv")
    found = load_reviews(str(tmp_path))
    texts = {split: [review.text for review in reviews] for split, reviews in found.splits.items()}
    # What is held out stays, and its copy leaves train.
    assert texts == {"train": ["one", "two", "three"], "valid": ["Four", "five"], "test": ["six"]}
    assert found.duplicates[:2] == (8, 6)
    (tmp_path / "val.csv").unlink()
    with pytest.raises(DataError, match="none for valid"):
        load_reviews(str(tmp_path))


def test_a_folder_without_tables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no CSV or TSV files named for train, valid and test"):
        load_reviews(str(tmp_path))
