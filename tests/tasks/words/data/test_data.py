"""Texts by name, file and folder; and one clear line for each that is none."""

import gzip
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from porism.errors import DataError
from porism.runs.recipe import override
from porism.tasks.blocks.texts import EOS
from porism.tasks.blocks.words_and_marks import WORD, spaced
from porism.tasks.language.data.tokenizer import get_tokenizer
from porism.tasks.words.data import load_corpus
from porism.tasks.words.data.corpus import ReadingOptions
from porism.tasks.words.data.spaced_numba import spaced_bytes
from porism.tasks.words.recipes import RECIPES
from porism.tasks.words.task import Words

ALL = ReadingOptions(least_count=1, every=4)


def test_the_manual_needs_no_file() -> None:
    corpus = load_corpus(None)
    assert {"function", "class", "the"} <= set(corpus.vocabulary.words)
    assert min(corpus.vocabulary.counts) == 5
    assert len(corpus.held_out("valid")) > 1000


def test_a_folder_may_come_split(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"my.{split}.txt").write_text(f"the {split} text\n" * 9)
    corpus = load_corpus(str(tmp_path), ALL)
    assert corpus.vocabulary.words == ("text", "the", "train")
    assert len(corpus.held_out("test")) == 27


def test_a_split_without_a_word_is_refused(tmp_path: Path) -> None:
    for split, text in (("train", "the train text\n" * 300), ("valid", "the train text\n" * 300), ("test", "")):
        (tmp_path / f"{split}.txt").write_text(text)
    with pytest.raises(DataError, match="no pair of known words in what is held out for test"):
        Words.load(override(RECIPES["full"], ["min_count=1"]), str(tmp_path))


def test_a_folder_of_other_files_is_one_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\n" * 8)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"two three\n" * 8))
    assert load_corpus(str(tmp_path), ALL).vocabulary.counts == (8, 4, 4)


TALK = "Rain, rain, and rain: it rains (a lot)! Don't go out; well-known 3.5 mm.\nNo rain. Été, été!\n"


def test_your_own_text_is_cut_as_the_language_task_cuts_it(tmp_path: Path) -> None:
    file = tmp_path / "talk.txt"
    file.write_text(TALK * 41, encoding="utf-8")
    own = load_corpus(str(file), ReadingOptions(least_count=1, every=5))
    assert own.reading.tokenizer == "words"
    assert set(own.vocabulary.words) == set(get_tokenizer("words", lowercase=True).stream(TALK)) - {EOS}
    assert own.words == sum(own.vocabulary.counts)
    given = load_corpus(str(file), ALL, "whitespace")
    assert "rain," in given.vocabulary
    assert own.fingerprint != given.fingerprint


def test_known_corpora_and_given_splits_stay_as_they_are(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("rain, rain\n" * {"train": 9, "valid": 8, "test": 7}[split])
    assert load_corpus(str(tmp_path), ALL).vocabulary.words == ("rain", "rain,")
    assert load_corpus(str(tmp_path), ALL, "words").vocabulary.words == ("rain", ",")


MARKS = "ab1_.,'- \n\t\r\x1c\x1f!\u00e9\u00a0\u3000\u65e5\u2019\u00b2\u0663\x85\u2028"


@example(TALK)
@example(f"é, {'far, ' * 20}é!\n{'near ' * 2}é 3.5 {'far, ' * 20}")
@example("a3.5 3.5-inch x_1 'quoted' 1,000,000 - -- e.g. U.S.A. f(x)=y\tz\r\nend")
@given(st.text(st.one_of(st.sampled_from(MARKS), st.characters(exclude_categories=["Cs"]))))
def test_bytes_are_cut_as_text_is(text: str) -> None:
    words = [word for part in text.split("\n") for word in (*WORD.findall(part), "\n")][:-1]
    assert spaced_bytes(text.encode()).decode() == spaced(text) == " ".join(words)


def test_what_has_no_vector_is_counted_and_told(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("".join(f"one two, one two number{n}\n" for n in range(400)))
    task = Words.load(override(RECIPES["small"], ["validation_split=0.1"]), str(file))
    facts = task.facts()
    assert (facts["tokenizer"], facts["words"], facts["vocabulary"]) == ("words, in lower case", 320 * 6, 3)
    assert [facts[f"words of {split} without a vector"] for split in task.splits] == ["16.7 %"] * 3
    assert task.notes()[0] == (
        "1,920 words (words, in lower case), vocabulary 3; rarer than min_count=5, and so without a vector: "
        "train 16.7 %, valid 16.7 %, test 16.7 %"
    )


def test_how_a_text_was_split_and_how_many_pairs_are_scored_is_told(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("one two, one two\n" * 100)
    small = override(RECIPES["small"], ["validation_split=0.1", "sample=0"])
    own, cut = (Words.load(small, str(source)) for source in (tmp_path, tmp_path / "train.txt"))
    assert own.facts()["split"] == "as given"
    assert cut.facts()["split"] == "of every 10 sentences one is valid and one test"
    counts = [len(cut._pairs(split)) for split in ("valid", "test")]
    assert cut.facts()["pairs scored"] == f"{counts[0]} of valid, {counts[1]} of test"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "text.txt: empty, no word in it. Give a file with text."),
        (b" \n\n", "text.txt: empty, no word in it. Give a file with text."),
        (b"word", "text.txt: one word only, 'word', without a context. Give more text."),
        (b"a b\n" * 3000 + b"caf\xe9 b\n", "text.txt, byte 12003: 0xe9 is not UTF-8."),
        (b"a b\n" * 3000 + b"\x00", "text.txt, byte 12000: a zero byte, so no text. Give a text file."),
        (b"a b c a\n", "text.txt: no word comes 5 times or more; the most frequent, 'a', comes 2 times."),
        (b"a b a b a b a b a b\n", "text.txt: no pair of known words in what is held out for valid."),
        (b"a\nb\n" * 500, "text.txt: no pair of known words in what is held out for valid."),
    ],
    ids=["empty", "blank", "one word", "latin-1", "zero", "rare", "short", "words alone"],
)
def test_a_bad_text_is_one_clear_line(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(content)
    with pytest.raises(DataError) as refused:
        Words.load(override(RECIPES["small"], ["batch_size=100"]), str(file))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_names_what_is_known() -> None:
    with pytest.raises(DataError, match=r"wikitext: no such file or folder, .* Did you mean wikitext-2\?"):
        load_corpus("wikitext")
