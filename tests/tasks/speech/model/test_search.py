"""Searches: what they find, what stops them, and that neighbours in a batch change nothing."""

import itertools
from time import process_time

import pytest
import torch

from porism.errors import RecipeError
from porism.runs.recipe import override
from porism.tasks.speech.data.symbols import PAD, START, STOP
from porism.tasks.speech.model.base import SpeechModel, build
from porism.tasks.speech.model.ctc import Prefixes
from porism.tasks.speech.model.encoder import Heard
from porism.tasks.speech.model.search import Search, greedy, until_stop
from porism.tasks.speech.recipes import RECIPES

SMALL = ["hidden_size=12", "num_heads=2", "dim_feedforward=10", "decoder_dim_feedforward=10", "num_layers=1"]
LENGTHS = (63, 7, 2, 1)
SEARCHES = (Search(), Search("beam", beam=3), Search("beam", beam=2, bonus=0.5))
WITH_CTC = (Search("ctc"), Search("beam", beam=3, ctc=0.4))


def model_of(name: str, *changes: str, symbols: int = 35) -> SpeechModel:
    torch.manual_seed(1)
    model = build(override(RECIPES[name], [*SMALL, *changes]), 5, symbols).double().eval()
    # Undecided models stop nowhere: let this one be of some mind.
    with torch.no_grad():
        model.decoder.readout.weight.mul_(4)
    return model


def heard_by(model: SpeechModel, lengths: tuple[int, ...] = LENGTHS) -> Heard:
    torch.manual_seed(2)
    heard: Heard = model.encoder(torch.randn(len(lengths), max(lengths), 5).double(), torch.tensor(lengths))
    return heard


def log_probability(model: SpeechModel, heard: Heard, text: list[int]) -> float:
    tokens = torch.tensor([[START, *text, STOP]])
    logs = model.decoder(tokens[:, :-1], model.decoder.look(heard)).logits.log_softmax(2)
    return float(logs.gather(2, tokens[:, 1:, None]).sum())


@torch.no_grad()
@pytest.mark.parametrize("name", ["lstm", "attention"])
@pytest.mark.parametrize("search", SEARCHES)
def test_a_text_does_not_depend_on_its_batch(name: str, search: Search) -> None:
    model = model_of(name)
    heard = heard_by(model)
    together = search(model, heard)
    assert len({tuple(text) for text in together}) > 1
    for row, length in enumerate(heard.lengths.tolist()):
        alone = Heard(heard.states[row : row + 1, :length], heard.lengths[row : row + 1])
        assert search(model, alone) == [together[row]]


@torch.no_grad()
@pytest.mark.parametrize("search", WITH_CTC)
def test_a_text_by_ctc_does_not_depend_on_its_batch(search: Search) -> None:
    model = model_of("joint")
    heard = heard_by(model)
    together = search(model, heard)
    for row, length in enumerate(heard.lengths.tolist()):
        alone = Heard(heard.states[row : row + 1, :length], heard.lengths[row : row + 1])
        assert search(model, alone) == [together[row]]


@torch.no_grad()
@pytest.mark.parametrize("name", ["lstm", "attention"])
def test_a_beam_of_one_is_greedy_and_a_wider_one_no_worse(name: str) -> None:
    model = model_of(name)
    heard = heard_by(model)
    first = greedy(model, heard)
    assert Search("beam", beam=1)(model, heard) == first
    short = heard_by(model, (7,))
    narrow, wide = (Search("beam", beam=width)(model, short)[0] for width in (1, 30))
    assert log_probability(model, short, wide) >= log_probability(model, short, narrow)


@torch.no_grad()
@pytest.mark.parametrize("decoder", ["lstm", "attention"])
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_a_wide_beam_finds_the_best_of_all_texts(decoder: str, weight: float) -> None:
    model = model_of("joint", f"decoder={decoder}", symbols=7)
    heard = heard_by(model, (5,))
    limit = int(heard.lengths[0])
    chances = model.ctc_chances(heard).double()

    def score(text: tuple[int, ...]) -> float:
        prefixes = Prefixes(chances, heard.lengths, PAD)
        at = prefixes.start()
        for symbol in text:
            at = prefixes.grow(at, torch.tensor([symbol]))
        whole = float(prefixes.next_scores(at)[0, PAD])
        return (1 - weight) * log_probability(model, heard, list(text)) + weight * whole

    texts = (text for length in range(limit + 1) for text in itertools.product(range(3, 7), repeat=length))
    best = max(texts, key=score)
    assert Search("beam", beam=200, ctc=weight)(model, heard) == [list(best)]


@torch.no_grad()
@pytest.mark.parametrize("search", [*SEARCHES, *WITH_CTC])
def test_no_text_is_longer_than_its_recording_or_the_recipe_allows(search: Search) -> None:
    model = model_of("joint", "max_target_length=9")
    model.decoder.readout.bias[STOP] = -1e4
    heard = heard_by(model)
    texts = search(model, heard)
    if search.kind != "ctc":
        assert [len(text) for text in texts] == [9, 4, 1, 1]
    assert not {START, STOP, PAD} & {symbol for text in texts for symbol in text}


@torch.no_grad()
def test_a_bonus_lengthens_texts() -> None:
    model = model_of("attention")
    model.decoder.readout.bias[STOP] += 3
    heard = heard_by(model)
    plain, longer = (sum(map(len, Search("beam", 4, bonus=bonus)(model, heard))) for bonus in (0.0, 20.0))
    assert plain < longer == int(heard.lengths.sum())


def test_a_search_by_ctc_needs_a_model_with_ctc() -> None:
    model = model_of("attention")
    with pytest.raises(
        RecipeError, match=r"recipe attention: this model has no CTC. Train it with --set ctc_weight=0.3"
    ):
        Search("ctc")(model, heard_by(model))
    with pytest.raises(RecipeError, match=r"a search by CTC needs a model with CTC, got ctc_weight=0"):
        override(RECIPES["attention"], ["search=ctc"])


def test_a_text_ends_at_its_first_stop() -> None:
    assert until_stop(torch.tensor([[7, STOP, 8], [7, 8, 9], [STOP, STOP, STOP]])) == [[7], [7, 8, 9], []]


@torch.inference_mode()
@pytest.mark.parametrize("name", ["lstm-ljspeech", "attention-ljspeech"])
def test_ten_seconds_are_written_in_one(name: str) -> None:
    model = build(RECIPES[name], 80, 35).eval()
    # The longest text there is.
    model.decoder.readout.bias[STOP] = -1e4
    features, lengths = torch.randn(1, 1378, 80), torch.tensor([1378])

    def seconds() -> float:
        # Of the processor, on which other work may go on beside.
        began = process_time()
        (text,) = greedy(model, model.encoder(features, lengths))
        assert len(text) == 97
        return process_time() - began

    assert min(seconds() for _ in range(3)) < 1.0
