"""The recipes of the language task: the twelve rows of the published table, small ones for a first look, and the best;
and the questions that runs with many settings answer.

>>> RECIPES["table-02"].hidden
100
"""

from dataclasses import dataclass, replace
from typing import Literal

from porism.errors import RecipeError
from porism.runs.recipe import Count, Recipe, Share
from porism.training.experiment import Question


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe(Recipe):
    """A language model and how it is trained."""

    model: Literal["elman", "lstm", "attention", "window", "taylor", "hybrid"] = "elman"
    activation: Literal["sigmoid", "tanh", "relu"] = "sigmoid"
    """Of the Elman net."""
    embedding: Count = 50
    hidden: Count = 100
    layers: Count = 1
    steps: Count = 10
    """Tokens of a window, through which the gradient runs back."""
    keep: Share = 0.9
    """Probability to keep an element of the embedded input, and of the state on its way to the projection."""
    locked: bool = False
    """Drop the same elements at every step of a window."""
    keep_words: Share = 1.0
    """Probability to keep a word of the vocabulary in a window's input."""
    heads: Count = 4
    """Of an attending model."""
    feed_forward: Count = 2
    """Of an attending model: how many times as wide as its states the net behind each attention is."""
    window: Count = 32
    """Words that are looked at exactly (window and hybrid)."""
    order: Count = 2
    """Of the exponential's series (taylor and hybrid)."""
    keep_recurrent: Share = 1.0
    """Probability to keep a recurrent weight in a window (Elman net)."""
    start: Literal["glorot", "orthogonal"] = "glorot"
    """How the recurrent weights of the Elman net start."""
    tied: bool = False
    """One matrix for the embedding and the projection."""

    def __post_init__(self) -> None:
        if self.tied and self.embedding != self.hidden:
            raise RecipeError(
                f"recipe {self.name}: tied needs embedding and hidden of one size, got {self.embedding} and "
                f"{self.hidden}. Use --set embedding={self.hidden} or --set tied=false."
            )
        if self.model != "elman" and self.keep_recurrent < 1:
            raise RecipeError(
                f"recipe {self.name}: keep_recurrent={self.keep_recurrent:g} is for model=elman only, got "
                f"model={self.model}. Use --set keep_recurrent=1."
            )
        if self.attends and self.embedding != self.hidden:
            raise RecipeError(
                f"recipe {self.name}: an attending model has one width, got embedding={self.embedding} and "
                f"hidden={self.hidden}. Use --set embedding={self.hidden}."
            )
        if self.attends and self.hidden % self.heads:
            raise RecipeError(
                f"recipe {self.name}: hidden={self.hidden} does not split into {self.heads} heads. "
                f"Use --set heads={max(n for n in range(1, self.heads) if self.hidden % n == 0)}."
            )

    @property
    def attends(self) -> bool:
        return self.model not in ("elman", "lstm")


# batch, embedding, hidden, patience, keep, learning rate; then perplexity on train, valid and test as published
_TABLE = (
    (64, 50, 100, 2, 0.9, 0.001, 125.56, 186.32, 167.33),
    (128, 50, 100, 2, 0.9, 0.001, 121.88, 179.12, 159.64),
    (128, 50, 200, 2, 0.9, 0.001, 107.50, 171.51, 155.67),
    (128, 50, 100, 5, 0.9, 0.001, 115.81, 178.16, 160.75),
    (128, 50, 100, 2, 0.2, 0.001, 340.10, 299.55, 261.87),
    (128, 50, 100, 2, 0.6, 0.001, 176.91, 204.05, 179.25),
    (128, 50, 100, 2, 0.9, 0.01, 105.40, 172.02, 158.97),
    (64, 1000, 100, 5, 0.9, 0.001, 91.54, 183.35, 154.83),
    (128, 1000, 100, 2, 0.9, 0.01, 136.97, 208.73, 193.57),
    (128, 1000, 100, 2, 0.9, 0.001, 99.09, 166.33, 150.61),
    (128, 1000, 200, 2, 0.9, 0.001, 82.02, 154.97, 142.12),
    (256, 1000, 200, 2, 0.9, 0.001, 80.24, 151.32, 138.38),
)

TABLE = {
    f"table-{number:02d}": LanguageRecipe(
        name=f"table-{number:02d}",
        about=f"published row {number}: batch {batch}, widths {embedding} and {hidden}, keep {keep}",
        batch=batch,
        embedding=embedding,
        hidden=hidden,
        patience=patience,
        keep=keep,
        learning_rate=learning_rate,
    )
    for number, (batch, embedding, hidden, patience, keep, learning_rate, *_) in enumerate(_TABLE, 1)
}

PUBLISHED = {
    name: {"train": {"perplexity": train}, "valid": {"perplexity": valid}, "test": {"perplexity": test}}
    for name, (*_, train, valid, test) in zip(TABLE, _TABLE, strict=True)
}

_ELMAN = LanguageRecipe(
    name="elman",
    about="a sigmoid Elman net that learns the embedded text in a minute",
    batch=16,
    steps=20,
    embedding=128,
    hidden=128,
    keep=0.7,
    learning_rate=0.003,
    epochs=12,
    schedule="cosine",
)

_LSTM = replace(_ELMAN, name="lstm", about="an LSTM of the same widths", model="lstm")

_ATTENTION = LanguageRecipe(
    name="attention",
    about="softmax attention over all words before, of the Elman net's size",
    model="attention",
    batch=8,
    steps=40,
    embedding=128,
    hidden=128,
    keep=0.8,
    learning_rate=0.003,
    epochs=4,
    schedule="cosine",
    warmup=20,
)


def _mechanisms(softmax: LanguageRecipe, suffix: str, window: int) -> tuple[LanguageRecipe, ...]:
    """The same model and training with each way to attend, from softmax over all words."""
    ways = {
        "window": f"softmax attention over the last {window} words",
        "taylor": "attention by the exponential's series of order 2",
        "hybrid": f"exact for the last {window} words, the series beyond",
    }
    others = (
        replace(softmax, name=way + suffix, about=about, model=way, window=window)  # type: ignore[arg-type]
        for way, about in ways.items()
    )
    return softmax, *others


_BEST = LanguageRecipe(
    name="elman-best",
    about="our best sigmoid Elman net on Penn Treebank",
    batch=64,
    steps=35,
    embedding=1000,
    hidden=1000,
    tied=True,
    start="orthogonal",
    keep=0.4,
    optimizer="adamw",
    weight_decay=0.03,
    learning_rate=0.003,
    epochs=25,
    patience=25,
    schedule="cosine",
)

_LARGE_ATTENTION = LanguageRecipe(
    name="attention-ptb",
    about="three layers of softmax attention on Penn Treebank, of the best Elman net's size",
    model="attention",
    batch=32,
    steps=64,
    embedding=512,
    hidden=512,
    heads=16,
    layers=3,
    tied=True,
    keep=0.7,
    optimizer="adamw",
    weight_decay=0.03,
    learning_rate=0.001,
    epochs=20,
    patience=20,
    schedule="cosine",
    warmup=200,
)

RECIPES: dict[str, LanguageRecipe] = {
    recipe.name: recipe
    for recipe in (
        *(_ELMAN, _LSTM, *_mechanisms(_ATTENTION, "", window=16)),
        *(*TABLE.values(), _BEST, *_mechanisms(_LARGE_ATTENTION, "-ptb", window=16)),
    )
}

QUESTIONS = {
    question.name: question
    for question in (
        Question(
            "steps-question",
            "How much does it matter through how many steps the gradient runs back?",
            ("table-02",),
            {"steps": (1, 3, 10, 30, 100)},
            seeds=3,
        ),
        Question(
            "rate-question",
            "With early stopping, how much do learning rate and batch matter?",
            ("table-02", "table-10"),
            {"learning_rate": (0.0003, 0.001, 0.003, 0.01), "batch": (64, 128, 256)},
            seeds=3,
        ),
    )
}
