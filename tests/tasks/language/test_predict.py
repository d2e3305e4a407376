"""Generating: what the model is fed, which words can come, and when it stops."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from porism.errors import RecipeError
from porism.tasks.language.data.tokenizer import Whitespace
from porism.tasks.language.data.vocabulary import EOS, UNK, Vocabulary
from porism.tasks.language.model.build import build
from porism.tasks.language.predict import checked_options, generate, generate_all, without, word_probabilities
from porism.tasks.language.recipes import RECIPES
from porism.tasks.language.task import Language
from porism.training.task import Carry

VOCABULARY = Vocabulary((EOS, UNK, "in", "palo", "alto", "news"))
V = len(VOCABULARY)


class Parrot(nn.Module):
    """Says a fixed word's logits at every step, and remembers all it was fed and how many steps it has come."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(logits))
        self.fed: list[list[int]] = []
        self.modes: list[bool] = []

    def start(self, batch: int) -> Carry:
        self.before = sum(map(len, self.fed))
        return {"steps": torch.zeros(batch)}

    def logits(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        assert tokens.dim() == 2
        assert tokens.shape[1] == 1
        assert carry["steps"].item() == sum(map(len, self.fed)) - self.before
        self.fed.append(tokens[:, 0].tolist())
        self.modes.append(self.training)
        return self.scores.expand(*tokens.shape, V), {"steps": carry["steps"] + len(tokens)}


def prefers(word: str) -> Parrot:
    return Parrot([9.0 if word == other else 0.0 for other in VOCABULARY.words])


UNDECIDED = [-99.0, 1.0, 1.0, 1.0, 1.0, 1.0]
"""All words but `<eos>` alike."""

logits_of = st.lists(st.floats(-20, 20), min_size=1, max_size=30).map(lambda x: torch.tensor(x, dtype=torch.float64))


def test_the_whole_prompt_is_fed_and_then_each_word_said() -> None:
    model = prefers("news")
    sample = generate(model, VOCABULARY, "in  palo alto", max_new_tokens=3, temperature=0)
    numbers = VOCABULARY.encode([EOS, "in", "palo", "alto"]).tolist()
    assert model.fed == [numbers, [5], [5]]
    assert sample.prompt == "in  palo alto"
    assert sample.output == "news news news"
    assert sample.notes == ()
    assert sample.details == {"words": 3, "stopped": "length", "text": "in  palo alto news news news"}


def test_an_empty_prompt_starts_a_line() -> None:
    model = prefers("news")
    assert generate(model, VOCABULARY, "", max_new_tokens=1, temperature=0).output == "news"
    assert model.fed == [[VOCABULARY.eos]]


def test_it_stops_at_the_end_of_a_line() -> None:
    sample = generate(prefers(EOS), VOCABULARY, "in", temperature=0)
    assert sample.output == ""
    assert sample.details == {"words": 0, "stopped": "end of line", "text": "in"}


def test_unknown_words_are_named_once_and_lower_case_is_tried() -> None:
    model = prefers("news")
    sample = generate(model, VOCABULARY, "In Rome and Rome palo", max_new_tokens=1)
    assert model.fed[0] == VOCABULARY.encode([EOS, "in", UNK, UNK, UNK, "palo"]).tolist()
    assert sample.notes == ("not in the vocabulary, read as <unk>: Rome, and",)


def test_unknown_is_never_said_unless_asked_for_or_all_there_is() -> None:
    assert generate(prefers(UNK), VOCABULARY, "in", max_new_tokens=20, temperature=0).output != UNK
    assert UNK not in generate(Parrot(UNDECIDED), VOCABULARY, "in", max_new_tokens=200).output
    assert UNK in generate(Parrot(UNDECIDED), VOCABULARY, "in", max_new_tokens=200, allow_unk=True).output
    only = Parrot([-math.inf if word != UNK else 0.0 for word in VOCABULARY.words])
    assert generate(only, VOCABULARY, "in", max_new_tokens=2).output == f"{UNK} {UNK}"


def test_the_seed_decides_and_the_global_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    one, same, other = (
        generate(Parrot(UNDECIDED), VOCABULARY, "", max_new_tokens=40, seed=seed).output for seed in (1, 1, 2)
    )
    assert one == same != other
    assert torch.equal(torch.get_rng_state(), before)


def test_prompts_and_sequences_have_random_numbers_of_their_own() -> None:
    model = Parrot(UNDECIDED)
    options = {"max_new_tokens": 12, "seed": 3}
    twice = generate_all(model, VOCABULARY, Whitespace(), ["in", "in"], num_return_sequences=2, **options)
    assert [sample.prompt for sample in twice] == ["in"] * 4
    assert len({sample.output for sample in twice}) == 4
    # The first is what one prompt gives alone; another seed changes all of them.
    assert twice[0] == generate(model, VOCABULARY, "in", **options)  # type: ignore[arg-type]
    assert twice == generate_all(model, VOCABULARY, Whitespace(), ["in", "in"], num_return_sequences=2, **options)
    other = generate_all(
        model, VOCABULARY, Whitespace(), ["in", "in"], num_return_sequences=2, max_new_tokens=12, seed=4
    )
    assert {sample.output for sample in other}.isdisjoint(sample.output for sample in twice)
    with pytest.raises(RecipeError, match="num_return_sequences is 0, expected at least 1"):
        generate_all(model, VOCABULARY, Whitespace(), ["in"], num_return_sequences=0)


def test_models_of_one_report_have_random_numbers_of_their_own() -> None:
    """Models that know the same say the same only by chance: each recipe draws for itself, and always alike."""
    model = build(RECIPES["elman"], V)
    texts = {}
    for name in ("elman", "window"):
        task = Language(replace(RECIPES["elman"], name=name), VOCABULARY, Whitespace())
        texts[name] = [sample.output for sample in task.show(model)]
        assert texts[name] == [sample.output for sample in task.show(model)]
    assert texts["elman"] != texts["window"]


def test_options_go_by_the_names_of_today_and_by_those_of_0_1() -> None:
    assert checked_options({"length": 20, "top_k": 3}) == {"max_new_tokens": 20, "top_k": 3}
    with pytest.raises(RecipeError, match=r"no option 'top_q'. Did you mean top_k\?|top_p"):
        checked_options({"top_q": 1})
    with pytest.raises(RecipeError, match="top_k takes a number, got 'many'."):
        checked_options({"top_k": "many"})
    for seed in (-1, 2**32):
        with pytest.raises(RecipeError, match=f"seed takes a whole number from 0 to 4294967295, got {seed}"):
            checked_options({"seed": seed})
    with pytest.raises(RecipeError, match="max_new_tokens is given twice"):
        checked_options({"length": 20, "max_new_tokens": 3})


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_and_the_mode_comes_back(training: bool) -> None:
    model = prefers("news")
    model.train(training)
    generate(model, VOCABULARY, "in", max_new_tokens=2)
    assert model.modes == [False, False]
    assert model.training is training
    assert model.scores.grad is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": 0}, "generate: max_new_tokens is 0, expected at least 1."),
        ({"temperature": -0.1}, "generate: temperature is -0.1, expected 0 (the likeliest word always) or more."),
        ({"temperature": math.nan}, "generate: temperature is nan, expected 0 (the likeliest word always) or more."),
        ({"top_k": 0}, "generate: top_k is 0, expected at least 1 word. Leave it out to choose from all."),
        ({"top_p": 0.0}, "generate: top_p is 0.0, expected above 0 and at most 1. Leave it out to choose from all."),
        ({"top_p": 1.1}, "generate: top_p is 1.1, expected above 0 and at most 1. Leave it out to choose from all."),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(RecipeError) as refused:
        generate(prefers("news"), VOCABULARY, "in", **options)  # type: ignore[arg-type]  # wrong values on purpose
    assert str(refused.value) == message


@given(logits_of, st.floats(0.1, 10))
def test_the_temperature_divides_the_logits(logits: Tensor, temperature: float) -> None:
    assert torch.allclose(word_probabilities(logits, temperature=temperature), (logits / temperature).softmax(0))


@given(logits_of, st.integers(1, 40), st.floats(0.1, 10))
def test_top_k_keeps_the_likeliest_and_their_proportions(logits: Tensor, top_k: int, temperature: float) -> None:
    every = word_probabilities(logits, temperature=temperature)
    kept = word_probabilities(logits, temperature=temperature, top_k=top_k)
    assert kept.sum().item() == pytest.approx(1)
    stays = kept > 0
    assert int(stays.sum()) == min(top_k, len(logits))
    assert logits[stays].min() >= logits[~stays].max() if not stays.all() else True
    assert torch.allclose(kept[stays], every[stays] / every[stays].sum())


@given(logits_of, st.floats(0.01, 1))
def test_top_p_keeps_the_fewest_words_that_reach_it(logits: Tensor, top_p: float) -> None:
    every = word_probabilities(logits)
    kept = word_probabilities(logits, top_p=top_p)
    stays = kept > 0
    assert every[stays].sum() >= top_p - 1e-12
    assert every[stays].sum() - every[stays].min() < top_p + 1e-12
    assert logits[stays].min() >= logits[~stays].max() if not stays.all() else True
    assert torch.allclose(kept[stays], every[stays] / every[stays].sum())


@given(logits_of)
def test_temperature_zero_is_certain_of_the_likeliest(logits: Tensor) -> None:
    expected = torch.zeros_like(logits)
    expected[int((logits == logits.max()).nonzero()[0])] = 1
    assert torch.equal(word_probabilities(logits, temperature=0), expected)
    assert torch.equal(word_probabilities(logits, top_k=1), expected)


def test_top_p_counts_within_the_top_k() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    # Within the two likeliest the first has 4/7 of the probability, so it alone reaches a half.
    assert torch.allclose(word_probabilities(logits, top_k=2, top_p=0.5), torch.tensor([1.0, 0.0, 0.0, 0.0]))
    assert torch.allclose(word_probabilities(logits, top_p=0.5), torch.tensor([4 / 7, 3 / 7, 0.0, 0.0]))


def test_a_tiny_temperature_gives_numbers() -> None:
    probs = word_probabilities(torch.tensor([3.0, 2.0, -torch.inf]), temperature=1e-40)
    assert torch.equal(probs, torch.tensor([1.0, 0.0, 0.0]))


def test_words_come_as_often_as_they_should() -> None:
    share = [0.0, 0.0, 0.5, 0.25, 0.125, 0.125]
    model = Parrot([math.log(chance) if chance else -math.inf for chance in share])
    words = generate(model, VOCABULARY, "", max_new_tokens=1500).output.split()
    assert len(words) == 1500
    for word, chance in zip(VOCABULARY.words, share, strict=True):
        # Four standard deviations of a count.
        assert words.count(word) / 1500 == pytest.approx(chance, abs=4 * math.sqrt(0.25 / 1500))


def test_a_banned_word_is_impossible_unless_alone() -> None:
    logits = torch.tensor([1.0, 2.0])
    assert torch.equal(without(logits, 1), torch.tensor([1.0, -torch.inf]))
    assert torch.equal(without(logits, None), logits)
    alone = torch.tensor([-torch.inf, 2.0])
    assert torch.equal(without(alone, 1), alone)
