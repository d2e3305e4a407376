"""Corpora: from names, files and folders to streams, and what the message is when they cannot be read."""

import gzip
import hashlib
import lzma
import re
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from porism.errors import DataError, RecipeError
from porism.tasks.blocks.download import DataSet, PublicFile
from porism.tasks.blocks.manual import _split_manual, manual, paragraphs, split_topics
from porism.tasks.blocks.texts import PUBLIC, SPLITS, hold_out, split_of
from porism.tasks.language.catalogue import CATALOGUE
from porism.tasks.language.data import Corpus, load_corpus
from porism.tasks.language.data.files import cut
from porism.tasks.language.data.vocabulary import EOS, UNK, Vocabulary

COMPRESS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
TREEBANK = {
    "ptb.train.txt": " the cat saw the <unk> \n the dog slept \n",
    "ptb.valid.txt": " the dog saw N cats \n",
    "ptb.test.txt": " the cat slept \n \n the end",
}


def write(folder: Path, texts: Mapping[str, str]) -> str:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        compress = COMPRESS.get(Path(name).suffix, bytes)
        (folder / name).write_bytes(compress(text.encode()))
    return str(folder)


def words(corpus: Corpus, split: str) -> str:
    return " ".join(corpus.vocabulary.decode(corpus.streams[split]))


def test_a_folder_with_named_splits(tmp_path: Path) -> None:
    corpus = load_corpus(write(tmp_path / "bank", TREEBANK))
    assert corpus.name == "bank"
    assert corpus.vocabulary.words == ("the", EOS, UNK, "cat", "dog", "saw", "slept")
    assert words(corpus, "train") == f"the cat saw the {UNK} {EOS} the dog slept {EOS}"
    assert words(corpus, "valid") == f"the dog saw {UNK} {UNK} {EOS}"
    assert words(corpus, "test") == f"the cat slept {EOS} {EOS} the {UNK} {EOS}"
    assert corpus.entropy is None
    assert corpus.limits == {}


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_compressed_files_read_alike(suffix: str, tmp_path: Path) -> None:
    plain = load_corpus(write(tmp_path / "plain", TREEBANK))
    packed = load_corpus(write(tmp_path / "packed", {name + suffix: text for name, text in TREEBANK.items()}))
    assert packed.fingerprint() == plain.fingerprint()


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("ptb.train.txt.xz", "train"),
        ("wiki.valid.tokens", "valid"),
        ("val.txt", "valid"),
        ("my-dev_set.txt", "valid"),
        ("TEST.txt", "test"),
        ("validation_01.txt", "valid"),
        ("latest.txt", None),
        ("trainspotting.txt", None),
    ],
)
def test_the_split_in_a_files_name(name: str, split: str | None) -> None:
    assert split_of(name) == split


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    text = dict.fromkeys(TREEBANK, "\ufeffone\u2028two\x85three\x0cfour\r\nfive six\r\n")
    corpus = load_corpus(write(tmp_path, text))
    assert words(corpus, "train") == f"one two three four {EOS} five six {EOS}"


def test_one_file_is_cut_at_line_ends(tmp_path: Path) -> None:
    lines = [f"word{n} and and" for n in range(20)]
    corpus = load_corpus(write(tmp_path, {"own.md": "\n".join(lines)}) + "/own.md", min_count=1)
    assert corpus.name == "own.md"
    assert {split: len(stream) for split, stream in corpus.streams.items()} == {"train": 64, "valid": 8, "test": 8}
    assert all(words(corpus, split).endswith(EOS) for split in SPLITS)
    assert words(corpus, "test") == f"{UNK} and and {EOS} {UNK} and and {EOS}"


def test_one_long_line_is_cut_between_words() -> None:
    parts = cut(" ".join(str(n) for n in range(29)) + "\n")
    assert "".join(parts.values()) == " ".join(str(n) for n in range(29)) + "\n"
    assert {split: part.split() for split, part in parts.items()} == {
        "train": [str(n) for n in range(24)],
        "valid": ["24", "25", "26"],
        "test": ["27", "28"],
    }
    assert parts["test"].endswith("\n")


@pytest.mark.parametrize(
    ("files", "how"),
    [
        (["a"], "80, 10 and 10 % of the lines in their order"),
        (["a", "b", "c"], "80, 10 and 10 % of the lines in their order, one file after the other"),
        ([*"abcdefghij"], "by file: of every ten in the order of their names, the first is valid and the sixth test"),
        (["train", "valid", "test"], "as given"),
    ],
)
def test_how_a_text_was_split_and_what_of_it_is_known_is_told(tmp_path: Path, files: list[str], how: str) -> None:
    """Texts of one paragraph, over and over: a model that learns train by heart knows test."""
    for name in files:
        (tmp_path / f"{name}.txt").write_text("one and two and three\nfour\n" * 10)
    facts = load_corpus(str(tmp_path)).facts
    assert facts["split"] == how
    known, of, all_ = facts["test lines of 5 words or more that are in train too"].split()
    assert (known, of) == (all_, "of")


def test_no_line_of_the_manual_is_told_to_be_known_by_its_few_words() -> None:
    assert load_corpus().facts == {
        "split": "by topic",
        "test lines of 5 words or more that are in train too": "1 of 283",
    }


def test_ten_files_are_held_out_whole(tmp_path: Path) -> None:
    source = write(tmp_path, {f"chapter{n}.txt": f"number{n} here\n" for n in range(10)})
    corpus = load_corpus(source, min_count=1)
    assert words(corpus, "train") == " ".join(f"number{n} here {EOS}" for n in (1, 2, 3, 4, 6, 7, 8, 9))
    assert words(corpus, "valid") == words(corpus, "test") == f"{UNK} here {EOS}"


def test_a_few_files_are_read_as_one_in_the_order_of_their_names(tmp_path: Path) -> None:
    several = write(tmp_path / "several", {"b.txt": "x y\n" * 15, "a.txt.gz": "u v\n" * 15, ".hidden.txt": "no\n"})
    one = write(tmp_path / "one", {"all.txt": "u v\n" * 15 + "x y\n" * 15})
    assert load_corpus(several).fingerprint() == load_corpus(one).fingerprint()


def test_items_are_held_out_of_every_ten() -> None:
    held = hold_out(range(23))
    assert (held["valid"], held["test"]) == ([0, 10, 20], [5, 15])
    assert sorted(held["train"] + held["valid"] + held["test"]) == list(range(23))


def test_own_text_meets_unknown_words_in_training(tmp_path: Path) -> None:
    source = write(tmp_path, {"own.txt": "".join(f"often word{n}\n" for n in range(30))}) + "/own.txt"
    assert load_corpus(source).vocabulary.words == (EOS, UNK, "often")
    assert len(load_corpus(source, min_count=1).vocabulary) == 27
    assert len(load_corpus(source, min_count=1, max_vocab_size=7).vocabulary) == 7


def test_own_text_is_capped_at_ten_thousand_words(tmp_path: Path) -> None:
    lines = [f"w{n} w{n}\n" for n in range(15_000)]
    assert len(load_corpus(write(tmp_path, {"own.txt": "".join(lines)}) + "/own.txt").vocabulary) == 10_000


def test_a_public_corpus_comes_from_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served = Path(write(tmp_path / "served", TREEBANK))
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "kept"))

    def public(split: str) -> PublicFile:
        file = served / f"ptb.{split}.txt"
        return PublicFile(f"ptb/{file.name}", file.as_uri(), hashlib.sha256(file.read_bytes()).hexdigest())

    monkeypatch.setitem(PUBLIC, "ptb", DataSet("", "", {split: public(split) for split in SPLITS}))
    corpus = load_corpus("ptb")
    assert corpus.name == "ptb"
    assert corpus.fingerprint() == load_corpus(str(served)).fingerprint() == load_corpus("ptb").fingerprint()
    assert sorted(file.name for file in (tmp_path / "kept" / "ptb").iterdir()) == sorted(TREEBANK)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_corpora_name_a_file_and_a_checksum_for_each_split(name: str) -> None:
    public = PUBLIC[name]
    assert set(public.files) == set(SPLITS)
    assert len({file.sha256 for file in public.files.values()}) == 3
    for split, file in public.files.items():
        assert split in file.path
        assert file.url.startswith("https://")
        assert file.url.endswith(file.path.rpartition("/")[2])
        assert re.fullmatch("[0-9a-f]{64}", file.sha256)


def test_the_catalogue_has_every_name_and_a_line_for_people() -> None:
    assert set(CATALOGUE) == {"manual", "synthetic", *PUBLIC}
    assert all(data.about and data.licence for data in CATALOGUE.values())
    assert [name for name, data in CATALOGUE.items() if not data.files] == ["manual", "synthetic"]


def test_the_manual_is_the_default() -> None:
    corpus = load_corpus()
    assert corpus.name == "manual"
    assert corpus.fingerprint() == load_corpus("manual").fingerprint()
    sizes = {split: len(stream) for split, stream in corpus.streams.items()}
    assert sizes["train"] > 40_000
    assert all(0.05 < sizes[split] / sizes["train"] < 0.3 for split in ("valid", "test"))
    assert 1_500 < len(corpus.vocabulary) < 4_000
    assert (corpus.streams["train"] == corpus.vocabulary.unk).any()
    assert all(word in corpus.vocabulary for word in ("the", "function", "object", ".", "N"))
    assert all(word == word.lower() for word in corpus.vocabulary.words if word != "N")


def test_no_paragraph_of_the_manual_is_in_two_splits() -> None:
    shared = "The same words.\n\nOnly short."
    topics = {f"topic{n}": f"Topic {chr(97 + n)}\n*******\n" for n in range(10)}
    topics["topic0"] += "\n\nThe same\nwords.\n\nHeld out."
    topics["topic1"] += f"\n\n{shared} And a long topic that quotes the first one."
    split = split_topics(topics)
    assert " ".join(split["valid"]) == f"topic a {EOS} the same words . {EOS} held out . {EOS}"
    assert "same" not in split["train"]
    assert "quotes" in split["train"]


def test_paragraphs_are_readable_words() -> None:
    text = (
        'The "assert" statement\n**********\n\nIt\'s a *nice\nidea*: see version 3.11, e.g. "x**2 != 0x1f". '
        "Don’t use well-\nknown names.\n\n   * one _item_\n\n   * two\n   * three -> ...\n+----+\n| a  |\n"
    )
    lines = [" ".join(sentence) for paragraph in paragraphs(text) for sentence in paragraph]
    assert lines == [
        "the assert statement",
        "it's a nice idea : see version N , e.g. x ** N != N .",
        "don't use well-known names .",
        "one _item_",
        "two",
        "three -> ... | a |",
    ]


def test_the_synthetic_corpus_brings_its_limits() -> None:
    corpus = load_corpus("synthetic")
    assert corpus.entropy is not None
    assert set(corpus.limits) == set(SPLITS)
    with pytest.raises(
        RecipeError,
        match=r"synthetic: tokenizer, lowercase, min_count or max_vocab_size would change its entropy.",
    ):
        load_corpus("synthetic", max_vocab_size=10)


def test_the_fingerprint_sees_words_order_and_splits() -> None:
    vocabulary, other = Vocabulary((EOS, UNK, "a")), Vocabulary((EOS, UNK, "b"))
    short, long = torch.tensor([0, 2]), torch.tensor([0, 2, 2])
    streams = {"train": long, "valid": short, "test": short}
    different = [
        Corpus("x", vocabulary, streams),
        Corpus("x", other, streams),
        Corpus("x", vocabulary, {**streams, "train": long.flip(0)}),
        Corpus("x", vocabulary, {"train": long[:2], "valid": torch.tensor([2, 0, 2]), "test": short}),
    ]
    assert len({corpus.fingerprint() for corpus in different}) == len(different)
    assert Corpus("y", vocabulary, streams, entropy=1.0).fingerprint() == different[0].fingerprint()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "own.txt: empty, no word in it. Give a file with text."),
        (b" \n\n \t\n", "own.txt: empty, no word in it. Give a file with text."),
        (b"a\nb\nc\0d\n", "own.txt, line 3: a zero byte, so no text. Give a text file."),
        (
            b"a\nb \xff c\n",
            "own.txt, line 2: byte 0xff is not UTF-8. Give a text file, converted to UTF-8 if need be.",
        ),
        (b"alone", "own.txt: the train split has 1 tokens, expected at least 2. Give more text."),
        (b"one two three four five", "own.txt: the valid split has 1 tokens, expected at least 2. Give more text."),
    ],
)
def test_a_file_that_is_no_text_or_too_little(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_bytes(content)
    with pytest.raises(DataError) as refused:
        load_corpus(str(tmp_path / "own.txt"))
    assert str(refused.value) == f"{tmp_path}/{message}"


def test_a_broken_file_in_a_folder_is_named(tmp_path: Path) -> None:
    write(tmp_path, TREEBANK)
    (tmp_path / "ptb.valid.txt").rename(tmp_path / "ptb.valid.txt.xz")
    with pytest.raises(DataError, match=r"ptb.valid.txt.xz: not a whole .xz file"):
        load_corpus(str(tmp_path))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({}, "no text in this folder. Put files in it that end in .txt, .text, .tokens, .md, .rst, plain, .gz or .xz."),
        ({"image.png": "x"}, "no text in this folder. "),
        (
            {"train.txt": "a b", "test.txt": "a b"},
            "a file for test, train, none for valid. "
            "Add one named so, such as valid.txt, or give a single file to have it split.",
        ),
        (
            {**TREEBANK, "ptb.char.train.txt": "a b"},
            "both ptb.char.train.txt and ptb.train.txt are named for train. Leave one.",
        ),
    ],
)
def test_a_folder_that_does_not_make_a_corpus(texts: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        load_corpus(write(tmp_path, texts))
    assert str(refused.value).startswith(f"{tmp_path}: {message}")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("ptbb", "ptbb: no such file or folder, and no corpus of that name. Did you mean ptb?"),
        ("WikiText2", "WikiText2: no such file or folder, and no corpus of that name. Did you mean wikitext-2?"),
        (
            "./gone/x.txt",
            "./gone/x.txt: no such file or folder, and no corpus of that name. "
            "Known: manual, synthetic, ptb, wikitext-2.",
        ),
    ],
)
def test_an_unknown_source(source: str, message: str) -> None:
    with pytest.raises(DataError) as refused:
        load_corpus(source)
    assert str(refused.value) == message


def test_the_embedded_text_is_the_same_under_every_python(monkeypatch: pytest.MonkeyPatch) -> None:
    other = types.ModuleType("pydoc_data.topics")
    other.topics = {"if": "This Python has another manual."}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", other)
    _split_manual.cache_clear()
    corpus = load_corpus()
    # Every number that is published of this text was measured with this fingerprint.
    assert corpus.fingerprint() == "5dd3730afac02e13d0301f5babaa9ed352dae1d3c88bec177d7ab717f367d788"
    assert {split: len(words) for split, words in manual().items()} == {"train": 57_462, "valid": 5_988, "test": 6_923}
