"""The language task: predict the next word."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from porism.costing.subject import CostSubject
from porism.errors import DataError
from porism.runs.example_scores import ExampleScores
from porism.runs.recipe import Recipe
from porism.runs.tuning import Space
from porism.tasks.language.baselines import baseline_cross_entropies
from porism.tasks.language.data import Corpus, Windows, corpus_of_texts, load_corpus, read_source, rows, text_of
from porism.tasks.language.data.public import PTB_FINGERPRINT
from porism.tasks.language.data.text_facts import text_facts, text_notes
from porism.tasks.language.data.text_size import text_sizes
from porism.tasks.language.data.tokenized import Tokenized
from porism.tasks.language.data.tokenizer import Tokenizer, from_json
from porism.tasks.language.data.vocabulary import Vocabulary
from porism.tasks.language.metric import Perplexity
from porism.tasks.language.model.base import LanguageModel
from porism.tasks.language.model.build import build
from porism.tasks.language.model.causality import check_causal
from porism.tasks.language.model.cost import subject
from porism.tasks.language.model.own import OwnLanguageModel
from porism.tasks.language.predict import checked_options, generate_all
from porism.tasks.language.recipes import DEFAULT, EXPERIMENTS, PUBLISHED, RECIPES, WIDE, LanguageRecipe
from porism.tasks.language.tuning import SPACE
from porism.training.experiment import Experiment
from porism.training.own_model import DataInfo
from porism.training.task import Batch, Carry, OwnInputs, Prediction, Task, loaded

EVALUATION_ROWS = 10
"""Few rows, so that hardly a word is predicted without its context and hardly one falls into the remainder."""
READING = ("tokenizer", "lowercase", "min_count", "max_vocab_size")
"""Fields by which a text becomes tokens."""
PASSAGE = 50
"""Words of a passage, over which the test text is resampled."""
PROMPTS = ("in palo alto", "the latest news", "reporters", "unfortunately", "a function is", "the value of", "if the")
"""For the report, which takes those whose words the model knows."""

MECHANISMS = ("hybrid", "taylor", "window")
"""Models whose attention is another than softmax over all previous words, with which their cost is compared."""


class Language(Task):
    """Next-word prediction on a stream of words.

    >>> task = Language.load(RECIPES["elman"], None)      # the embedded text
    >>> model = task.build()
    """

    name: ClassVar[str] = "language"
    unit: ClassVar[str] = "tokens"
    metric = "perplexity"
    lower_is_better = True
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    experiments: ClassVar[Mapping[str, Experiment]] = EXPERIMENTS
    default_recipe: ClassVar[str] = DEFAULT
    trains_in_shards: ClassVar[bool] = True
    tunable: ClassVar[Space] = SPACE
    fields_beside_model = ("seq_len", *READING)

    def __init__(
        self, recipe: LanguageRecipe, vocabulary: Vocabulary, tokenizer: Tokenizer, corpus: Corpus | None = None
    ) -> None:
        self.recipe: LanguageRecipe = recipe
        self.vocabulary = vocabulary
        self.tokenizer = tokenizer
        self._corpus = corpus

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        return cls._of(_own(recipe), load_corpus(source, **_reading(_own(recipe))))

    @classmethod
    def from_data(cls, recipe: Recipe, data: Any) -> Self:
        return cls._of(_own(recipe), corpus_of_texts(data, **_reading(_own(recipe))))

    @classmethod
    def _of(cls, own: LanguageRecipe, corpus: Corpus) -> Self:
        task = cls(own, corpus.vocabulary, corpus.tokenizer, corpus)
        task._check_windows()
        return task

    @classmethod
    def restore(cls, recipe: Recipe, assets: Mapping[str, Any]) -> Self:
        return cls(_own(recipe), Vocabulary.from_json(assets["vocabulary"]), from_json(assets.get("tokenizer")))

    @property
    def corpus(self) -> Corpus:
        return loaded(self._corpus)

    def assets(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary.to_json(), "tokenizer": self.tokenizer.to_json()}

    def fingerprint(self) -> str:
        return self.corpus.fingerprint()

    def build(self) -> LanguageModel:
        return build(self.recipe, len(self.vocabulary))

    def data_info(self) -> DataInfo:
        return DataInfo(vocab_size=len(self.vocabulary))

    def adapt(self, module: nn.Module) -> nn.Module:
        return OwnLanguageModel(self.recipe, len(self.vocabulary), module)

    def check_own_model(self, model: nn.Module, batch: Batch) -> None:
        assert isinstance(model, OwnLanguageModel)
        check_causal(model, batch[0])

    def own_module(self, model: nn.Module) -> nn.Module:
        return model.module if isinstance(model, OwnLanguageModel) else model

    def own_inputs(self) -> OwnInputs:
        steps = self.recipe.seq_len
        return OwnInputs((f"T B : int < {len(self.vocabulary)}",), {"T": steps, "B": 1}, units=steps)

    def on_other_data(self, source: str | None, data: Any) -> Self:
        """Words that the model does not know are `<unk>`. A text without a split is measured whole, in every split."""
        text = read_source(source) if data is None else text_of(data)
        texts = text.splits
        if not text.published_split:
            texts = dict.fromkeys(self.splits, "".join(text.splits[split] for split in self.splits))
        tokenized = Tokenized.of(self.tokenizer, texts)
        streams, sizes = tokenized.encoded(self.vocabulary), text_sizes(self.vocabulary, texts, tokenized)
        corpus = Corpus("other data", self.vocabulary, streams, tokenizer=self.tokenizer, sizes=sizes)
        return self._of(self.recipe, corpus)

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        # Windows come in the order of the text, since each starts from the state the one before ended in.
        return self._windows("train", self.recipe.batch_size, self.recipe.seq_len)

    def start(self, model: nn.Module) -> Carry:
        return _own_model(model).start(self.recipe.batch_size)

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        tokens, targets = batch
        return _own_model(model).loss(tokens, targets, carry)

    def example_dim(self) -> int:
        return 1  # tokens and targets (T, B), states (L, B, H)

    def count(self, batch: Batch) -> int:
        return batch[1].numel()

    def training_metrics(self, loss: float) -> dict[str, float]:
        return {"perplexity": math.exp(loss), "cross_entropy": loss}

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        net, meter = _own_model(model), Perplexity()
        device = next(net.parameters()).device
        carry = net.start(EVALUATION_ROWS)
        for tokens, targets in self._windows(split, EVALUATION_ROWS, net.evaluation_steps):
            loss, carry = net.loss(tokens.to(device), targets.to(device), carry)
            meter.add(loss.double() * targets.numel(), targets.numel())
        return self._with_bits(split, meter.metrics())

    def evaluation_id(self) -> str:
        # Runs that cut one text differently are judged by bits a byte.
        return self.corpus.text_id()

    def example_scores(self, model: nn.Module, split: str) -> ExampleScores:
        net = _own_model(model)
        device = next(net.parameters()).device
        carry, nats = net.start(EVALUATION_ROWS), list[Tensor]()
        for tokens, targets in self._windows(split, EVALUATION_ROWS, net.evaluation_steps):
            logits, carry = net.logits(tokens.to(device), carry)
            losses = cross_entropy(logits.flatten(0, 1), targets.flatten().to(device), reduction="none")
            nats.append(losses.view(targets.shape).cpu())  # T B
        # Words next to one another are not independent: passages of them are more nearly so.
        passages = torch.cat(nats).double().split(PASSAGE)
        return ExampleScores(
            metric=self.metric,
            unit=f"passage of {PASSAGE} words",
            numerators=[float(total) for passage in passages for total in passage.sum(0)],
            denominators=[float(len(passage)) for passage in passages for _ in range(EVALUATION_ROWS)],
            exponential=True,
        )

    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        return generate_all(_own_model(model), self.vocabulary, self.tokenizer, inputs, **checked_options(options))

    def show(self, model: nn.Module) -> list[Prediction]:
        known = [
            prompt for prompt in PROMPTS if all(token in self.vocabulary for token in self.tokenizer.tokens(prompt))
        ]
        # A seed of the recipe's own: the same draws would make the texts of all models of a report alike.
        seed = crc32(self.recipe.name.encode())
        return self.predict(model, [*known[:3], ""], {"temperature": 0.8, "max_new_tokens": 30, "seed": seed})

    def facts(self) -> dict[str, int | float | str]:
        return text_facts(self.corpus) | self._published_facts()

    def notes(self) -> Sequence[str]:
        return text_notes(self.corpus)

    def letters(self) -> dict[str, int]:
        return {**subject(self.recipe).sizes, "V": len(self.vocabulary)}

    def units(self) -> int:
        # What a word costs depends on how many there are in its window.
        return self.recipe.batch_size * self.recipe.seq_len

    @classmethod
    def subject(cls, recipe: Recipe) -> CostSubject:
        return subject(_own(recipe))

    def cost_notes(self) -> Sequence[str]:
        if self.recipe.model not in MECHANISMS:
            return []
        # Formulas, and so sympy, which other models have no use for.
        from porism.tasks.language.model.crossing import crossing_notes

        return crossing_notes(self.recipe)

    def published(self) -> dict[str, dict[str, float]]:
        return PUBLISHED.get(self.recipe.name, {}) if self.fingerprint() == PTB_FINGERPRINT else {}

    def baselines(self) -> dict[str, dict[str, dict[str, float]]]:
        streams = {split: self.corpus.streams[split] for split in ("valid", "test")}
        found = baseline_cross_entropies(self.corpus.streams["train"], streams, len(self.vocabulary))
        return {
            name: {
                split: self._with_bits(split, {"perplexity": math.exp(nats), "cross_entropy": nats})
                for split, nats in splits.items()
            }
            for name, splits in found.items()
        }

    def limit(self) -> dict[str, dict[str, float]]:
        return {
            split: {"perplexity": math.exp(nats), "cross_entropy": nats} for split, nats in self.corpus.limits.items()
        }

    def _with_bits(self, split: str, metrics: dict[str, float]) -> dict[str, float]:
        return {**metrics, "bits_per_byte": self.corpus.bits_per_byte(split, metrics["cross_entropy"])}

    def _published_facts(self) -> dict[str, str]:
        if self.recipe.name not in WIDE or not self.published():
            return {}
        return {"published number": "of an evaluation that goes on training on the text it measures: no mark for this"}

    def _check_windows(self) -> None:
        """Refuse a split that is shorter than a window."""
        for split in self.splits:
            tokens = len(self.corpus.streams[split])
            # No batch size changes these rows.
            if split != "train" and tokens < 2 * EVALUATION_ROWS:
                raise DataError(
                    f"language: {split} has {tokens} tokens, expected at least {2 * EVALUATION_ROWS}: "
                    f"{EVALUATION_ROWS} rows of 2, one to read and one to predict. Give more text."
                )
            self._windows(split, self.recipe.batch_size if split == "train" else EVALUATION_ROWS, self.recipe.seq_len)

    def _windows(self, split: str, batch: int, steps: int) -> Windows:
        return Windows(rows(self.corpus.streams[split], batch), steps)


def _own(recipe: Recipe) -> LanguageRecipe:
    assert isinstance(recipe, LanguageRecipe)
    return recipe


def _reading(recipe: LanguageRecipe) -> dict[str, Any]:
    """How a text becomes tokens."""
    return {name: getattr(recipe, name) for name in READING}


def _own_model(model: nn.Module) -> LanguageModel | OwnLanguageModel:
    assert isinstance(model, LanguageModel | OwnLanguageModel)
    return model
