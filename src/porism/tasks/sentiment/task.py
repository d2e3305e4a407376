"""The sentiment task: is a text negative, neutral or positive?"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.costing.subject import CostSubject
from porism.runs.exhibits import AnyExhibit
from porism.runs.recipe import Recipe
from porism.runs.tuning import Space
from porism.tasks.blocks.texts import SPLITS
from porism.tasks.sentiment.baselines import baseline_metrics, baseline_notes
from porism.tasks.sentiment.data import load_reviews
from porism.tasks.sentiment.data.batches import ReviewBatches, TokenBatch, TokenizedReview, encode_reviews
from porism.tasks.sentiment.data.reviews import CLASSES, Reviews, leakage
from porism.tasks.sentiment.data.tokenizer import ReviewTokenizer, WordTokenizer, read_tokenizer
from porism.tasks.sentiment.exhibits.predictions import prediction_exhibits
from porism.tasks.sentiment.exhibits.texts import text_exhibits
from porism.tasks.sentiment.metric import evaluate, logits_of
from porism.tasks.sentiment.model.base import Classifier
from porism.tasks.sentiment.model.build import build
from porism.tasks.sentiment.model.cost import subject
from porism.tasks.sentiment.model.pretrained import (
    Pretrained,
    PretrainedEncoder,
    known_config,
    load_pretrained,
    make_config,
)
from porism.tasks.sentiment.predict import check_options, classify
from porism.tasks.sentiment.recipes import DEFAULT, EXPERIMENTS, PUBLISHED, PUBLISHED_ROWS, RECIPES, SentimentRecipe
from porism.tasks.sentiment.tuning import SPACE
from porism.training.experiment import Experiment
from porism.training.optimizer import ParameterGroup
from porism.training.task import Batch, Carry, Prediction, Task, loaded

SHOWN = ("the soup is not good", "it is not bad", "i love it", "the camera is okay")
"""For the report, when the sentences are synthetic."""
SAMPLES = 5


class Sentiment(Task):
    """Texts to three classes: an encoder, its pooled output, dropout, a linear layer.

    >>> task = Sentiment.load(RECIPES["attention"], None)      # the synthetic sentences
    >>> model = task.build()
    """

    name: ClassVar[str] = "sentiment"
    unit: ClassVar[str] = "examples"
    metric = "accuracy"
    lower_is_better = False
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    default_recipe: ClassVar[str] = DEFAULT
    trains_in_shards: ClassVar[bool] = True
    tunable: ClassVar[Space] = SPACE
    experiments: ClassVar[Mapping[str, Experiment]] = EXPERIMENTS

    def __init__(
        self,
        recipe: SentimentRecipe,
        tokenizer: ReviewTokenizer,
        config: Mapping[str, Any] | None = None,
        *,
        length: int | None = None,
        reviews: Reviews | None = None,
        pretrained: Pretrained | None = None,
    ) -> None:
        self.recipe: SentimentRecipe = recipe
        self.tokenizer = tokenizer
        self._config = config
        self._length = length
        self._reviews = reviews
        self._pretrained = pretrained

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        own = _own(recipe)
        reviews = load_reviews(
            source,
            text_column=own.text_column,
            score_column=own.score_column,
            deduplicate=own.deduplicate,
            validation_split=own.validation_split,
            test_split=own.test_split,
        )
        if own.encoder is None:
            words = WordTokenizer.from_texts(
                (review.text for review in reviews.splits["train"]),
                lowercase=own.lowercase,
                min_count=own.min_count,
                max_vocab_size=own.max_vocab_size,
            )
            return cls(own, words, reviews=reviews)
        found = load_pretrained(own.encoder, own.max_length)
        return cls(own, found.tokenizer, found.config.to_dict(), reviews=reviews, pretrained=found)

    @classmethod
    def restore(cls, recipe: Recipe, assets: Mapping[str, Any]) -> Self:
        own = _own(recipe)
        config = (assets.get("encoder") or known_config(own.encoder)) if own.is_pretrained else None
        return cls(own, read_tokenizer(assets["tokenizer"]), config, length=assets["length"])

    @property
    def reviews(self) -> Reviews:
        return loaded(self._reviews)

    @cached_property
    def examples(self) -> dict[str, list[TokenizedReview]]:
        """Every split as a model takes it."""
        return {
            split: encode_reviews(self.reviews.splits[split], self.tokenizer, self.recipe.max_length)
            for split in SPLITS
        }

    @property
    def length(self) -> int:
        """Tokens of the longest training text, truncated as all are: what the cost of a text is given for."""
        return self._length or max(len(example.ids) for example in self.examples["train"])

    def assets(self) -> dict[str, Any]:
        encoder = {"encoder": dict(self._config)} if self._config else {}
        return {"tokenizer": self.tokenizer.to_json(), "classes": list(CLASSES), "length": self.length, **encoder}

    def fingerprint(self) -> str:
        texts = self.reviews.fingerprint()
        if self._pretrained is None:
            return texts
        # What a model sees of a text, its tokenizer decides, which lies in the encoder's folder and not in the recipe.
        tokenizer = json.dumps(self.tokenizer.to_json(), sort_keys=True)
        return hashlib.sha256(f"{texts} {tokenizer}".encode()).hexdigest()

    def build(self) -> Classifier:
        config = make_config(self._config) if self._config else None
        model = build(self.recipe, len(self.tokenizer), self.tokenizer.unk or 0, config)
        if self._pretrained is not None:
            assert isinstance(model.encoder, PretrainedEncoder)
            # What the encoder lacked stays as it was drawn just now, from the run's seed.
            model.encoder.net.load_state_dict(self._pretrained.weights, strict=False)
        return model

    def trained_parameters(self, model: nn.Module) -> Iterable[nn.Parameter | ParameterGroup]:
        return _own_model(model).parameter_groups(self.recipe.layerwise_lr_decay)

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        recipe = self.recipe
        train = self.examples["train"]
        return ReviewBatches(train, self.tokenizer.pad, recipe.batch_size, recipe.num_buckets, seed, epoch)

    def start(self, model: nn.Module) -> Carry:
        return {}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        texts = TokenBatch(*batch)
        logits = model(texts.tokens, texts.lengths)
        return functional.cross_entropy(logits, texts.labels, self._class_weights_beside(logits)), carry

    def _class_weights_beside(self, logits: Tensor) -> Tensor | None:
        """On their device, where they are copied once: a CUDA graph captures no copy from the CPU."""
        if self._class_weights is None:
            return None
        if logits.device not in self._class_weights_by_device:
            self._class_weights_by_device[logits.device] = self._class_weights.to(logits.device)
        return self._class_weights_by_device[logits.device].to(logits.dtype)

    @cached_property
    def _class_weights_by_device(self) -> dict[torch.device, Tensor]:
        return {}

    @cached_property
    def _class_weights(self) -> Tensor | None:
        """Texts / (classes x texts of the class), as scikit-learn's `balanced`."""
        if self.recipe.class_weight == "none":
            return None
        counts = torch.tensor(self.reviews.counts("train"), dtype=torch.float32)
        return counts.sum() / (len(counts) * counts)

    def example_dim(self) -> int:
        return 0

    def loss_weight(self, batch: Batch) -> float:
        if self._class_weights is None:
            return self.count(batch)
        labels = TokenBatch(*batch).labels
        return float(self._class_weights.double()[labels.cpu()].sum())

    def count(self, batch: Batch) -> int:
        return len(batch[0])

    def training_metrics(self, loss: float) -> dict[str, float]:
        # Weighed by class it is no cross-entropy that could stand beside the one on valid.
        return {"cross_entropy" if self.recipe.class_weight == "none" else "loss": loss}

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        return evaluate(self._logits(model, split), self.reviews, split)

    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        check_options(options)
        return [classify(_own_model(model), self.tokenizer, text, self.recipe.max_length) for text in inputs]

    def show(self, model: nn.Module) -> list[Prediction]:
        test = [review for review in self.reviews.splits["test"] if self._knows(review.text)][:SAMPLES]
        answers = self.predict(model, [review.text for review in test], {})
        return [
            replace(answer, notes=(f"it is {CLASSES[review.label]}", *answer.notes))
            for review, answer in zip(test, answers, strict=True)
        ]

    def exhibits(self, model: nn.Module) -> list[AnyExhibit]:
        net, shown = _own_model(model), self._shown()
        logits, most = self._logits(model, "test"), self.recipe.max_length
        return [
            *text_exhibits(net, self.tokenizer, self.reviews, self.examples, most, shown),
            *prediction_exhibits(net, self.tokenizer, self.reviews, logits, most, shown),
        ]

    def outcomes(self, model: nn.Module, split: str) -> list[bool]:
        labels = torch.tensor([review.label for review in self.reviews.splits[split]])
        right: list[bool] = (self._logits(model, split).argmax(1) == labels).tolist()
        return right

    def facts(self) -> dict[str, int | float | str]:
        return data_facts(self.reviews, self.examples, self.recipe) | self._encoder_facts()

    def _encoder_facts(self) -> dict[str, int | float | str]:
        if self._pretrained is None:
            return {}
        facts: dict[str, int | float | str] = {"encoder": str(self.recipe.encoder)}
        if self._pretrained.new:
            facts["weights that were not in it, and are drawn"] = ", ".join(self._pretrained.new)
        return facts

    def cost_subject(self) -> CostSubject:
        return subject(self.recipe, self._config, self.length)

    def letters(self) -> dict[str, int]:
        return {"V": len(self.tokenizer), **self.cost_subject().sizes}

    def units(self) -> int:
        return self.recipe.batch_size

    @classmethod
    def subject(cls, recipe: Recipe) -> CostSubject:
        return subject(_own(recipe))

    def cost_notes(self) -> Sequence[str]:
        return [
            f"Counted is a text as long as the longest of train: {self.length:,} tokens. "
            "Shorter ones compute less, so a training makes fewer FLOPs a second than shown."
        ]

    def published(self) -> dict[str, dict[str, float]]:
        recipe, reviews = self.recipe, self.reviews
        if not recipe.is_pretrained:
            return {}
        same_data = reviews.duplicates.by_class == PUBLISHED_ROWS and not reviews.deduplicated
        # The encoder may lie in a folder, and the number of epochs decides what it is held against.
        base = RECIPES["bert-published"]
        same = replace(recipe, encoder=base.encoder, text_column=None, score_column=None, epochs=base.epochs) == base
        return PUBLISHED.get(recipe.epochs, {}) if same and same_data else {}

    def baselines(self) -> dict[str, dict[str, dict[str, float]]]:
        return baseline_metrics(self.reviews)

    def baseline_notes(self) -> Sequence[str]:
        return baseline_notes(self.reviews)

    def _logits(self, model: nn.Module, split: str) -> Tensor:
        return logits_of(_own_model(model), self.examples[split], self.tokenizer.pad)

    def _knows(self, text: str) -> bool:
        """Whether the tokenizer knows a word of a text."""
        return any(self.tokenizer.is_known(id) for id in self.tokenizer.encode(text, self.recipe.max_length).ids)

    def _shown(self) -> list[str]:
        """Sentences for the report: of the grammar, or of each class the test text of median length."""
        if self.reviews.synthetic:
            return [text for text in SHOWN if self._knows(text)]
        test = sorted(self.reviews.splits["test"], key=lambda review: len(review.text))
        known = [review for review in test if self._knows(review.text)]
        by_class = [[review.text for review in known if review.label == label] for label in range(len(CLASSES))]
        return [texts[len(texts) // 2] for texts in by_class if texts]


def data_facts(
    reviews: Reviews, examples: Mapping[str, Sequence[TokenizedReview]], recipe: SentimentRecipe
) -> dict[str, int | float | str]:
    """What the report says of the texts: rows, distinct texts, how far a random split leaks, what was truncated."""
    rows, texts, conflicting, _ = reviews.duplicates
    cut = sum(example.whole > recipe.max_length for split in SPLITS for example in examples[split])
    missing = [f"{split} has no {' and no '.join(names)} text" for split, names in reviews.missing().items()]
    sizes = ", ".join(f"{split} {_counted(len(reviews.splits[split]))}" for split in SPLITS)
    how = "drawn at random" if reviews.drawn else "by templates" if reviews.synthetic else "as given"
    return {
        "texts": "synthetic, of a small grammar" if reviews.synthetic else reviews.name,
        "rows": rows,
        "distinct texts": texts,
        **({"texts under several classes": conflicting} if conflicting else {}),
        "split": f"{sizes}, {how}",
        **_leak_facts(reviews),
        f"truncated to {recipe.max_length} tokens": cut,
        **({"missing classes": "; ".join(missing)} if missing else {}),
    }


def _counted(number: int) -> str:
    """As the report writes numbers."""
    return f"{number:,}" if number >= 10_000 else str(number)


def _leak_facts(reviews: Reviews) -> dict[str, str]:
    """Texts of the test that are in train, too: were all rows split at random, and as they are split."""
    now = leakage(reviews.splits)["test"]
    kept = {"test texts that are in train": f"{now:.1%}"}
    if reviews.duplicates.rows == reviews.duplicates.texts or reviews.random_leakage["test"] == now:
        return kept
    return kept | {"the same without deduplication": f"{reviews.random_leakage['test']:.1%}"}


def _own(recipe: Recipe) -> SentimentRecipe:
    assert isinstance(recipe, SentimentRecipe)
    return recipe


def _own_model(model: nn.Module) -> Classifier:
    assert isinstance(model, Classifier)
    return model
