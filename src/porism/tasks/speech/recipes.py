"""The recipes of the speech task: three decoders on one encoder, the published protocol, and those for AN4.

>>> RECIPES["lstm-ljspeech"].epochs
15
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from porism.errors import RecipeError, advise, fields
from porism.runs.recipe import Count, Layers, NotNegative, Part, Recipe, UsedWith, Whole
from porism.tasks.blocks.heads import check_heads
from porism.training.experiment import Experiment


@dataclass(frozen=True, kw_only=True)
class SpeechRecipe(Recipe):
    """A speech recognition model and its training."""

    task: ClassVar[str] = "speech"
    used_with: ClassVar[UsedWith] = {
        name: {"search": ("beam",)} for name in ("beam_size", "decode_ctc_weight", "length_bonus")
    }
    uncounted: ClassVar[tuple[str, ...]] = (
        *("scoring", "transcripts", "strict", "num_freq_mask", "freq_mask_width", "num_time_mask"),
        *("time_mask_width_ratio", "speed_perturb", "check_val_every_n_epoch", "num_buckets"),
        *("search", "beam_size", "decode_ctc_weight", "length_bonus"),
    )
    encoder: Literal["attention", "lstm"] = "attention"
    """Its blocks: self-attention and a feed-forward net, or a bidirectional LSTM."""
    decoder: Literal["lstm", "attention"] = "attention"
    """What writes the text: an LSTM or self-attention, each attending to the encoder's states."""
    features: Literal["fbank", "ljspeech"] = "fbank"
    """Log-mel energies of 16 kHz, each recording to mean 0 and deviation 1; or those of the published experiment."""
    max_target_length: Count = 97
    """Characters of a text in training and of a transcript; what is longer is cut."""
    scoring: Literal["whole", "published"] = "whole"
    """Against whole transcripts, every character counted; or, as in the published experiment, against what is left of
    them in the model's alphabet and within `max_target_length`."""
    transcripts: str | None = None
    """Which files of your folder hold the transcripts: *.trans.txt or metadata.csv with a line for each recording, its
    name first; {name}.lab for a file each. none: the layouts that are known."""
    strict: bool = False
    """Refuse a transcript with a character outside the alphabet, which otherwise counts as unknown."""
    hidden_size: Count = 200
    """Width of the encoder's states and of the decoder's."""
    num_heads: Count = 2
    """Of each attention."""
    num_layers: Layers = 2
    """Of the encoder."""
    dim_feedforward: Count | None = None
    """Width inside a feed-forward net of the encoder; none for twice `hidden_size`."""
    decoder_dim_feedforward: Count | None = None
    """The same in the decoder."""
    subsampling: Literal[2, 4] = 2
    """Frames of a spectrogram for one state of the encoder."""
    dropout: Part = 0.0
    """Probability to drop an element wherever there is dropout."""
    label_smoothing: Part = 0.1
    """Share of a label that is spread over all symbols while training."""
    ignore_padding: bool = True
    """Leave padding out of the loss; else it counts, every text padded to the longest, as in the published runs."""
    ctc_weight: Part = 0.0
    """Weight of CTC on the encoder's states in the loss; 0 leaves it out."""
    word_dropout: Part = 0.0
    """Share of the decoder's input symbols that are masked as unknown in training, so that it has to attend."""
    guided_attention_weight: NotNegative = 0.0
    """Weight in the loss of attention off the diagonal, on which text and recording advance evenly."""
    num_freq_mask: Whole = 0
    """Frequency masks of a recording in training."""
    freq_mask_width: Count = 20
    """Most channels of a frequency mask."""
    num_time_mask: Whole = 0
    """Time masks of a recording in training."""
    time_mask_width_ratio: Part = 0.05
    """Largest share of a recording in a time mask."""
    speed_perturb: Part = 0.0
    """Train at this much slower, unchanged, and this much faster, at random for each recording."""
    check_val_every_n_epoch: Count = 1
    """Epochs, each a pass through the recordings, after which valid is transcribed."""
    num_buckets: Count = 4
    """Lengths that recordings are padded to, those of similar length together."""
    search: Literal["greedy", "ctc", "beam"] = "greedy"
    """How a text is decoded: the likeliest symbol each time, CTC's, or the best of a beam."""
    beam_size: Count = 8
    """Hypotheses of a beam search."""
    decode_ctc_weight: Part = 0.0
    """Weight of CTC's prefix scores in a beam search."""
    length_bonus: float = 0.0
    """Added to the score for every symbol in a beam search."""

    def __post_init__(self) -> None:
        check_heads(self.name, self.hidden_size, self.num_heads)
        if not self.ctc_weight and (self.search == "ctc" or self.decode_ctc_weight):
            raise RecipeError(
                f"recipe {self.name}: a search by CTC needs a model with CTC, got ctc_weight=0.",
                advise("Use {}.", fields(ctc_weight=0.3)),
            )

    @property
    def feedforward_width(self) -> int:
        """`dim_feedforward`, or its default."""
        return self.dim_feedforward or 2 * self.hidden_size

    @property
    def decoder_feedforward_width(self) -> int:
        """`decoder_dim_feedforward`, or its default."""
        return self.decoder_dim_feedforward or 2 * self.hidden_size


_JOINT = SpeechRecipe(
    name="joint",
    description="the attention decoder, and CTC on the encoder beside it",
    ctc_weight=0.3,
    num_buckets=8,
    optimizer="adamw",
    learning_rate=0.002,
    weight_decay=0.01,
    batch_size=8,
    epochs=8,
    restore_best_weights=False,
    lr_scheduler="linear",
    warmup_steps=150,
    max_grad_norm=1.0,
)
_ATTENTION = replace(
    _JOINT, name="attention", description="the attention decoder: it attends to all previous symbols", ctc_weight=0.0
)
_LSTM = replace(
    _ATTENTION, name="lstm", description="the LSTM decoder: one state for all previous symbols", decoder="lstm"
)

_LSTM_MATCHED = replace(
    _LSTM,
    name="lstm-matched",
    description="the LSTM decoder with about as many parameters as the attention decoder: a narrower feed-forward net",
    decoder_dim_feedforward=47,
)
_ATTENTION_MATCHED = replace(
    _ATTENTION,
    name="attention-matched",
    description="the attention decoder with about as many parameters as the LSTM decoder: a wider feed-forward net",
    decoder_dim_feedforward=753,
)

# Left alone, the attention decoder learns which symbols follow which sooner than where they are in the recording:
# after 8 epochs its attention goes back as often as on. The others are trained in the same way, so that they compare.
_LSTM_GUIDED, _ATTENTION_GUIDED, _JOINT_GUIDED = (
    replace(
        recipe,
        name=f"{recipe.name}-guided",
        description=f"{recipe.description}; guided attention in training, fewer states to attend to",
        guided_attention_weight=1.0,
        subsampling=4,
    )
    for recipe in (_LSTM, _ATTENTION, _JOINT)
)

_ATTENTION_LJSPEECH = SpeechRecipe(
    name="attention-ljspeech",
    description="the published experiment on LJ Speech, attention decoder",
    features="ljspeech",
    scoring="published",
    ignore_padding=False,
    num_buckets=1,
    optimizer="adamw",
    learning_rate=0.001,
    weight_decay=0.01,
    batch_size=64,
    epochs=15,
    restore_best_weights=False,
    lr_scheduler="linear",
    # Two epochs of 9,825 recordings.
    warmup_steps=308,
)
_LSTM_LJSPEECH = replace(
    _ATTENTION_LJSPEECH,
    name="lstm-ljspeech",
    description="the published experiment on LJ Speech, LSTM decoder",
    decoder="lstm",
)

_AN4_ATTENTION = replace(
    _JOINT,
    name="an4-attention",
    description="for CMU's AN4: LSTM encoder, attention decoder, CTC in training",
    encoder="lstm",
    hidden_size=256,
    num_heads=2,
    dim_feedforward=400,
    decoder_dim_feedforward=400,
    num_layers=3,
    subsampling=4,
    dropout=0.25,
    ctc_weight=0.5,
    word_dropout=0.2,
    num_freq_mask=2,
    num_time_mask=4,
    time_mask_width_ratio=0.08,
    speed_perturb=0.1,
    learning_rate=0.001,
    weight_decay=0.05,
    batch_size=32,
    check_val_every_n_epoch=10,
    epochs=300,
    warmup_steps=700,
)
_AN4_LSTM = replace(
    _AN4_ATTENTION,
    name="an4-lstm",
    description="for CMU's AN4: LSTM encoder, LSTM decoder, CTC in training",
    decoder="lstm",
)
_AN4_BEST = replace(
    _AN4_ATTENTION,
    name="an4-best",
    description="for CMU's AN4: the attention decoder and CTC, in training and in a beam search",
    search="beam",
    beam_size=8,
    decode_ctc_weight=0.5,
)

RECIPES: dict[str, SpeechRecipe] = {
    recipe.name: recipe
    for recipe in (
        *(_JOINT, _ATTENTION, _LSTM, _ATTENTION_MATCHED, _LSTM_MATCHED),
        *(_LSTM_GUIDED, _ATTENTION_GUIDED, _JOINT_GUIDED),
        *(_ATTENTION_LJSPEECH, _LSTM_LJSPEECH, _AN4_ATTENTION, _AN4_LSTM, _AN4_BEST),
    )
}

DEFAULT = "joint"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "decoder-question",
            "An LSTM decoder, an attention decoder, or one with CTC beside it, on the same encoder?",
            ("lstm-guided", "attention-guided", "joint-guided"),
        ),
    )
}

PUBLISHED_SPLIT = {"train": 9825, "valid": 655, "test": 2620}
PUBLISHED = {
    "lstm-ljspeech": {"test": {"loss": 1.183, "jaccard": 0.715, "cosine": 0.832, "damerau_levenshtein": 0.509}},
    "attention-ljspeech": {"test": {"loss": 1.161, "jaccard": 0.764, "cosine": 0.865, "damerau_levenshtein": 0.632}},
}
"""On LJ Speech 1.1, split as above, under scoring=published."""
