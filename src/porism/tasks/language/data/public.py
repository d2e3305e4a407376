"""Public corpora by name, fetched on demand."""

from porism.tasks.blocks.download import DataSet, fetch
from porism.tasks.blocks.texts import SPLITS
from porism.tasks.language.data.files import Text, read_split_files

PTB_FINGERPRINT = "7e23ce2a54d55de64a874f37990da995321f8133bf737946eccb44fc07747ee3"
"""Of the corpus as a model sees it, wherever its files came from: what others publish compares to this text alone."""


def read_public(corpus: DataSet) -> Text:
    """A public corpus from the data folder, fetched first where it is not there."""
    return read_split_files({split: fetch(corpus.files[split]) for split in SPLITS})
