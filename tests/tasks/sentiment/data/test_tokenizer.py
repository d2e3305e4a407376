"""Words and their ids, and batches of texts of similar length."""

import pytest
import torch

from porism.errors import DataError
from porism.tasks.sentiment.data.batches import ReviewBatches, encode_reviews, evaluation_batches
from porism.tasks.sentiment.data.reviews import Review
from porism.tasks.sentiment.data.tokenizer import WordTokenizer, read_tokenizer


def test_words_signs_and_case() -> None:
    tokenizer = WordTokenizer.from_texts(["Don't buy, DON'T! 👍"], lowercase=True)
    assert tokenizer.words == ["[PAD]", "[UNK]", "don't", "!", ",", "buy", "👍"]
    assert tokenizer.decode(tokenizer.encode("don't BUY 👍 now", 9).ids) == "don't buy 👍 [UNK]"
    cased = WordTokenizer.from_texts(["Don't buy, DON'T!"], lowercase=False)
    assert cased.encode("don't DON'T", 9).tokens == ["[UNK]", "DON'T"]
    again = read_tokenizer(cased.to_json())
    assert again.encode("Don't buy", 9) == cased.encode("Don't buy", 9)


def test_rare_words_are_unknown() -> None:
    texts = ["a a a b b c"]
    assert WordTokenizer.from_texts(texts, lowercase=True, min_count=2).words[2:] == ["a", "b"]
    assert WordTokenizer.from_texts(texts, lowercase=True, max_vocab_size=3).words[2:] == ["a"]
    with pytest.raises(DataError, match="no word of the training texts is seen 4 times"):
        WordTokenizer.from_texts(texts, lowercase=True, min_count=4)


def test_a_long_text_is_truncated_and_says_so() -> None:
    tokenizer = WordTokenizer.from_texts(["a b c"], lowercase=True)
    assert tokenizer.encode("a b c a b", 3)[::2] == ([2, 3, 4], 5)


@pytest.mark.parametrize("buckets", [1, 3, 100])
def test_every_text_is_in_one_batch_with_texts_of_its_length(buckets: int) -> None:
    reviews = [Review("w " * (1 + number % 7), number % 3) for number in range(20)]
    tokenizer = WordTokenizer.from_texts(["w"], lowercase=True)
    examples = encode_reviews(reviews, tokenizer, max_length=5)
    batches = ReviewBatches(examples, 0, 4, buckets, seed=1, epoch=1)
    seen = []
    for tokens, lengths, labels in batches:
        assert tokens.shape[1] >= int(lengths.max())
        if buckets == 100:
            assert tokens.shape[1] == int(lengths.max()) == int(lengths.min())
        for row, length, label in zip(tokens, lengths.tolist(), labels.tolist(), strict=True):
            assert row.tolist() == [2] * length + [0] * (len(row) - length)
            seen.append((length, label))
    assert sorted(seen) == sorted((min(5, 1 + number % 7), number % 3) for number in range(20))
    again = ReviewBatches(examples, 0, 4, buckets, seed=1, epoch=2)
    assert buckets == 100 or any(not torch.equal(one[2], other[2]) for one, other in zip(batches, again, strict=True))


def test_evaluation_sees_every_text_once() -> None:
    reviews = [Review("w " * n, n % 3) for n in (3, 1, 2, 9, 1)]
    examples = encode_reviews(reviews, WordTokenizer(["p", "u", "w"], True), 5)
    found: list[tuple[int, int]] = []
    for rows, batch in evaluation_batches(examples, 0, 2):
        found += zip(rows.tolist(), batch.labels.tolist(), strict=True)
    assert sorted(found) == [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1)]
