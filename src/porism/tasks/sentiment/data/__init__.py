"""The reviews of the task: where they come from.

>>> reviews = load_reviews()                    # the synthetic sentences
>>> reviews.counts("train")                     # negative, neutral, positive
[1278, 1509, 1213]
"""

from pathlib import Path

from porism.errors import DataError, RecipeError, nearest
from porism.tasks.blocks.texts import split_files
from porism.tasks.sentiment.catalogue import CATALOGUE
from porism.tasks.sentiment.data.csv import is_table, read_reviews
from porism.tasks.sentiment.data.embedded import synthetic
from porism.tasks.sentiment.data.reviews import Reviews, from_rows, from_splits


def load_reviews(
    source: str | None = None,
    *,
    text_column: str | None = None,
    score_column: str | None = None,
    deduplicate: bool = True,
    validation_split: float = 0.05,
    test_split: float = 0.05,
) -> Reviews:
    """The reviews of a name or a path; None is the synthetic sentences.

    A path is a CSV or TSV file with a text and a score from 1 to 5 in each row, which is split at random, or a folder
    with such files for train, valid and test.
    """
    source = "synthetic" if source is None else source
    if source == "synthetic":
        for name, given in (("text_column", text_column), ("score_column", score_column)):
            if given is not None:
                raise RecipeError(f"{name}={given} is for a file, and the synthetic sentences are none. Leave it out.")
        return from_splits("synthetic", synthetic(), deduplicate=deduplicate, synthetic=True)
    path = Path(source).expanduser()
    if path.is_dir():
        files = _split_files(path)
        splits = {split: read_reviews(file, text_column, score_column) for split, file in files.items()}
        return from_splits(path.name, splits, deduplicate=deduplicate)
    if path.exists():
        rows = read_reviews(path, text_column, score_column)
        return from_rows(path.name, rows, deduplicate=deduplicate, valid=validation_split, test=test_split)
    raise DataError(
        f"{source}: no such file or folder, and no reviews of that name. {nearest(source.lower(), list(CATALOGUE))}"
    )


def _split_files(folder: Path) -> dict[str, Path]:
    try:
        files = sorted(file for file in folder.iterdir() if file.is_file() and is_table(file))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror or error}). Check its permissions.") from None
    named = split_files(folder, files)
    if not named:
        raise DataError(
            f"{folder}: no CSV or TSV files named for train, valid and test in this folder. Give such files, or one "
            "file to have it split."
        )
    return named
