"""Tokenizers: what they cut, that what can be put together again is, and what a text comes to in tokens and bytes."""

import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import MissingExtra, RecipeError
from porism.tasks.blocks.texts import EOS
from porism.tasks.language.data import load_corpus
from porism.tasks.language.data.text_facts import text_facts, text_notes
from porism.tasks.language.data.tokenizer import Bpe, from_json, get_tokenizer

PROSE = "The function, as I said, returns. A function's value: 3.14 (or 1,000).\nDon't panic!\n" * 12


def write(folder: Path, text: str) -> str:
    (folder / "own.txt").write_text(text, encoding="utf-8")
    return str(folder / "own.txt")


@pytest.mark.parametrize(
    ("name", "line", "tokens"),
    [
        ("whitespace", " a  b, c ", ["a", "b,", "c"]),
        ("words", "function, function. (x_1)", ["function", ",", "function", ".", "(", "x_1", ")"]),
        ("words", "well-known l’été 3.14 1,000", ["well-known", "l’été", "3.14", "1,000"]),
        ("words", "属性是abc、はい", ["属", "性", "是", "abc", "、", "は", "い"]),
        ("characters", "a bé", ["a", " ", "b", "é"]),
        ("bytes", "aé", ["61", "c3", "a9"]),
    ],
)
def test_a_line_is_cut(name: str, line: str, tokens: list[str]) -> None:
    assert get_tokenizer(name).tokens(line) == tokens


def test_lines_end_in_eos_and_lower_case_is_on_request() -> None:
    assert list(get_tokenizer("words", lowercase=True).stream("One.\n\nTwo")) == ["one", ".", EOS, EOS, "two"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")))
def test_characters_and_bytes_give_the_text_back(line: str) -> None:
    for name in ("characters", "bytes"):
        tokenizer = get_tokenizer(name)
        assert tokenizer.text(tokenizer.tokens(line)) == line


@pytest.mark.parametrize("line", ["Don't panic, he said.", "f (x, y): [1], 100%!", "属性是什么？ 好"])
def test_words_are_put_together_as_they_were(line: str) -> None:
    tokenizer = get_tokenizer("words")
    assert tokenizer.text(tokenizer.tokens(line)).replace("f(x", "f (x").replace(" ", "") == line.replace(" ", "")
    if line.isascii():
        assert tokenizer.text(tokenizer.tokens(line)) == line


def test_bpe_merges_what_is_frequent_and_knows_every_byte() -> None:
    pytest.importorskip("tokenizers")
    bpe = get_tokenizer("bpe", train=PROSE, vocab_size=300)
    assert "Ġfunction" in bpe.alphabet()
    assert len(bpe.alphabet()) == 300
    assert bpe.text(bpe.tokens("A function: 中文 né")) == "A function: 中文 né"
    again = from_json(bpe.to_json())
    assert again == bpe
    assert again.tokens("the function") == bpe.tokens("the function")
    assert get_tokenizer("bpe", train=PROSE, vocab_size=300) == bpe


def test_bpe_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtra, match="tokenizer=bpe needs tokenizers, which is not installed: pip install"):
        Bpe.trained(PROSE, 300, lowercase=False)


@pytest.mark.parametrize("name", ["whitespace", "words", "characters", "bytes"])
def test_a_tokenizer_is_kept_with_a_run(name: str) -> None:
    tokenizer = get_tokenizer(name, lowercase=True)
    assert from_json(tokenizer.to_json()) == tokenizer


def test_a_run_of_0_1_cuts_at_white_space() -> None:
    assert from_json(None) == get_tokenizer("whitespace")


def test_own_text_is_cut_into_words_and_named_splits_are_as_they_are(tmp_path: Path) -> None:
    corpus = load_corpus(write(tmp_path, PROSE))
    assert corpus.tokenizer.name == "words"
    assert "function" in corpus.vocabulary
    assert "function," not in corpus.vocabulary
    assert "function," in load_corpus(write(tmp_path, PROSE), tokenizer="whitespace").vocabulary
    assert "the" in load_corpus(write(tmp_path, PROSE), lowercase=True).vocabulary
    (tmp_path / "given").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "given" / f"{split}.txt").write_text("function, here\n" * 3 + split)
    assert "function," in load_corpus(str(tmp_path / "given")).vocabulary


def test_a_vocabulary_that_has_no_room_for_the_tokenizers_own_tokens(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"max_vocab_size=100 cannot be: tokenizer=bytes has 256 tokens of its own"):
        load_corpus(write(tmp_path, PROSE), tokenizer="bytes", max_vocab_size=100)


def test_bits_a_byte_of_tokens_without_unknown_ones_are_their_nats(tmp_path: Path) -> None:
    corpus = load_corpus(write(tmp_path, PROSE), tokenizer="bytes")
    assert corpus.unknown_share("test") == 0
    # A uniform model of 256 bytes pays 8 bits for each, the end of a line included.
    assert corpus.bits_per_byte("test", math.log(256)) == pytest.approx(8)


def test_one_text_is_one_evaluation_however_it_is_cut(tmp_path: Path) -> None:
    source = write(tmp_path, PROSE)
    words, letters = (load_corpus(source, tokenizer=name) for name in ("words", "characters"))
    assert words.fingerprint() != letters.fingerprint()
    assert words.text_id() == letters.text_id()
    (tmp_path / "other").mkdir()
    assert load_corpus(write(tmp_path / "other", PROSE.replace("a", "e"))).text_id() != words.text_id()


def test_unknown_words_are_spelled(tmp_path: Path) -> None:
    source = write(tmp_path, "".join(f"often w{n}\n" for n in range(30)))
    few, many = load_corpus(source), load_corpus(source, tokenizer="characters", min_count=1)
    assert few.unknown_share("test") == pytest.approx(1 / 3)
    # A model that is sure of <unk> and of all else still has to spell three words of three characters and their ends.
    spelled = few.bits_per_byte("test", 0.0)
    assert spelled * few.sizes["test"].bytes > 9 * math.log2(4)
    assert many.bits_per_byte("test", 0.0) == 0
    assert few.sizes["test"].bytes == many.sizes["test"].bytes == len("often w27\n") * 3


def test_a_character_that_training_never_shows_costs_as_much_as_any(tmp_path: Path) -> None:
    lines = ["aa\n"] * 16 + ["aa\n"] * 2 + ["aa 中\n"] * 2
    (tmp_path / "own.txt").write_text("".join(lines), encoding="utf-8")
    size = load_corpus(str(tmp_path / "own.txt")).sizes["test"]
    # Nothing is unknown in training: an end, and another character, one to one.
    assert size.spelling == pytest.approx(2 * (math.log(2) + math.log(0x110000) + math.log(2)))


def test_much_that_is_unknown_is_warned_of(tmp_path: Path) -> None:
    corpus = load_corpus(write(tmp_path, "".join(f"often w{n}\n" for n in range(30))))
    assert text_facts(corpus) == {
        "tokenizer": "words",
        "vocabulary": 3,
        "tokens of train": 72,
        "tokens of valid": 9,
        "tokens of test": 9,
        "split": "80, 10 and 10 % of the lines in their order",
        "<unk> in train": "33.3 %",
        "<unk> in valid": "33.3 %",
        "<unk> in test": "33.3 %",
    }
    told, warning = text_notes(corpus)
    assert told.startswith("tokens (words): train 72 (33.3 % <unk>), valid 9")
    assert warning.startswith("warning: 33.3 % of train is <unk>")
    assert len(text_notes(load_corpus())) == 1


@pytest.mark.parametrize(
    ("name", "prompt", "line", "joined"),
    [
        ("characters", "a fun", "ction is", "a function is"),
        ("characters", "a ", "b", "a b"),
        ("bytes", "caf", "é", "café"),
        ("bpe", "a fun", "ction is", "a function is"),
        ("words", "Wait", ", he said", "Wait, he said"),
        ("words", "he (", "she) said", "he (she) said"),
        ("words", "the  function ", "is", "the  function is"),
        ("whitespace", "the", ", function", "the , function"),
        ("whitespace", "", "the", "the"),
        ("words", "the", "", "the"),
    ],
)
def test_a_continuation_joins_the_prompt_as_the_tokenizer_writes_texts(
    name: str, prompt: str, line: str, joined: str
) -> None:
    tokenizer = get_tokenizer(name, train="a function is a function\n" * 9, vocab_size=300)
    assert tokenizer.continued(prompt, tokenizer.tokens(line)) == joined
