"""Decoding: the hypotheses, where they end, and that neighbours in a batch do not matter."""

import itertools

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from porism.errors import RecipeError
from porism.runs.recipe import override
from porism.tasks.speech.data.symbols import EOS, PAD, SOS
from porism.tasks.speech.model.base import SpeechModel, build
from porism.tasks.speech.model.ctc import PrefixScorer
from porism.tasks.speech.model.encoder import EncoderOutput
from porism.tasks.speech.model.search import Search, greedy_search, until_eos
from porism.tasks.speech.recipes import RECIPES

SMALL = ["hidden_size=12", "num_heads=2", "dim_feedforward=10", "num_layers=1"]
LENGTHS = (63, 7, 2, 1)
SEARCHES = (Search(), Search("beam", beam_size=3), Search("beam", beam_size=2, length_bonus=0.5))
WITH_CTC = (Search("ctc"), Search("beam", beam_size=3, ctc_weight=0.4))


def model_of(name: str, *changes: str, symbols: int = 35) -> SpeechModel:
    torch.manual_seed(1)
    model = build(override(RECIPES[name], [*SMALL, *changes]), 5, symbols).double().eval()
    # The logits of an untrained model are too even for any hypothesis to end.
    with torch.no_grad():
        model.decoder.readout.weight.mul_(4)
    return model


def encoded_by(model: SpeechModel, lengths: tuple[int, ...] = LENGTHS) -> EncoderOutput:
    torch.manual_seed(2)
    encoder_out: EncoderOutput = model.encoder(
        torch.randn(len(lengths), max(lengths), 5).double(), torch.tensor(lengths)
    )
    return encoder_out


def log_probability(model: SpeechModel, encoder_out: EncoderOutput, text: list[int]) -> float:
    tokens = torch.tensor([[SOS, *text, EOS]])
    logs = model.decoder(tokens[:, :-1], model.decoder.project(encoder_out)).logits.log_softmax(2)
    return float(logs.gather(2, tokens[:, 1:, None]).sum())


@torch.no_grad()
@pytest.mark.parametrize("name", ["lstm", "attention"])
@pytest.mark.parametrize("search", SEARCHES)
def test_a_text_does_not_depend_on_its_batch(name: str, search: Search) -> None:
    model = model_of(name)
    encoder_out = encoded_by(model)
    together = search(model, encoder_out)
    assert len({tuple(text) for text in together}) > 1
    for row, length in enumerate(encoder_out.lengths.tolist()):
        alone = EncoderOutput(encoder_out.states[row : row + 1, :length], encoder_out.lengths[row : row + 1])
        assert search(model, alone) == [together[row]]


@torch.no_grad()
@pytest.mark.parametrize("search", WITH_CTC)
def test_a_text_by_ctc_does_not_depend_on_its_batch(search: Search) -> None:
    model = model_of("joint")
    encoder_out = encoded_by(model)
    together = search(model, encoder_out)
    for row, length in enumerate(encoder_out.lengths.tolist()):
        alone = EncoderOutput(encoder_out.states[row : row + 1, :length], encoder_out.lengths[row : row + 1])
        assert search(model, alone) == [together[row]]


@torch.no_grad()
@pytest.mark.parametrize("name", ["lstm", "attention"])
def test_a_beam_of_one_is_greedy_and_a_wider_one_no_worse(name: str) -> None:
    model = model_of(name)
    encoder_out = encoded_by(model)
    first = greedy_search(model, encoder_out)
    assert Search("beam", beam_size=1)(model, encoder_out) == first
    short = encoded_by(model, (7,))
    narrow, wide = (Search("beam", beam_size=width)(model, short)[0] for width in (1, 30))
    assert log_probability(model, short, wide) >= log_probability(model, short, narrow)


@torch.no_grad()
@pytest.mark.parametrize("decoder", ["lstm", "attention"])
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_a_wide_beam_finds_the_best_of_all_texts(decoder: str, weight: float) -> None:
    model = model_of("joint", f"decoder={decoder}", symbols=7)
    encoder_out = encoded_by(model, (5,))
    limit = int(encoder_out.lengths[0])
    log_probs = model.ctc_log_probs(encoder_out).double()

    def score(text: tuple[int, ...]) -> float:
        scorer = PrefixScorer(log_probs, encoder_out.lengths, PAD)
        state = scorer.start()
        for symbol in text:
            state = scorer.extend(state, torch.tensor([symbol]))
        whole = float(scorer.next_scores(state)[0, PAD])
        return (1 - weight) * log_probability(model, encoder_out, list(text)) + weight * whole

    texts = (text for length in range(limit + 1) for text in itertools.product(range(3, 7), repeat=length))
    best = max(texts, key=score)
    assert Search("beam", beam_size=200, ctc_weight=weight)(model, encoder_out) == [list(best)]


@torch.no_grad()
@pytest.mark.parametrize("token", [SOS, PAD])
def test_a_beam_wider_than_the_alphabet_has_no_special_tokens(token: int) -> None:
    model = model_of("attention", symbols=7)
    model.decoder.readout.bias[token] = 10
    (text,) = Search("beam", beam_size=200)(model, encoded_by(model, (5,)))
    assert token not in text


@torch.no_grad()
@pytest.mark.parametrize("search", [*SEARCHES, *WITH_CTC])
def test_no_text_is_longer_than_its_recording_or_the_recipe_allows(search: Search) -> None:
    model = model_of("joint", "max_target_length=9")
    model.decoder.readout.bias[EOS] = -1e4
    encoder_out = encoded_by(model)
    texts = search(model, encoder_out)
    if search.kind != "ctc":
        assert [len(text) for text in texts] == [9, 4, 1, 1]
    assert not {SOS, EOS, PAD} & {symbol for text in texts for symbol in text}


@torch.no_grad()
def test_a_bonus_lengthens_texts() -> None:
    model = model_of("attention")
    model.decoder.readout.bias[EOS] += 3
    encoder_out = encoded_by(model)
    plain, longer = (sum(map(len, Search("beam", 4, length_bonus=bonus)(model, encoder_out))) for bonus in (0.0, 20.0))
    assert plain < longer == int(encoder_out.lengths.sum())


def test_a_search_by_ctc_needs_a_model_with_ctc() -> None:
    model = model_of("attention")
    with pytest.raises(
        RecipeError, match=r"recipe attention: this model has no CTC. Train it with --set ctc_weight=0.3"
    ):
        Search("ctc")(model, encoded_by(model))
    with pytest.raises(RecipeError, match=r"a search by CTC needs a model with CTC, got ctc_weight=0"):
        override(RECIPES["attention"], ["search=ctc"])


def test_a_text_ends_at_its_first_eos() -> None:
    assert until_eos(torch.tensor([[7, EOS, 8], [7, 8, 9], [EOS, EOS, EOS]])) == [[7], [7, 8, 9], []]


@pytest.mark.sweep(1)
@torch.no_grad()
@pytest.mark.parametrize("name", ["lstm-ljspeech", "attention-ljspeech"])
def test_the_longest_text_of_ten_seconds_takes_a_part_of_the_encoders_work(name: str) -> None:
    """By FLOPs: a step that read all tokens again, or projected the encoder's output again, would take far more."""
    model = build(RECIPES[name], 80, 35).eval()
    model.decoder.readout.bias[EOS] = -1e4
    with FlopCounterMode(display=False) as encoding:
        encoder_out = model.encoder(torch.randn(1, 1378, 80), torch.tensor([1378]))
    with FlopCounterMode(display=False) as searching:
        (text,) = greedy_search(model, encoder_out)
    assert len(text) == 97
    assert 0 < searching.get_total_flops() < encoding.get_total_flops() / 4
