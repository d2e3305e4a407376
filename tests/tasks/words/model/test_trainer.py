"""The training core: right word for word, the same bits where it says so, and it learns."""

import math
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.words.model.reference import trained
from torch import Tensor

from porism.errors import MissingExtra, RecipeError, ShapeError, TrainingError
from porism.layers.skipgram import SkipGram
from porism.runs.recipe import override
from porism.tasks.words.model import trainer as core
from porism.tasks.words.model.trainer import (
    END,
    LARGEST_BLOCK,
    KernelStep,
    Trainer,
    _kernels,
    kept_share,
    padded,
)
from porism.tasks.words.recipes import RECIPES

pytest.importorskip("numba")

V = 63


def text(length: int, seed: int = 0) -> Tensor:
    """Words as frequent as words are, in sentences of odd lengths, some of them empty."""
    draw = np.random.default_rng(seed)
    shares = 1 / np.arange(1, V + 1)
    tokens = draw.choice(V, length, p=shares / shares.sum())
    tokens[draw.random(length) < 0.05] = END
    return torch.from_numpy(tokens).int()


def trainer(tokens: Tensor, width: int = 7, **options: Any) -> Trainer:
    """At vectors that are far from 0, where every term of a gradient counts."""
    frequencies = tokens[tokens >= 0].bincount(minlength=V).numpy() + 1
    options = {"sample": 0.05, "threads": 1, "seed": 3} | options
    made = Trainer.fresh(frequencies, width, 10 * len(tokens), **options)
    draw = np.random.default_rng(1)
    for vectors in (made.words, made.contexts):
        vectors[:, :width] = torch.from_numpy(draw.normal(size=(V, width), scale=0.5))
    return made


@pytest.mark.parametrize("width", [1, 7, 8, 63])
@pytest.mark.parametrize(("window", "negatives", "draws"), [(5, 5, 2), (1, 1, 1), (2, 7, 3)])
def test_one_thread_equals_plain_python(width: int, window: int, negatives: int, draws: int) -> None:
    tokens = text(200)
    ours = trainer(tokens, width, window=window, negatives=negatives, draws=draws)
    words, contexts = trained(ours, tokens.tolist(), block=None)
    ours.train(tokens)
    assert np.abs(ours.words.numpy() - words).max() < 1e-5
    assert np.abs(ours.contexts.numpy() - contexts).max() < 1e-5
    assert not torch.equal(ours.words, trainer(tokens, width).words)


@pytest.mark.parametrize("width", [1, 7, 8, 63])
@pytest.mark.parametrize(("window", "negatives", "draws"), [(5, 5, 2), (1, 1, 1), (2, 7, 3)])
def test_blocks_equal_plain_python(width: int, window: int, negatives: int, draws: int) -> None:
    tokens = text(200)
    ours = trainer(tokens, width, window=window, negatives=negatives, draws=draws, deterministic=True)
    words, contexts = trained(ours, tokens.tolist(), ours._block)
    ours.train(tokens)
    assert np.abs(ours.words.numpy() - words).max() < 1e-5
    assert np.abs(ours.contexts.numpy() - contexts).max() < 1e-5


@pytest.mark.sample(1)
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_the_same_bits_for_any_number_of_threads(threads: int) -> None:
    tokens = text(5000)
    one, many = (trainer(tokens, deterministic=True, threads=n) for n in (1, threads))
    for chunk in (tokens[:3000], tokens[3000:]):
        assert one.train(chunk) == many.train(chunk)
    assert torch.equal(one.words, many.words)
    assert torch.equal(one.contexts, many.contexts)


def test_another_seed_gives_other_bits() -> None:
    tokens = text(500)
    one, other = (trainer(tokens, deterministic=True, seed=seed) for seed in (3, 4))
    one.train(tokens)
    other.train(tokens)
    assert not torch.equal(one.words, other.words)


# Two threads that share the vectors of twenty words undo much of each other's work: how much is up to the machine.
@pytest.mark.parametrize(("deterministic", "threads", "margin"), [(False, 1, 0.5), (False, 2, 0.0), (True, 2, 0.5)])
def test_it_learns_two_communities(deterministic: bool, threads: int, margin: float) -> None:
    """Sentences are of even or of odd words. In the end a word is nearer to its own kind than to the other."""
    draw = np.random.default_rng(0)
    sentences = [np.append(2 * draw.integers(0, 10, 9) + draw.integers(2), END) for _ in range(3000)]
    tokens = torch.from_numpy(np.concatenate(sentences)).int()
    frequencies = tokens[tokens >= 0].bincount().numpy()
    ours = Trainer.fresh(frequencies, 16, 3 * len(tokens), sample=0, threads=threads, deterministic=deterministic)
    losses = [ours.train(tokens).loss for _ in range(3)]
    assert losses[-1] < losses[0] < 6 * math.log(2)
    unit = torch.nn.functional.normalize(ours.vectors)
    cosines = (unit @ unit.T).numpy()
    same = np.add.outer(np.arange(20), np.arange(20)) % 2 == 0
    assert cosines[same & ~np.eye(20, dtype=bool)].min() > cosines[~same].max() + margin


def test_progress_counts_what_was_done() -> None:
    tokens = text(1000)
    ours = trainer(tokens, sample=0)
    progress = ours.train(tokens)
    real = int((tokens >= 0).sum())
    assert (progress.tokens, progress.kept, ours.done) == (real, real, real)
    assert progress.rate == pytest.approx(0.025 + (1e-4 - 0.025) * real / 10_000)
    # A window reaches 1 to 5 words to both sides, less what the ends of sentences cut off.
    assert 2 * real < progress.pairs < 6 * real
    assert ours.train(tokens[:0]).pairs == 0
    assert math.isnan(ours.train(torch.tensor([0, END, 1], dtype=torch.int32)).loss)


def test_frequent_words_are_dropped_as_often_as_the_formula_says() -> None:
    tokens = text(50_000)
    ours = trainer(tokens)
    frequencies = tokens[tokens >= 0].bincount(minlength=V)
    expected = float((frequencies * ours._keep).sum())
    assert ours.train(tokens).kept == pytest.approx(expected, abs=5 * math.sqrt(expected))
    assert kept_share(np.array([0.04, 1e-4]), 0.01) == pytest.approx([0.75, 1.0])
    assert kept_share(np.array([0.5, 0.5]), 0).tolist() == [1, 1]


def test_the_filling_stays_zero() -> None:
    tokens = text(500)
    ours = trainer(tokens, width=63)
    ours.train(tokens)
    assert ours.words.shape == (V, 64)
    assert not ours.words[:, 63:].any()
    assert not ours.contexts[:, 63:].any()
    assert torch.equal(padded(ours.vectors), ours.words)


def test_a_block_is_shorter_where_words_come_more_often() -> None:
    def block(frequencies: list[int], **options: Any) -> int:
        return Trainer.fresh(np.array(frequencies), 8, 1, **options)._block

    assert block([1] * 100_000) == LARGEST_BLOCK
    assert block([1] * 100) < LARGEST_BLOCK
    assert block([1] * 50) == pytest.approx(block([1] * 100) / 2, abs=1)
    assert block([1] * 100, rate=0.05) == pytest.approx(block([1] * 100) / 2, abs=1)
    assert block([1], rate=10.0) == 1


def test_vectors_that_are_no_numbers_are_noticed() -> None:
    tokens = text(100)
    ours = trainer(tokens)
    ours.words[0] = torch.nan
    with pytest.raises(
        TrainingError, match=r"training diverged within \d+ tokens: .*Start again with a rate below 0\.025"
    ):
        ours.train(tokens)


def test_a_rate_that_is_too_high_is_noticed() -> None:
    tokens = text(50_000)
    ours = trainer(tokens, rate=20.0)
    with pytest.raises(TrainingError, match=r"that of zeros 4\.16\. Start again with a rate below 20"):
        ours.train(tokens)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (
            torch.zeros(3).long(),
            r"tokens are \(3,\) of torch.int64, expected \(T,\) of torch.int32\. Convert with tokens",
        ),
        (torch.zeros(1, 3).int(), r"tokens are \(1, 3\) of torch.int32, expected \(T,\)"),
        (torch.tensor([V]).int(), r"tokens run from 63 to 63, expected 0 to 62, and -1 between sentences\. Leave out"),
        (torch.tensor([-2, 1]).int(), r"tokens run from -2 to 1, expected 0 to 62"),
        (torch.ones(3).int().to_sparse(), r"tokens are torch\.sparse_coo on cpu, expected a dense tensor"),
        (
            torch.ones(3, device="meta").int(),
            r"tokens are torch\.strided on meta, expected a dense tensor",
        ),
        ([0, 1], r"tokens are list, expected a dense tensor"),
    ],
)
def test_tokens_that_cannot_be_are_refused(tokens: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        trainer(text(100)).train(tokens)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, r"window is 0\. Give a whole number from 1 to 65536\."),
        ({"window": True}, r"window is True\. Give a whole number"),
        ({"window": 2.5}, r"window is 2\.5\. Give a whole number"),
        ({"window": math.nan}, r"window is nan\. Give a whole number"),
        ({"window": "3"}, r"window is '3'\. Give a whole number"),
        ({"window": 10**9}, r"window is 1000000000\. Give a whole number"),
        (
            {"window": 60_000},
            r"a word would reach 120010 rows, 60000 words to either side and 10 negatives, at most 65536",
        ),
        ({"negatives": 0}, r"negatives is 0\. Give"),
        ({"negatives": 2.0}, r"negatives is 2\.0\. Give"),
        ({"negatives": 20_000, "draws": 20_000}, r"a word would reach 400000010 rows"),
        ({"draws": 0}, r"draws is 0\. Give"),
        ({"threads": 0}, r"threads is 0\. Give a whole number from 1 to 16384, or None for all cores\."),
        ({"threads": 1.5}, r"threads is 1\.5\. Give"),
        ({"seed": -1}, r"seed is -1\. Give a whole number from 0"),
        ({"done": -1}, r"done is -1\. Give a whole number from 0"),
        ({"sample": math.nan}, r"sample is nan\. Give a finite number\."),
        ({"sample": math.inf}, r"sample is inf\. Give a finite number\."),
        ({"power": math.nan}, r"power is nan\. Give a finite number\."),
        ({"rate": math.inf}, r"rate is inf\. Give a finite number\."),
        ({"rate": math.nan}, r"rate is nan\. Give a finite number\."),
        ({"rate": None}, r"rate is None\. Give a finite number\."),
        ({"rate": 0.0}, r"the rate falls from 0\.0 to 0\.0001\. Give numbers above 0, the larger first\."),
        ({"last_rate": 0.1}, r"the rate falls from 0\.025 to 0\.1\."),
        ({"sample": -1.0}, r"sample is -1\.0\. Give a share such as 0\.001, or 0 to keep all words\."),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        trainer(text(100), **options)


def test_vectors_of_another_width_are_refused() -> None:
    frequencies, words = np.ones(3, np.int64), torch.zeros(3, 7)
    with pytest.raises(
        ShapeError,
        match=r"words are \(3, 7\) of torch.float32, expected \(3, 8\) of torch.float32 .*Make them",
    ):
        Trainer(words, words, 7, frequencies, total=1)


@pytest.mark.parametrize("width", [0, -1, 7.0, True])
def test_a_width_that_is_no_whole_number_is_refused(width: Any) -> None:
    with pytest.raises(RecipeError, match=rf"width is {width}\. Give a whole number from 1 to"):
        Trainer.fresh(np.ones(3, np.int64), width, total=1)


@pytest.mark.parametrize(
    ("words", "contexts", "message"),
    [
        (
            torch.zeros(3, 8),
            torch.zeros(3, 8, device="meta"),
            r"contexts is on meta, words on cpu, expected one device",
        ),
        (
            torch.zeros(3, 8, device="meta"),
            torch.zeros(3, 8, device="meta"),
            r"words are on meta, expected a CPU or a CUDA",
        ),
        (torch.zeros(3, 8), torch.zeros(3, 8).double(), r"words is torch\.float32, contexts is torch\.float64"),
        (
            torch.zeros(3, 8).half(),
            torch.zeros(3, 8).half(),
            r"words are \(3, 8\) of torch.float16, expected \(3, 8\) of",
        ),
        (torch.zeros(3, 8), torch.zeros(3, 1).expand(3, 8), r"contexts are \(3, 8\) of .* without gaps"),
        (torch.zeros(3, 16)[:, ::2], torch.zeros(3, 8), r"words are \(3, 8\) of .* without gaps"),
        (torch._neg_view(torch.zeros(3, 8)), torch.zeros(3, 8), r"words are \(3, 8\) of .* without gaps"),
    ],
)
def test_vectors_that_a_kernel_cannot_reach_are_refused(words: Tensor, contexts: Tensor, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Trainer(words, contexts, 8, np.ones(3, np.int64), total=1)


def test_words_and_contexts_that_share_memory_are_refused() -> None:
    whole = torch.zeros(4, 8)
    for words, contexts in ((whole[:3], whole[:3]), (whole[:3], whole[1:]), (whole[1:], whole[:3])):
        with pytest.raises(ShapeError, match=r"words and contexts share their memory, expected two"):
            Trainer(words, contexts, 8, np.ones(3, np.int64), total=1)
    whole = torch.zeros(6, 8)
    assert Trainer(whole[:3], whole[3:], 8, np.ones(3, np.int64), total=1).vectors.shape == (3, 8)


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("window", 0, RecipeError, r"window is 0\."),
        ("negatives", 1.5, RecipeError, r"negatives is 1\.5\."),
        ("threads", -1, RecipeError, r"threads is -1\."),
        ("sample", math.nan, RecipeError, r"sample is nan\."),
        ("words", torch.zeros(2, 8), ShapeError, r"words are \(2, 8\) of torch.float32, expected \(63, 8\)"),
        ("contexts", torch.zeros(V, 16), ShapeError, r"contexts are \(63, 16\)"),
        ("contexts", torch.zeros(V, 8, device="meta"), ShapeError, r"contexts is on meta"),
        ("width", 9, ShapeError, r"words are \(63, 8\) .*, expected \(63, 16\)"),
        ("frequencies", np.ones(V + 1), ShapeError, r"words are \(63, 8\) .*, expected \(64, 8\)"),
    ],
)
def test_a_field_that_was_replaced_is_checked_too(field: str, value: Any, error: type[Exception], message: str) -> None:
    ours = trainer(text(100))
    setattr(ours, field, value)
    with pytest.raises(error, match=message):
        ours.train(text(100))


def test_a_field_that_was_replaced_counts() -> None:
    """A trainer whose settings were set later does what one does that was made with them."""
    tokens = text(500)
    later = {"sample": 0, "window": 2, "power": 0.5, "rate": 0.1, "frequencies": np.arange(1, V + 1)}
    ours, theirs = trainer(tokens, deterministic=True), trainer(tokens, deterministic=True)
    for field, value in later.items():
        setattr(ours, field, value)
    theirs = Trainer(
        theirs.words, theirs.contexts, 7, np.arange(1, V + 1), theirs.total, window=2, sample=0, power=0.5, rate=0.1,
        seed=theirs.seed, threads=1, deterministic=True,
    )  # fmt: skip
    assert ours.train(tokens) == theirs.train(tokens)
    assert torch.equal(ours.words, theirs.words)


def test_a_larger_vocabulary_later_has_its_own_tables() -> None:
    ours = trainer(text(100))
    ours.frequencies, more = np.ones(1000, np.int64), torch.zeros(1000, 8)
    ours.words, ours.contexts = more, more.clone()
    tokens = torch.arange(1000).int()
    ours.sample = 0
    assert ours.train(tokens).kept == 1000


def test_frequencies_of_the_caller_stay_his() -> None:
    frequencies = np.ones(3, np.int64)
    ours = Trainer.fresh(frequencies, 8, 100)
    frequencies[:] = 0
    assert ours.frequencies.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        ours.frequencies[0] = 7


@pytest.mark.parametrize(
    "frequencies", [np.ones((2, 3)), np.ones(3, bool), np.ones(3, complex), np.array(["a"] * 3)], ids=str
)
def test_what_counts_no_words_is_refused(frequencies: Any) -> None:
    with pytest.raises(ShapeError, match=r"frequencies are \(.*\) of .*, expected \(V,\) of whole numbers"):
        Trainer.fresh(frequencies, 8, 100)


def test_frequencies_whose_sum_is_beyond_64_bits() -> None:
    many, few = (Trainer.fresh(np.full(3, count), 8, 100, sample=0.1) for count in (2**62, 1))
    assert torch.equal(many._keep, few._keep)


def test_autograd_knows_that_vectors_were_changed() -> None:
    """Kernels write by address: without a word of it a backward pass would read the new numbers for the old ones."""
    tokens = text(100)
    for deterministic in (False, True):
        ours = trainer(tokens, deterministic=deterministic)
        ours.words = torch.nn.Parameter(ours.words)
        loss = ours.words.square().sum()
        ours.train(tokens)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_in_inference_mode() -> None:
    with torch.inference_mode():
        assert trainer(text(100)).train(text(100)).pairs > 0


@pytest.mark.parametrize("vectors", [torch.zeros(3), torch.zeros(2, 3, 4)], ids=["one", "three"])
def test_what_has_no_rows_is_not_padded(vectors: Tensor) -> None:
    with pytest.raises(ShapeError, match=r"vectors are \(.*\), expected \(V, D\)"):
        padded(vectors)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = trainer(text(100))
    monkeypatch.setitem(sys.modules, "porism.layers.skipgram.kernels.numba", None)
    monkeypatch.delattr("porism.layers.skipgram.kernels.numba", raising=False)
    with pytest.raises(MissingExtra, match=r'training words needs numba, .*pip install "porism\[words\]"'):
        ours.train(text(100))


@pytest.mark.parametrize("deterministic", [False, True])
def test_kernels_are_compiled_before_the_first_step_and_change_nothing(
    deterministic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels, called = _kernels(), list[str]()

    def noted(name: str) -> Callable[..., Any]:
        def call(tokens: Any, *rest: Any) -> Any:
            called.append(name)
            return getattr(kernels, name)(tokens, *rest)

        return call

    names = ["subsample", "in_blocks" if deterministic else "shared_memory"]
    monkeypatch.setattr(core, "_kernels", lambda: SimpleNamespace(**{name: noted(name) for name in names}))
    torch.manual_seed(0)
    model = SkipGram(V, 7, "negative", 5, torch.ones(V))
    torch.nn.init.normal_(model.context_weight)
    before = [x.detach().clone() for x in model.parameters()]
    recipe = override(RECIPES["small"], ["vector_size=7", f"deterministic={str(deterministic).lower()}"])
    KernelStep(model, recipe, np.ones(V, np.int64), 100)
    assert called == names
    assert all(torch.equal(x, y) for x, y in zip(model.parameters(), before, strict=True))
