"""The recipes of the sentiment task: small encoders of our own attention layers, and the published fine-tuning.

>>> RECIPES["bert"].learning_rate
2e-05
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from porism.errors import RecipeError, advise, fields
from porism.runs.recipe import Count, Layers, Part, Recipe, Share, UsedWith, Whole
from porism.tasks.blocks.heads import check_heads
from porism.training.experiment import Experiment


@dataclass(frozen=True, kw_only=True)
class SentimentRecipe(Recipe):
    """An encoder of texts with a classification head, and how it is trained."""

    task: ClassVar[str] = "sentiment"
    used_with: ClassVar[UsedWith] = {
        **{
            name: {"model": ("attention", "window", "taylor", "hybrid")}
            for name in ("hidden_size", "num_layers", "num_heads", "dim_feedforward", "dropout", "word_dropout")
        },
        "window_size": {"model": ("window", "hybrid")},
        "order": {"model": ("taylor", "hybrid")},
        "encoder": {"model": ("pretrained",)},
    }
    uncounted: ClassVar[tuple[str, ...]] = (
        *("lowercase", "min_count", "max_vocab_size", "layerwise_lr_decay", "class_weight", "deduplicate"),
        *("validation_split", "test_split", "text_column", "score_column", "num_buckets"),
    )
    model: Literal["attention", "window", "taylor", "hybrid", "pretrained"] = "attention"
    """An encoder of our own by its attention, trained from scratch; or a pretrained one."""
    encoder: str | None = None
    """Of a pretrained one: its name on the Hugging Face hub, or a local folder."""
    hidden_size: Count = 64
    """Of an encoder of our own, as are the next seven. A pretrained one has its own."""
    num_layers: Layers = 2
    """Layers of the encoder."""
    num_heads: Count = 4
    """Of each attention."""
    dim_feedforward: Count | None = None
    """Width inside the feed-forward net after each attention; none for twice `hidden_size`."""
    window_size: Count = 8
    """Words to either side, the word itself counted, that are attended to exactly (window and hybrid)."""
    order: Count = 2
    """Of the exponential's series (taylor and hybrid)."""
    dropout: Part = 0.1
    """Probability to drop an element of the embedded words and of what each layer adds."""
    word_dropout: Part = 0.0
    """Share of the words that are masked as unknown in training, so that unknown words are met there."""
    classifier_dropout: Part = 0.3
    """Probability to drop an element of the pooled output."""
    max_length: Count = 160
    """Tokens of a text, special ones counted; what is longer is truncated."""
    lowercase: bool = True
    """Of words, as are the next two. A pretrained encoder has its own tokenizer."""
    min_count: Count = 1
    """How often a word must be in train to be known."""
    max_vocab_size: Count | None = None
    """The most frequent words are known."""
    num_frozen_layers: Whole = 0
    """Lowest layers that are not trained; with any of them the embeddings are not, either."""
    layerwise_lr_decay: Share = 1.0
    """The learning rate of a layer is this share of that of the layer above it; the head has `learning_rate`."""
    class_weight: Literal["none", "balanced"] = "none"
    """Of the loss: balanced weighs each class by the inverse of its share in train."""
    deduplicate: bool = True
    """Keep each text once, before the split."""
    validation_split: Part = 0.05
    """Share of a single file's texts."""
    test_split: Part = 0.05
    """The same for test."""
    text_column: str | None = None
    """Of a file; none for the one with a usual name."""
    score_column: str | None = None
    """The same for the scores."""
    num_buckets: Count = 8
    """Lengths that texts are padded to, those of similar length together."""

    def __post_init__(self) -> None:
        if self.is_pretrained and not self.encoder:
            raise RecipeError(
                f"recipe {self.name}: model=pretrained needs an encoder.",
                advise(
                    "Use {}, a name on the Hugging Face hub or a folder that save_pretrained wrote.",
                    fields(encoder="NAME"),
                ),
            )
        if self.encoder and not self.is_pretrained:
            raise RecipeError(
                f"recipe {self.name}: encoder={self.encoder} is for model=pretrained, got model={self.model}.",
                advise("Use {}, or the recipe bert.", fields(model="pretrained")),
            )
        if self.word_dropout and self.is_pretrained:
            raise RecipeError(
                f"recipe {self.name}: word_dropout is for encoders of our own.",
                advise("Use {}.", fields(word_dropout=0)),
            )
        if not self.is_pretrained:
            check_heads(self.name, self.hidden_size, self.num_heads)
        if not self.is_pretrained and self.num_frozen_layers > self.num_layers:
            raise RecipeError(
                f"recipe {self.name}: num_frozen_layers={self.num_frozen_layers}, and there are {self.num_layers} "
                "layers.",
                advise("Use {} or fewer.", fields(num_frozen_layers=self.num_layers)),
            )
        if not 0 < self.validation_split + self.test_split < 1 or not self.validation_split or not self.test_split:
            raise RecipeError(
                f"recipe {self.name}: validation_split={self.validation_split:g} and test_split={self.test_split:g}, "
                "expected shares above 0 that leave texts for train.",
                advise("Use {}.", fields(validation_split=0.05, test_split=0.05)),
            )

    @property
    def is_pretrained(self) -> bool:
        return self.model == "pretrained"

    @property
    def feedforward_width(self) -> int:
        """`dim_feedforward`, or its default."""
        return self.dim_feedforward or 2 * self.hidden_size


_ATTENTION = SentimentRecipe(
    name="attention",
    description="a small encoder with softmax attention, from scratch, for the synthetic sentences",
    optimizer="adamw",
    learning_rate=0.006,
    weight_decay=0.01,
    max_grad_norm=1.0,
    lr_scheduler="linear",
    warmup_steps=50,
    batch_size=32,
    epochs=8,
    restore_best_weights=False,
    word_dropout=0.15,
)
_WINDOW = replace(
    _ATTENTION,
    name="window",
    description="the same with softmax attention over a word and its neighbours",
    model="window",
    window_size=10,
)
_TAYLOR = replace(
    _ATTENTION, name="taylor", description="the same with attention by the exponential's series", model="taylor"
)
_HYBRID = replace(
    _ATTENTION,
    name="hybrid",
    description="the same, exact for a word and its neighbours, the series beyond",
    model="hybrid",
)

_BERT = SentimentRecipe(
    name="bert",
    description="fine-tunes cased BERT-base with the published settings, each text kept once",
    model="pretrained",
    encoder="bert-base-cased",
    lowercase=False,
    optimizer="adamw",
    learning_rate=2e-5,
    max_grad_norm=1.0,
    lr_scheduler="linear",
    batch_size=16,
    epochs=10,
    restore_best_weights=False,
)
_BERT_PUBLISHED = replace(
    _BERT,
    name="bert-published",
    description="the published experiment: the same on all rows, copies of training texts in the test too",
    deduplicate=False,
)

RECIPES: dict[str, SentimentRecipe] = {
    recipe.name: recipe for recipe in (_ATTENTION, _WINDOW, _TAYLOR, _HYBRID, _BERT, _BERT_PUBLISHED)
}

DEFAULT = "attention"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "attention-question",
            "What does attention within a window, or by the exponential's series, lose against softmax?",
            ("attention", "window", "taylor", "hybrid"),
            reference="attention",
        ),
    )
}

PUBLISHED_ROWS = (5028, 5042, 5676)
"""Negative, neutral and positive reviews of the published file."""
PUBLISHED = {
    10: {"valid": {"accuracy": 0.879}, "test": {"accuracy": 705 / 788}},
    5: {"valid": {"accuracy": 0.864}},
}
"""By epochs, on all 15,746 rows of that file."""
