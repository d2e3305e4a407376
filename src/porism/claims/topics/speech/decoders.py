"""What an LSTM remembers, what attention sees, and what a loss says before training: the task's own decoders."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from porism.claims.checks.compare import compared
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.topics.speech.published import AFTER, BEFORE, COMMAND, NEEDS
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


@same_numbers()
def kept_memory(form: Callable[[Tensor], Tensor]) -> Finding:
    """form(forget gates (T, H)) against dc_T/dc_0 through the memory itself, (H,), by autograd.

    The gates are made to hear the symbols alone, so that no other way leads from c_0 to c_T.
    """
    decoder = LSTMDecoder(SMALL, T).double()
    torch.nn.init.zeros_(decoder.lstm.get_parameter("weight_hh_l0"))
    H = SMALL.hidden_size
    cases = []
    for length in (1, 2, T):
        tokens = torch.arange(length)[None]
        c_0 = torch.randn(1, 1, H, dtype=torch.float64, requires_grad=True)
        _, (_, c_T) = decoder.encode_text(tokens, (torch.zeros_like(c_0), c_0))
        true = torch.autograd.grad(c_T.sum(), c_0)[0].flatten()
        cases.append((f"{length} symbols", true, form(forget_gates(decoder, tokens))))
    return compared(cases)


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
    """The loss of either decoder before training, its logits made louder and quieter, against log V at silence.

    The logits keep their order, and so what a decoder takes for likely: their scale alone changes the loss.
    """
    uniform, worst, evidence = math.log(len(SYMBOLS)), 0.0, []
    tokens = torch.randint(len(SYMBOLS), (4, SMALL.max_target_length + 1), generator=torch.Generator().manual_seed(1))
    for recipe in (replace(SMALL, decoder="lstm"), SMALL):
        model = build(recipe, channels=3, symbols=len(SYMBOLS)).double()
        encoder_out = model.encoder(torch.randn(4, 8, 3, dtype=torch.float64), torch.full((4,), 8))
        logits = model.decoder(tokens[:, :-1], model.decoder.project(encoder_out)).logits.flatten(0, 1).detach()
        losses = {
            scale: float(functional.cross_entropy(scale * logits, tokens[:, 1:].flatten())) for scale in (4, 1, 0)
        }
        worst = max(worst, abs(losses[0] - uniform))
        evidence.append(
            f"{recipe.decoder}: " + ", ".join(f"{loss:.2f} at scale {scale}" for scale, loss in losses.items())
        )
    return Finding(worst, 1e-12, f"{'; '.join(evidence)}; log V = {uniform:.2f} for V = {len(SYMBOLS)}")


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
    ),
    Empirical(
        id="003-41",
        topic="speech",
        where="3.2",
        says=f"The attention decoder reaches {_reported(AFTER)}.",
        command=COMMAND,
        needs=NEEDS,
    ),
    Claim(
        id="003-42",
        topic="speech",
        where="3.3",
        says="An LSTM goes from symbol to symbol, and keeps what it has learned of those long before.",
        verdict="imprecise",
        precise=(
            "It goes from symbol to symbol. Through its memory c_0 comes to c_T multiplied by all forget gates on the "
            "way, so that what it keeps fades as fast as these are below one."
        ),
        formulas=("f**T",),
        picture=_fading,
        judge=kept_memory,
        stated=lambda gates: torch.ones(gates.shape[1]),
        corrected=lambda gates: gates.prod(0),
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
    ),
    Empirical(
        id="003-44",
        topic="speech",
        where="3.3",
        says="The LSTM's loss is lower at first, and most so in epoch 3; then that of attention falls faster.",
        precise="The source's figures are not part of its text. A report draws the curves of both.",
        command=COMMAND,
        needs=NEEDS,
    ),
    Empirical(
        id="003-45",
        topic="speech",
        where="3.3",
        says="A lower loss at first shows that a model understands better from the start.",
        precise=(
            "A uniform prediction costs log V. How far a loss is from there at first tells of the scale of the logits, "
            "and of the learning rate, more than of what was understood."
        ),
        formulas=("log(V)",),
        command="porism compare speech decoder-question",
        known=loss_of_untrained,
    ),
    Empirical(
        id="003-46",
        topic="speech",
        where="3.3",
        says="The LSTM writes words that exist, attention comes closer to what was spoken.",
        precise="To be counted: the share of written words that occur in the transcripts, and edits to the target.",
        command="porism compare speech decoder-question",
    ),
)
