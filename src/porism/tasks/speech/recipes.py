"""The recipes of the speech task: three decoders on one encoder, the published protocol, and those for AN4.

>>> RECIPES["lstm-ljspeech"].epochs
15
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec

from porism.errors import RecipeError
from porism.runs.recipe import Count, NotNegative, Recipe, Share, Whole
from porism.training.experiment import Question

Part = Annotated[float, msgspec.Meta(ge=0, lt=1)]


@dataclass(frozen=True, kw_only=True)
class SpeechRecipe(Recipe):
    """A model that writes down what it hears, and how it is trained."""

    encoder: Literal["attention", "lstm"] = "attention"
    """What its blocks are made of: self-attention and a feed-forward net, or an LSTM from either end."""
    decoder: Literal["lstm", "attention"] = "attention"
    features: Literal["fbank", "ljspeech"] = "fbank"
    """Log-mel energies of 16 kHz, each recording to mean 0 and deviation 1; or those of the published experiment."""
    longest: Count = 97
    """Characters of a text; what is longer is cut."""
    strict: bool = False
    """Refuse a transcript with a character outside the alphabet, which otherwise counts as unknown."""
    hidden: Count = 200
    heads: Count = 2
    blocks: Count = 2
    """Of the encoder."""
    mlp: Count = 400
    """Width inside a feed-forward net."""
    decoder_mlp: Count | None = None
    """The same in the decoder, where it differs."""
    subsampling: Literal[2, 4] = 2
    """Frames of a spectrogram that become one state."""
    keep: Share = 1.0
    """Probability to keep an element wherever there is dropout."""
    smoothing: Part = 0.1
    """Share of a label that is spread over all symbols while training."""
    padded_loss: bool = False
    """Average the loss over padding too, every text padded to the longest, as the published experiment did."""
    ctc: Part = 0.0
    """Weight of CTC on the encoder's states in the loss; 0 leaves it out."""
    forget: Part = 0.0
    """Share of the symbols that the decoder reads as unknown while training, so that it has to listen."""
    guide: NotNegative = 0.0
    """Weight in the loss of looking off the diagonal, on which text and recording go along evenly."""
    frequency_masks: Whole = 0
    frequency_mask: Count = 20
    """Most channels that a frequency mask hides."""
    time_masks: Whole = 0
    time_mask: Part = 0.05
    """Largest share of a recording that a time mask hides."""
    speed: Part = 0.0
    """Train at this much slower, as it is, and this much faster, each recording by luck."""
    passes: Count = 1
    """Through the recordings in an epoch, after which valid is transcribed."""
    buckets: Count = 4
    """Lengths that recordings are padded to, those of like length together."""
    search: Literal["greedy", "ctc", "beam"] = "greedy"
    beam: Count = 8
    ctc_search: Part = 0.0
    """Weight of CTC in a beam search."""
    bonus: float = 0.0
    """For every symbol in a beam search."""

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise RecipeError(
                f"recipe {self.name}: hidden={self.hidden} does not split into {self.heads} heads. "
                f"Use --set heads={max(n for n in range(1, self.heads) if self.hidden % n == 0)}."
            )
        if not self.ctc and (self.search == "ctc" or self.ctc_search):
            raise RecipeError(
                f"recipe {self.name}: a search by CTC needs a model with CTC, got ctc=0. Use --set ctc=0.3."
            )

    @property
    def decoder_inner(self) -> int:
        return self.decoder_mlp or self.mlp


_JOINT = SpeechRecipe(
    name="joint",
    about="the attention decoder, and CTC on the encoder beside it",
    ctc=0.3,
    buckets=8,
    optimizer="adamw",
    learning_rate=0.002,
    weight_decay=0.01,
    batch=8,
    epochs=8,
    select="final",
    schedule="linear",
    warmup=150,
    clip=1.0,
)
_ATTENTION = replace(_JOINT, name="attention", about="the attention decoder: it looks at all symbols so far", ctc=0.0)
_LSTM = replace(_ATTENTION, name="lstm", about="the LSTM decoder: one state for all symbols so far", decoder="lstm")

_LSTM_MATCHED = replace(
    _LSTM,
    name="lstm-matched",
    about="the LSTM decoder with as many parameters as the attention decoder: a narrower feed-forward net",
    decoder_mlp=47,
)
_ATTENTION_MATCHED = replace(
    _ATTENTION,
    name="attention-matched",
    about="the attention decoder with as many parameters as the LSTM decoder: a wider feed-forward net",
    decoder_mlp=753,
)

_ATTENTION_LJSPEECH = SpeechRecipe(
    name="attention-ljspeech",
    about="the published experiment on LJ Speech, attention decoder",
    features="ljspeech",
    padded_loss=True,
    buckets=1,
    optimizer="adamw",
    learning_rate=0.001,
    weight_decay=0.01,
    batch=64,
    epochs=15,
    select="final",
    schedule="linear",
    # Two epochs of 9,825 recordings.
    warmup=308,
)
_LSTM_LJSPEECH = replace(
    _ATTENTION_LJSPEECH,
    name="lstm-ljspeech",
    about="the published experiment on LJ Speech, LSTM decoder",
    decoder="lstm",
)

_AN4_ATTENTION = replace(
    _JOINT,
    name="an4-attention",
    about="for CMU's AN4, on a GPU: LSTMs hear, the attention decoder writes, CTC helps in training",
    encoder="lstm",
    hidden=256,
    heads=2,
    blocks=3,
    subsampling=4,
    keep=0.75,
    ctc=0.5,
    forget=0.2,
    frequency_masks=2,
    time_masks=4,
    time_mask=0.08,
    speed=0.1,
    learning_rate=0.001,
    weight_decay=0.05,
    batch=32,
    passes=10,
    epochs=30,
    warmup=700,
)
_AN4_LSTM = replace(
    _AN4_ATTENTION,
    name="an4-lstm",
    about="for CMU's AN4, on a GPU: LSTMs hear, the LSTM decoder writes, CTC helps in training",
    decoder="lstm",
)
_AN4_BEST = replace(
    _AN4_ATTENTION,
    name="an4-best",
    about="for CMU's AN4, on a GPU: the attention decoder and CTC, in training and in a beam search",
    search="beam",
    beam=8,
    ctc_search=0.5,
)

RECIPES: dict[str, SpeechRecipe] = {
    recipe.name: recipe
    for recipe in (
        *(_JOINT, _ATTENTION, _LSTM, _ATTENTION_MATCHED, _LSTM_MATCHED),
        *(_ATTENTION_LJSPEECH, _LSTM_LJSPEECH, _AN4_ATTENTION, _AN4_LSTM, _AN4_BEST),
    )
}

QUESTIONS = {
    question.name: question
    for question in (
        Question(
            "decoder-question",
            "An LSTM decoder, an attention decoder, or one with CTC beside it, on the same encoder?",
            ("lstm", "attention", "joint"),
            seeds=3,
        ),
    )
}

PUBLISHED_SPLIT = {"train": 9825, "valid": 655, "test": 2620}
PUBLISHED = {
    "lstm-ljspeech": {"test": {"loss": 1.183, "jaccard": 0.715, "cosine": 0.832, "damerau_levenshtein": 0.509}},
    "attention-ljspeech": {"test": {"loss": 1.161, "jaccard": 0.764, "cosine": 0.865, "damerau_levenshtein": 0.632}},
}
"""On LJ Speech 1.1, split as above."""
