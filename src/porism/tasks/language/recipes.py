"""The recipes of the language task: the twelve rows of the published table and two wide nets of another source, small
ones to begin with, and the best; and the experiments over many settings.

>>> RECIPES["table-02"].hidden_size
100
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from porism.errors import RecipeError, advise, fields
from porism.runs.recipe import Count, Layers, Part, Recipe, UsedWith
from porism.tasks.blocks.heads import check_heads
from porism.tasks.language.published import PUBLISHED, TABLE_RUNS, WIDE_RUNS, PublishedRun
from porism.training.experiment import Experiment

__all__ = ["EXPERIMENTS", "PUBLISHED", "RECIPES", "TABLE", "WIDE", "LanguageRecipe"]


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe(Recipe):
    """A language model and how it is trained."""

    task: ClassVar[str] = "language"
    used_with: ClassVar[UsedWith] = {
        **{name: {"model": ("elman",)} for name in ("nonlinearity", "weight_dropout", "weight_init")},
        **{name: {"model": ("attention", "window", "taylor", "hybrid")} for name in ("num_heads", "dim_feedforward")},
        "window_size": {"model": ("window", "hybrid")},
        "order": {"model": ("taylor", "hybrid")},
        "feature_map": {"model": ("taylor",)},
    }
    uncounted: ClassVar[tuple[str, ...]] = ("tokenizer", "lowercase", "min_count", "max_vocab_size")
    tokenizer: Literal["auto", "whitespace", "words", "characters", "bytes", "bpe"] = "auto"
    """How text is cut: at white space, into words and punctuation marks, or into smaller pieces. `auto` takes known
    corpora as they are given, and your own text as words."""
    lowercase: bool = False
    """Read the text in lower case."""
    min_count: Count | None = None
    """Rarer tokens are unknown; none for 1 where the text brings its splits, and 2 elsewhere."""
    max_vocab_size: Count | None = None
    """Only the most frequent tokens are known; none for all where the text brings its splits, and 10,000 elsewhere."""
    model: Literal["elman", "lstm", "attention", "window", "taylor", "hybrid"] = "elman"
    """A recurrent net, or what attends: softmax over all previous words, over a window, the series, or both."""
    nonlinearity: Literal["sigmoid", "tanh", "relu"] = "sigmoid"
    """Of the Elman net."""
    embedding_dim: Count = 50
    """Width of a word's vector."""
    hidden_size: Count = 100
    """Width of a state, or of a layer that attends."""
    num_layers: Layers = 1
    """Layers of the model, one upon another."""
    seq_len: Count = 10
    """Tokens of a window, through which the gradient runs back."""
    dropout: Part = 0.1
    """Probability to drop an element of the embedded input, and of the state on its way to the projection."""
    variational_dropout: bool = False
    """Drop the same elements at every step of a window."""
    embedding_dropout: Part = 0.0
    """Probability to drop a word of the vocabulary from a window's input."""
    num_heads: Count = 4
    """Of an attending model."""
    dim_feedforward: Count | None = None
    """Width inside the feed-forward net after each attention; none for twice `hidden_size`."""
    window_size: Count = 32
    """Words that are attended to exactly (window and hybrid)."""
    order: Count = 2
    """Of the exponential's series (taylor and hybrid)."""
    feature_map: Literal["auto", "rolled", "exact", "ordered", "diagonal"] = "auto"
    """Of the series (taylor): `auto` is rolled at order 2 and exact above, the same series as ordered; diagonal is a
    surrogate without its cross terms."""
    weight_dropout: Part = 0.0
    """Probability to drop a recurrent weight in a window (Elman net)."""
    weight_init: Literal["xavier_uniform", "orthogonal"] = "xavier_uniform"
    """How the recurrent weights of the Elman net are initialised."""
    tie_weights: bool = False
    """One matrix for the embedding and the projection."""

    def __post_init__(self) -> None:
        if self.tie_weights and self.embedding_dim != self.hidden_size:
            raise RecipeError(
                f"recipe {self.name}: tie_weights needs embedding_dim and hidden_size of one size, got "
                f"{self.embedding_dim} and {self.hidden_size}.",
                advise("Use {} or {}.", fields(embedding_dim=self.hidden_size), fields(tie_weights=False)),
            )
        if self.model != "elman" and self.weight_dropout > 0:
            raise RecipeError(
                f"recipe {self.name}: weight_dropout={self.weight_dropout:g} is for model=elman only, got "
                f"model={self.model}.",
                advise("Use {}.", fields(weight_dropout=0)),
            )
        if self.model != "taylor" and self.feature_map != "auto":
            raise RecipeError(
                f"recipe {self.name}: feature_map={self.feature_map} is for model=taylor only, got model={self.model}.",
                advise("Use {}.", fields(feature_map="auto")),
            )
        if self.feature_map in ("rolled", "diagonal") and self.order != 2:
            raise RecipeError(
                f"recipe {self.name}: feature_map={self.feature_map} is of order 2, got order={self.order}.",
                advise("Use {} or {}.", fields(feature_map="exact"), fields(order=2)),
            )
        if self.attends and self.embedding_dim != self.hidden_size:
            raise RecipeError(
                f"recipe {self.name}: an attending model has one width, got embedding_dim={self.embedding_dim} and "
                f"hidden_size={self.hidden_size}.",
                advise("Use {}.", fields(embedding_dim=self.hidden_size)),
            )
        if self.attends:
            check_heads(self.name, self.hidden_size, self.num_heads)

    @property
    def gains_from_bf16(self) -> bool:
        """By its width; a recurrent net's largest product is that onto the vocabulary, which is wide at any width."""
        return not self.attends or self.hidden_size >= 256

    @property
    def feedforward_width(self) -> int:
        """`dim_feedforward`, or its default."""
        return self.dim_feedforward or 2 * self.hidden_size

    @property
    def series_map(self) -> str:
        """The feature map of the series: `feature_map`, or its default."""
        return self.feature_map if self.feature_map != "auto" else "rolled" if self.order == 2 else "exact"

    @property
    def attends(self) -> bool:
        return self.model not in ("elman", "lstm")


def _published(name: str, run: PublishedRun, description: str) -> LanguageRecipe:
    return LanguageRecipe(
        name=name,
        description=description,
        batch_size=run.batch_size,
        embedding_dim=run.embedding_dim,
        hidden_size=run.hidden_size,
        patience=run.patience,
        dropout=run.dropout,
        learning_rate=run.learning_rate,
    )


TABLE = {
    name: _published(
        name,
        run,
        f"published row {number}: batch {run.batch_size}, widths {run.embedding_dim} and {run.hidden_size}, "
        f"dropout {run.dropout}",
    )
    for number, (name, run) in enumerate(TABLE_RUNS.items(), 1)
}

WIDE = {
    name: _published(
        name,
        run,
        f"another source's widths {run.embedding_dim} and {run.hidden_size}, of which it reports {run.test:g}, "
        "evaluated while training",
    )
    for name, run in WIDE_RUNS.items()
}

_ELMAN = LanguageRecipe(
    name="elman",
    description="a small sigmoid Elman net, for the embedded text",
    batch_size=16,
    seq_len=20,
    embedding_dim=128,
    hidden_size=128,
    dropout=0.1,
    learning_rate=0.003,
    epochs=12,
    lr_scheduler="cosine",
)

_LSTM = replace(
    _ELMAN,
    name="lstm",
    description="an LSTM of the same widths",
    model="lstm",
    dropout=0.5,
    learning_rate=0.01,
)

_ATTENTION = LanguageRecipe(
    name="attention",
    description="softmax attention over all previous words, for the embedded text",
    model="attention",
    batch_size=8,
    seq_len=40,
    embedding_dim=128,
    hidden_size=128,
    dropout=0.1,
    learning_rate=0.006,
    epochs=4,
    lr_scheduler="cosine",
    warmup_steps=20,
)


_ELMAN_TIED = replace(
    _ELMAN,
    name="elman-tied",
    description="an Elman net with tied embeddings, for the embedded text",
    embedding_dim=192,
    hidden_size=192,
    tie_weights=True,
    dropout=0.2,
    variational_dropout=True,
    learning_rate=0.01,
    warmup_steps=100,
    max_grad_norm=1.0,
    epochs=6,
)

_LSTM_TIED = replace(
    _ELMAN_TIED,
    name="lstm-tied",
    description="an LSTM with tied embeddings, for the embedded text",
    model="lstm",
    dropout=0.3,
)

_ATTENTION_TIED = replace(
    _ATTENTION,
    name="attention-tied",
    description="softmax attention with tied embeddings, for the embedded text",
    num_layers=2,
    batch_size=16,
    tie_weights=True,
    dropout=0.1,
    variational_dropout=True,
    learning_rate=0.006,
    warmup_steps=100,
    max_grad_norm=1.0,
    epochs=6,
)


def _mechanisms(softmax: LanguageRecipe, suffix: str, window: int) -> tuple[LanguageRecipe, ...]:
    """The same model and training with each way to attend, from softmax over all words."""
    ways = {
        "window": f"softmax attention over the last {window} words",
        "taylor": f"attention by the exponential's series of order {softmax.order}",
        "hybrid": f"exact for the last {window} words, the series beyond",
    }
    others = (
        replace(softmax, name=way + suffix, description=about, model=way, window_size=window)  # type: ignore[arg-type]
        for way, about in ways.items()
    )
    return softmax, *others


_BEST = LanguageRecipe(
    name="elman-best",
    description="a sigmoid Elman net with tied embeddings, for Penn Treebank",
    batch_size=64,
    seq_len=35,
    embedding_dim=1000,
    hidden_size=1000,
    tie_weights=True,
    weight_init="orthogonal",
    dropout=0.6,
    optimizer="adamw",
    weight_decay=0.03,
    learning_rate=0.003,
    epochs=25,
    patience=26,
    lr_scheduler="cosine",
)

_LARGE_ATTENTION = LanguageRecipe(
    name="attention-ptb",
    description="softmax attention for Penn Treebank, with about as many parameters as elman-best",
    model="attention",
    batch_size=32,
    seq_len=64,
    embedding_dim=512,
    hidden_size=512,
    num_heads=16,
    num_layers=3,
    tie_weights=True,
    dropout=0.4,
    optimizer="adamw",
    weight_decay=0.03,
    learning_rate=0.001,
    epochs=20,
    patience=21,
    lr_scheduler="cosine",
    warmup_steps=200,
)

RECIPES: dict[str, LanguageRecipe] = {
    recipe.name: recipe
    for recipe in (
        *(_ELMAN, _LSTM, *_mechanisms(_ATTENTION, "", window=16)),
        *(_ELMAN_TIED, _LSTM_TIED, _ATTENTION_TIED),
        *(*TABLE.values(), *WIDE.values(), _BEST, *_mechanisms(_LARGE_ATTENTION, "-ptb", window=16)),
    )
}

DEFAULT = "elman"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "steps-question",
            "How much does it matter through how many steps the gradient runs back?",
            ("table-02",),
            values={"seq_len": (1, 3, 10, 30, 100)},
        ),
        Experiment(
            "rate-question",
            "With early stopping, how much do learning rate and batch matter?",
            ("table-02", "table-10"),
            values={"learning_rate": (0.0003, 0.001, 0.003, 0.01), "batch_size": (64, 128, 256)},
        ),
    )
}
