"""Encoder and decoders: their sizes, what padding must not change, and what the loss counts."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d

from porism.runs.recipe import override
from porism.tasks.speech.data.symbols import EOS, PAD, SOS, SYMBOLS, UNKNOWN
from porism.tasks.speech.model.base import SpeechModel, build, guided_attention_loss, lowest_loss, mask_tokens
from porism.tasks.speech.model.encoder import Encoder, EncoderOutput, convolved
from porism.tasks.speech.recipes import RECIPES, SpeechRecipe
from porism.training.session import count_parameters

SMALL = ["hidden_size=12", "num_heads=2", "dim_feedforward=10"]
LENGTHS = (63, 7, 2, 1)


def small(name: str, *changes: str) -> SpeechRecipe:
    return override(RECIPES[name], [*SMALL, *changes])


def model_of(recipe: SpeechRecipe) -> SpeechModel:
    torch.manual_seed(1)
    return build(recipe, 5, len(SYMBOLS)).double().eval()


def recordings() -> tuple[list[Tensor], list[Tensor]]:
    """Spectrograms and texts of odd lengths."""
    torch.manual_seed(2)
    features = [torch.randn(length, 5, dtype=torch.float64) for length in LENGTHS]
    texts = [torch.tensor([SOS, *torch.randint(4, 35, (count,)).tolist(), EOS]) for count in (7, 2, 1, 1)]
    return features, texts


def in_one_batch(features: list[Tensor], texts: list[Tensor], beyond: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Padded, with anything but zeros in the padding."""
    batch = torch.full((len(features), max(map(len, features)) + beyond, features[0].shape[1]), 99.0).double()
    tokens = torch.full((len(texts), max(map(len, texts)) + beyond), PAD)
    for row, (spectrogram, text) in enumerate(zip(features, texts, strict=True)):
        batch[row, : len(spectrogram)], tokens[row, : len(text)] = spectrogram, text
    return batch, torch.tensor([len(x) for x in features]), tokens


@pytest.mark.parametrize(("decoder", "parameters"), [("lstm", 658_435), ("attention", 517_035)])
@pytest.mark.parametrize("suffix", ["", "-ljspeech"])
def test_the_models_have_the_published_sizes(decoder: str, parameters: int, suffix: str) -> None:
    model = build(RECIPES[decoder + suffix], 80, 35)
    assert count_parameters(model.encoder) == 812_800
    assert count_parameters(model.decoder) == parameters
    assert model.head is None


@pytest.mark.parametrize(("matched", "to"), [("lstm-matched", "attention"), ("attention-matched", "lstm")])
def test_matched_decoders_have_as_many_parameters(matched: str, to: str) -> None:
    ours, theirs = (count_parameters(build(RECIPES[name], 80, 35).decoder) for name in (matched, to))
    assert abs(ours - theirs) / theirs < 0.001


@pytest.mark.parametrize("subsampling", [2, 4])
@pytest.mark.parametrize("name", ["lstm", "attention", "joint", "an4-lstm"])
def test_an_utterance_does_not_depend_on_its_batch(name: str, subsampling: int) -> None:
    model = model_of(small(name, f"subsampling={subsampling}"))
    features, texts = recordings()
    encoder_out = model.encoder(*in_one_batch(features, texts, beyond=6)[:2])
    tokens = in_one_batch(features, texts, beyond=6)[2]
    logits = model.decoder(tokens, model.decoder.project(encoder_out)).logits
    for row, (spectrogram, text) in enumerate(zip(features, texts, strict=True)):
        alone = model.encoder(spectrogram[None], torch.tensor([len(spectrogram)]))
        assert int(encoder_out.lengths[row]) == alone.states.shape[1] == -(-len(spectrogram) // subsampling)
        torch.testing.assert_close(encoder_out.states[row, : alone.states.shape[1]], alone.states[0])
        of_one = model.decoder(text[None], model.decoder.project(alone)).logits[0]
        torch.testing.assert_close(logits[row, : len(text)], of_one)


@pytest.mark.parametrize("name", ["lstm", "attention", "joint"])
def test_the_loss_is_the_mean_over_symbols_whatever_the_padding(name: str) -> None:
    model = model_of(small(name))
    # The shorter two have too few states for CTC to align them.
    features, texts = (part[:2] for part in recordings())
    loss = model.loss(*in_one_batch(features, texts))
    torch.testing.assert_close(model.loss(*in_one_batch(features, texts, beyond=9)), loss)
    if name != "joint":
        each = [
            model.loss(*in_one_batch([x], [text])) * (len(text) - 1) for x, text in zip(features, texts, strict=True)
        ]
        torch.testing.assert_close(loss, sum(each) / sum(len(text) - 1 for text in texts))


def test_the_published_loss_counts_padding() -> None:
    recipe = small("attention", "ignore_padding=false")
    model = model_of(recipe)
    features, texts = recordings()
    narrow, wide = (model.loss(*in_one_batch(features, texts, beyond=n)) for n in (0, 9))
    assert not torch.allclose(narrow, wide, rtol=1e-3)


def test_smoothing_has_the_published_floor() -> None:
    assert round(lowest_loss(RECIPES["attention-ljspeech"], 35), 3) == 0.661
    assert lowest_loss(small("attention", "label_smoothing=0"), 35) == 0
    logits = torch.full((1, 35), -200.0).double()
    # The logits that fit smoothed labels best.
    logits[0] = (0.1 / 35) * torch.ones(35)
    logits[0, 4] += 0.9
    found = torch.nn.functional.cross_entropy(logits.log(), torch.tensor([4]), label_smoothing=0.1)
    assert float(found) == pytest.approx(lowest_loss(RECIPES["attention"], 35))


@pytest.mark.parametrize("name", ["lstm", "attention"])
def test_a_text_decoded_step_by_step_equals_the_whole(name: str) -> None:
    model = model_of(small(name))
    features, texts = recordings()
    memory = model.decoder.project(model.encoder(features[0][None], torch.tensor([63])))
    tokens = texts[0][None]
    whole = model.decoder(tokens, memory).logits
    state, found = None, []
    for first, last in ((0, 1), (1, 2), (2, 7), (7, 9)):
        output = model.decoder(tokens[:, first:last], memory, state)
        state = output.state
        found.append(output.logits)
    torch.testing.assert_close(torch.cat(found, 1), whole)


@pytest.mark.parametrize("name", ["lstm", "attention"])
def test_no_symbol_depends_on_those_after_it(name: str) -> None:
    model = model_of(small(name))
    features, texts = recordings()
    memory = model.decoder.project(model.encoder(features[0][None], torch.tensor([63])))
    tokens = texts[0][None]
    changed = tokens.clone()
    changed[0, 5] = 4 if int(tokens[0, 5]) != 4 else 5
    before, after = (model.decoder(x, memory).logits for x in (tokens, changed))
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_the_weights_are_those_of_the_output() -> None:
    model = model_of(small("attention"))
    features, texts = recordings()
    batch, lengths, tokens = in_one_batch(features, texts)
    memory = model.decoder.project(model.encoder(batch, lengths))
    plain, weighed = (model.decoder(tokens, memory, need_weights=need) for need in (False, True))
    torch.testing.assert_close(plain.logits, weighed.logits)
    assert plain.weights is None
    assert weighed.weights is not None
    torch.testing.assert_close(weighed.weights.sum(3), torch.ones(4, 2, tokens.shape[1], dtype=torch.float64))
    # 7 frames are 4 states.
    assert weighed.weights[1, :, :, 4:].abs().max() == 0


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("length", [1, 2, 7, 63])
def test_the_convolution_is_torchs(stride: int, length: int) -> None:
    x, weight, bias = (torch.randn(*shape, dtype=torch.float64) for shape in ((3, length, 5), (4, 5, 3), (4,)))
    expected = conv1d(x.transpose(1, 2), weight, bias, stride=stride, padding=1).transpose(1, 2)
    torch.testing.assert_close(convolved(x, weight, bias, stride), expected)


def test_guided_attention_is_lowest_on_the_diagonal() -> None:
    encoder_out, is_symbol = EncoderOutput(torch.zeros(1, 8, 1), torch.tensor([8])), torch.ones(1, 8, dtype=torch.bool)
    along = torch.eye(8)[None, None]
    assert float(guided_attention_loss(along, encoder_out, is_symbol)) == pytest.approx(0)
    assert float(guided_attention_loss(along.flip(3), encoder_out, is_symbol)) > 0.5


def test_the_guided_attention_loss_is_part_of_training_alone() -> None:
    plain, guided = (model_of(small("attention", f"guided_attention_weight={weight}")) for weight in (0, 3))
    batch = in_one_batch(*recordings())
    torch.testing.assert_close(plain.loss(*batch), guided.loss(*batch))
    assert guided.train().loss(*batch) > plain.train().loss(*batch) + 0.1


@pytest.mark.parametrize("name", RECIPES)
def test_every_parameter_is_learned(name: str) -> None:
    model = model_of(small(name, "num_layers=1")).train()
    features, texts = recordings()
    model.loss(*in_one_batch(features[:1], texts[:1])).backward()
    assert [path for path, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_masked_tokens_are_unknown_and_the_sos_is_not() -> None:
    tokens = torch.tensor([[SOS, *[7] * 9]] * 200)
    torch.manual_seed(1)
    masked = mask_tokens(tokens, 0.25)
    assert set(masked[:, 0].tolist()) == {SOS}
    assert set(masked[:, 1:].flatten().tolist()) == {7, UNKNOWN}
    assert (masked == UNKNOWN).sum() / masked[:, 1:].numel() == pytest.approx(0.25, abs=0.05)
    assert torch.equal(mask_tokens(tokens, 0.0), tokens)


def test_only_training_masks_tokens() -> None:
    whole, masking = (model_of(small("attention", f"word_dropout={share}")) for share in (0, 0.9))
    batch = in_one_batch(*recordings())
    torch.testing.assert_close(whole.loss(*batch), masking.loss(*batch))
    assert not torch.isclose(whole.train().loss(*batch), masking.train().loss(*batch))


def test_a_state_stands_for_as_many_frames_as_the_recipe_says() -> None:
    for subsampling in (2, 4):
        recipe = small("attention", f"subsampling={subsampling}")
        encoder_out = Encoder(recipe, 5)(torch.randn(1, 101, 5), torch.tensor([101]))
        assert encoder_out.states.shape[1] == -(-101 // subsampling)
