"""What an LSTM remembers, what attention sees, and what a loss says before training: the task's own decoders."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

import porism.claims.topics.speech.rulings as rulings
from porism.claims.checks.compare import answered, compared
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.topics.speech.published import AFTER, BEFORE, COMMAND, NEEDS, ON_AN4, OTHER_DATA
from porism.runs.exhibits import Lines
from porism.tasks.speech.data.symbols import SYMBOLS
from porism.tasks.speech.model.base import build
from porism.tasks.speech.model.decoders import AttentionDecoder, LSTMDecoder
from porism.tasks.speech.model.encoder import Encoder
from porism.tasks.speech.recipes import RECIPES

SMALL = replace(
    RECIPES["attention"],
    hidden_size=6,
    num_heads=2,
    num_layers=1,
    dim_feedforward=5,
    decoder_dim_feedforward=5,
    max_target_length=9,
)
T = 7
"""Symbols of a text."""


@contextmanager
def same_numbers() -> Iterator[None]:
    """Weights are drawn alike each time, and nobody else's random numbers change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        yield


HALF = 0.5
"""A memory of which so much is left counts as kept."""


@same_numbers()
def kept_memory(form: Callable[[Tensor], bool]) -> Finding:
    """form(forget gates (T, H)) against whether half of c_0 is left in c_T, through the memory itself, by autograd.

    The gates are made to hear the symbols alone, so that no other way leads from c_0 to c_T. Their bias is raised from
    what they are initialised with, where they are about a half, until they are near one.
    """
    decoder = LSTMDecoder(SMALL, T).double()
    torch.nn.init.zeros_(decoder.lstm.get_parameter("weight_hh_l0"))
    H = SMALL.hidden_size
    cases = []
    for bias in (0.0, 2.0, 10.0):
        # torch's order: in, forget, new, out.
        decoder.lstm.get_parameter("bias_hh_l0").data[H : 2 * H] = bias
        tokens = torch.arange(T)[None]
        c_0 = torch.randn(1, 1, H, dtype=torch.float64, requires_grad=True)
        _, (_, c_T) = decoder.encode_text(tokens, (torch.zeros_like(c_0), c_0))
        left = torch.autograd.grad(c_T.sum(), c_0)[0].flatten()
        gates = forget_gates(decoder, tokens)
        where = f"Gates of {float(gates.mean()):.3g} on average, {float(left.min()):.2g} left after {T} symbols: kept?"
        cases.append((where, bool((left >= HALF).all()), form(gates)))
    return answered(cases)


def forget_gates(decoder: LSTMDecoder, tokens: Tensor) -> Tensor:
    """Of one text (1, T), without feedback: (T, H)."""
    x = decoder.embedding_norm(decoder.embedding(tokens))[0]
    weight, *biases = (decoder.lstm.get_parameter(name) for name in ("weight_ih_l0", "bias_ih_l0", "bias_hh_l0"))
    sums = functional.linear(x, weight, biases[0] + biases[1])
    # torch's order: in, forget, new, out.
    return torch.sigmoid(sums.chunk(4, 1)[1]).detach()


@same_numbers()
def seen_places(form: Callable[[str, int, int], bool]) -> Finding:
    """form(part, place, other) against whether what comes out at a place changes with what goes in at another one."""
    true = {"encoder": _encoder_sees(), "decoder": _decoder_sees()}
    return compared(
        (
            f"the {part}",
            seen,
            torch.tensor([[form(part, place, other) for other in range(seen.shape[1])] for place in range(len(seen))]),
        )
        for part, seen in true.items()
    )


def _encoder_sees() -> Tensor:
    """(S, X): states and the columns of a spectrogram."""
    features = torch.randn(1, 8, 3, dtype=torch.float64, requires_grad=True)
    states = Encoder(SMALL, 3).double()(features, torch.tensor([8])).states[0]
    return torch.stack([_reached(state, features)[0].abs().sum(1) > 0 for state in states])


def _decoder_sees() -> Tensor:
    """(T, T): answers and symbols, each of which occurs once, so that its row of the embedding stands for its place."""
    decoder = AttentionDecoder(SMALL, T).double()
    read, _ = decoder.encode_text(torch.arange(T)[None], None)
    return torch.stack([_reached(answer, decoder.embedding.weight).abs().sum(1) > 0 for answer in read[0]])


def _reached(out: Tensor, source: Tensor) -> Tensor:
    # Norms come before and after: a plain sum would be the same for all that is put in.
    weights = torch.arange(1.0, out.numel() + 1, dtype=out.dtype) ** 2
    return torch.autograd.grad((weights * out).sum(), source, retain_graph=True)[0]


@same_numbers()
def loss_of_untrained() -> Finding:
    """Predictions that change when the logits of decoders before training are made louder and quieter, though the loss
    does; infinite where it does not."""
    changed, seen = 0.0, []
    tokens = torch.randint(len(SYMBOLS), (4, SMALL.max_target_length + 1), generator=torch.Generator().manual_seed(1))
    for recipe in (replace(SMALL, decoder="lstm"), SMALL):
        model = build(recipe, channels=3, symbols=len(SYMBOLS)).double()
        encoder_out = model.encoder(torch.randn(4, 8, 3, dtype=torch.float64), torch.full((4,), 8))
        logits = model.decoder(tokens[:, :-1], model.decoder.project(encoder_out)).logits.flatten(0, 1).detach()
        scaled = {scale: scale * logits for scale in (4, 1, 0.25)}
        losses = {
            scale: float(functional.cross_entropy(some, tokens[:, 1:].flatten())) for scale, some in scaled.items()
        }
        likeliest = [some.argmax(1) for some in scaled.values()]
        changed += float(sum((one != likeliest[0]).sum() for one in likeliest))
        if max(losses.values()) - min(losses.values()) < 0.1:
            changed = math.inf
        seen.append(f"{recipe.decoder}: " + ", ".join(f"{loss:.2f} at scale {scale}" for scale, loss in losses.items()))
    return Finding(changed, 0, f"loss of one and the same predictions, {'; '.join(seen)}")


def _fading() -> Lines:
    steps = [1, 2, 5, 10, 20, 50, 100]
    return Lines(
        title="What an LSTM keeps of a memory",
        about="The share that is left of c_0 after T symbols, for forget gates of one size.",
        x="symbols T",
        y="share that is left",
        lines={f"f = {f}": [(float(t), f**t) for t in steps] for f in (0.8, 0.95, 0.99)},
        log_x=True,
        log_y=True,
    )


def _reported(values: dict[str, float]) -> str:
    return (
        f"similarities of {values['jaccard']} (Jaccard), {values['cosine']} (cosine) and "
        f"{values['damerau_levenshtein']} (Damerau-Levenshtein), and a loss of {values['loss']}"
    )


CLAIMS: tuple[Statement, ...] = (
    Empirical(
        id="003-40",
        topic="speech",
        where="3.1",
        says=f"The LSTM decoder reaches {_reported(BEFORE)}.",
        command=COMMAND,
        needs=NEEDS,
        kept="ljspeech-decoders",
        rule=rulings.reaches_published("lstm-ljspeech"),
    ),
    Empirical(
        id="003-41",
        topic="speech",
        where="3.2",
        says=f"The attention decoder reaches {_reported(AFTER)}.",
        command=COMMAND,
        needs=NEEDS,
        kept="ljspeech-decoders",
        rule=rulings.reaches_published("attention-ljspeech"),
    ),
    Claim(
        id="003-42",
        topic="speech",
        where="3.3",
        says="An LSTM goes from symbol to symbol, and can keep what it has learned of those long before.",
        verdict="holds under assumptions",
        precise=(
            "While its forget gates are near one. Through its memory c_0 comes to c_T multiplied by all forget gates "
            "on the way, so that what it keeps fades as fast as these are below one."
        ),
        formulas=("f**T",),
        picture=_fading,
        judge=kept_memory,
        stated=lambda gates: True,
        corrected=lambda gates: bool((gates.prod(0) >= HALF).all()),
        assumed=lambda gates: bool((gates > 0.99).all()),
    ),
    Claim(
        id="003-43",
        topic="speech",
        where="3.3",
        says="Attention takes in the whole of its input at once.",
        verdict="imprecise",
        precise=(
            "An encoder does. A decoder sees the symbols up to its own position: in training all positions are "
            "computed at once under a mask, and in use a text is written symbol by symbol."
        ),
        judge=seen_places,
        stated=lambda part, place, other: True,
        corrected=lambda part, place, other: part == "encoder" or other <= place,
        right_where=lambda part, place, other: part == "encoder",
    ),
    Empirical(
        id="003-44",
        topic="speech",
        where="3.3",
        says="The LSTM's loss is lower at first, and most so in epoch 3; then that of attention falls faster.",
        precise="The source's figures are not part of its text.",
        way="other data",
        reason=OTHER_DATA,
        command=ON_AN4,
        kept="decoder-question",
        rule=rulings.lstm_is_lower_at_first,
    ),
    Empirical(
        id="003-45",
        topic="speech",
        where="3.3",
        says="A lower loss at first shows that a model understands better from the start.",
        precise=(
            "How far a loss is from log V at first, that of a uniform prediction, tells of the scale of the logits and "
            "of the learning rate: scaled, the same predictions have another loss."
        ),
        formulas=("log(V)",),
        way="not by training",
        reason="What a model understands is not said to be anything that can be measured.",
        known=loss_of_untrained,
    ),
    Empirical(
        id="003-46",
        topic="speech",
        where="3.3",
        says="The LSTM writes words that exist, attention comes closer to what was spoken.",
        precise="To be counted: the share of written words that occur in the transcripts, and edits to the target.",
        way="other data",
        reason=OTHER_DATA,
        command=ON_AN4,
        kept="decoder-question",
        rule=rulings.lstm_writes_words_attention_is_closer,
    ),
)
