"""The recipes of the words task: those of word2vec with a rate of our own, and one for each estimator of the softmax.

>>> RECIPES["skipgram"].vector_size
100
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import msgspec

from porism.errors import RecipeError, advise, fields
from porism.runs.recipe import Count, NotNegative, Recipe
from porism.training.experiment import Experiment

Held = Annotated[float, msgspec.Meta(ge=1e-9, le=0.25)]


@dataclass(frozen=True, kw_only=True)
class WordsRecipe(Recipe):
    """Vectors of words and how they are trained. `batch_size` is the words of text that a step takes, about."""

    task: ClassVar[str] = "words"
    uncounted: ClassVar[tuple[str, ...]] = (
        *("sample", "min_count", "tokenizer", "lowercase", "validation_split"),
        *("deterministic", "max_memory_mib", "evaluation_data"),
    )
    estimator: Literal["full", "uniform", "importance", "self-normalised", "sampled-softmax", "nce", "negative"] = (
        "negative"
    )
    """The loss: the softmax over all words, or an estimate of it from a few sampled words."""
    vector_size: Count = 100
    """Width of a word's vector."""
    window: Count = 5
    """Words to either side that may be a context; how many is drawn anew for each word."""
    negative: Count = 5
    """Words that are sampled for each pair, by every estimator."""
    sample: NotNegative = 1e-3
    """Words that make up more than this share of the text are dropped at random; 0 keeps all."""
    min_count: Count = 5
    """Rarer words get no vector."""
    tokenizer: Literal["auto", "whitespace", "words"] = "auto"
    """What a word is: what stands between white space, or words and each punctuation mark for itself. `auto` takes
    known corpora, and folders that bring their splits, as they are given, and your own text as words."""
    lowercase: bool = True
    """Read the text in lower case."""
    validation_split: Held = 0.01
    """Share of sentences for valid, and as many for test, where the text has no splits."""
    deterministic: bool = False
    """The same bits on every run and with any number of threads, at some of the speed (negative with sgd)."""
    max_memory_mib: Count = 1024
    """MiB that the text may take. The words of a larger one go to a file as numbers, which is mapped."""
    evaluation_data: str | None = None
    """A folder with wordsim353.tsv, simlex999.txt or questions-words.txt: human ratings and analogies."""

    def __post_init__(self) -> None:
        if not self.by_kernel:
            if self.deterministic:
                raise RecipeError(
                    f"recipe {self.name}: deterministic is for estimator=negative with optimizer=sgd, got "
                    f"{self.estimator} with {self.optimizer}.",
                    advise("Use {}.", fields(deterministic=False)),
                )
            return
        if self.lr_scheduler == "cosine" or self.warmup_steps or self.weight_decay or self.max_grad_norm is not None:
            raise RecipeError(
                f"recipe {self.name}: negative sampling with optimizer=sgd takes lr_scheduler=linear or constant, and "
                "no warmup_steps, weight_decay or max_grad_norm.",
                advise("Leave them, or use {}.", fields(optimizer="adam")),
            )

    @property
    def by_kernel(self) -> bool:
        """Whether the kernels train it, by plain SGD as in word2vec; torch trains all others."""
        return self.estimator == "negative" and self.optimizer == "sgd"


_SKIPGRAM = WordsRecipe(
    name="skipgram",
    description="word2vec's skip-gram with negative sampling",
    optimizer="sgd",
    # By held-out loss on WikiText-2, out of 0.025 (word2vec's), 0.035 and 0.05.
    learning_rate=0.035,
    lr_scheduler="linear",
    restore_best_weights=False,
    epochs=5,
    batch_size=200_000,
)

_DETERMINISTIC = replace(
    _SKIPGRAM,
    name="deterministic",
    description="the same, and the same bits on every run, whatever the number of threads",
    deterministic=True,
)

_SMALL = replace(
    _SKIPGRAM,
    name="small",
    description="the same with more passes, for a small text",
    epochs=20,
)

_ESTIMATOR = replace(
    _SKIPGRAM,
    name="full",
    description="",
    estimator="full",
    optimizer="adam",
    vector_size=64,
    epochs=5,
    batch_size=512,
)

_ESTIMATORS = tuple(
    replace(_ESTIMATOR, name=name, description=about, estimator=name, learning_rate=rate)  # type: ignore[arg-type]
    for name, rate, about in (
        ("full", 0.02, "the softmax itself, over all words, by Adam"),
        # What scatters so much wants small steps.
        ("uniform", 0.002, "the same by the softmax's gradient from a few words drawn alike"),
        ("importance", 0.02, "the same, the context kept and a few words drawn from the noise"),
        ("self-normalised", 0.005, "the same, the normaliser from the drawn words too"),
        ("sampled-softmax", 0.005, "a softmax over the context and the drawn words"),
        ("nce", 0.02, "context or noise? With a few words of noise, weighted by their probabilities"),
        ("negative", 0.02, "context or noise? Unweighed: negative sampling, by Adam"),
    )
)

RECIPES: dict[str, WordsRecipe] = {recipe.name: recipe for recipe in (_SKIPGRAM, _DETERMINISTIC, _SMALL, *_ESTIMATORS)}

DEFAULT = "small"

EXPERIMENTS = {
    "estimators": Experiment(
        "estimators",
        "What does sampling cost? The softmax and each of its estimates, trained alike",
        recipes=tuple(recipe.name for recipe in _ESTIMATORS),
        over={"learning_rate": (0.002, 0.005, 0.02)},
        reference="full",
    )
}
