"""A tiny BERT that the test saves itself, and files of reviews."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

WriteReviews = Callable[..., Path]

WORDS = [
    *("the", "it", "is", "was", "not", "good", "bad", "okay", "soup", "phone", "great", "awful", "i", "love", "hate"),
    *("this", "very", "un", "##do", "##ne", ",", ".", "!"),
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as transformers' own classes save it: two layers of BERT, 16 wide, and its tokenizer."""
    transformers = pytest.importorskip("transformers", reason="the folder is one of the transformers package")
    pytest.importorskip("tokenizers", reason="its tokenizer is one of the tokenizers package")
    folder: Path = tmp_path_factory.mktemp("tiny-bert")
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *WORDS]) + "\n")
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture
def write_reviews(tmp_path: Path) -> WriteReviews:
    """Writes rows under a header into a CSV file, or a TSV file where its name says so."""

    def write(
        rows: Sequence[Sequence[object]], header: Sequence[str] = ("content", "score"), name: str = "reviews.csv"
    ) -> Path:
        path = tmp_path / name
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if name.endswith(".tsv") else ",")
            writer.writerows([header, *rows])
        return path

    return write


def few_reviews(count: int = 60) -> list[tuple[str, int]]:
    """Different texts of every score."""
    opinions = {1: "awful", 2: "bad", 3: "okay", 4: "good", 5: "great"}
    return [(f"the soup number {number} is {opinions[number % 5 + 1]}", number % 5 + 1) for number in range(count)]
