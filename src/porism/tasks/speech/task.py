"""The speech task: transcribe recordings."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from porism.costing.subject import CostSubject
from porism.files import sha256_of_json
from porism.runs.example_scores import ExampleScores
from porism.runs.exhibits import AnyExhibit
from porism.runs.recipe import Recipe
from porism.runs.tuning import Space
from porism.tasks.speech.baselines import baseline_metrics, baseline_notes
from porism.tasks.speech.data import Recordings, load_recordings
from porism.tasks.speech.data.augment import mask_frequencies, mask_times
from porism.tasks.speech.data.batches import Buckets, Example, UtteranceBatches, examples
from porism.tasks.speech.data.features import features_named
from porism.tasks.speech.data.symbols import SYMBOLS, unknown_characters
from porism.tasks.speech.error_kinds import words_in
from porism.tasks.speech.exhibits.transcripts import exhibits
from porism.tasks.speech.metric import evaluate, shares
from porism.tasks.speech.model.base import SpeechModel, build, lowest_loss
from porism.tasks.speech.model.cost import subject
from porism.tasks.speech.predict import search_for, transcribe, transcribe_file
from porism.tasks.speech.recipes import DEFAULT, EXPERIMENTS, PUBLISHED, PUBLISHED_SPLIT, RECIPES, SpeechRecipe
from porism.tasks.speech.tuning import SPACE
from porism.training.experiment import Experiment
from porism.training.task import Batch, Carry, Prediction, Task, loaded

SHOWN = 5


class Speech(Task):
    """Recordings to texts, symbol by symbol.

    >>> task = Speech.load(RECIPES["joint"], None)      # the embedded recordings
    >>> model = task.build()
    """

    name: ClassVar[str] = "speech"
    unit: ClassVar[str] = "examples"
    metric = "cer"
    lower_is_better = True
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    default_recipe: ClassVar[str] = DEFAULT
    trains_in_shards: ClassVar[bool] = True
    tunable: ClassVar[Space] = SPACE
    experiments: ClassVar[Mapping[str, Experiment]] = EXPERIMENTS

    def __init__(self, recipe: SpeechRecipe, assets: Mapping[str, Any], recordings: Recordings | None = None) -> None:
        self.recipe: SpeechRecipe = recipe
        self.features = features_named(recipe.features)
        self._assets = dict(assets)
        self._recordings = recordings
        self._examples: dict[str, list[Example]] = {}

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        own = _own(recipe)
        task = cls(own, {}, load_recordings(source, strict=own.strict, transcripts=own.transcripts))
        train = task.examples("train")
        task._assets = {
            "symbols": list(SYMBOLS),
            "seconds": max(example.seconds for example in train),
            "frames": max(len(example.features[0]) for example in train),
            # The decoder's input begins with the sos and lacks the last symbol, the eos.
            "length": max(len(example.tokens) for example in train) - 1,
        }
        return task

    @classmethod
    def restore(cls, recipe: Recipe, assets: Mapping[str, Any]) -> Self:
        return cls(_own(recipe), assets)

    @property
    def recordings(self) -> Recordings:
        return loaded(self._recordings)

    def examples(self, split: str) -> list[Example]:
        """A split as the model takes it, read once."""
        if split not in self._examples:
            perturbed = (1.0, 1 - self.recipe.speed_perturb, 1 + self.recipe.speed_perturb)
            speeds = perturbed if self.recipe.speed_perturb and split == "train" else (1.0,)
            self._examples[split] = examples(
                self.recordings.splits[split],
                self.features,
                self.recipe.max_target_length,
                speeds,
                whole_references=self.recipe.scoring == "whole",
            )
        return self._examples[split]

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words of the training texts."""
        texts = (utterance.text.lower() for utterance in self.recordings.splits["train"])
        return frozenset(word for text in texts for word in words_in(text))

    def assets(self) -> dict[str, Any]:
        return self._assets

    def fingerprint(self) -> str:
        return self.recordings.fingerprint()

    def example_ids(self, split: str) -> Sequence[Hashable]:
        return [utterance.digest() for utterance in self.recordings.splits[split]]

    def build(self) -> SpeechModel:
        return build(self.recipe, self.features.mels, len(self._assets["symbols"]))

    @cached_property
    def _buckets(self) -> Buckets:
        symbols = None if self.recipe.ignore_padding else self.recipe.max_target_length + 2
        return Buckets(self.examples("train"), self.recipe.num_buckets, symbols)

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        return UtteranceBatches(
            self._buckets, self.recipe.batch_size, seed, epoch, self.recipe.epochs_between_validations
        )

    def start(self, model: nn.Module) -> Carry:
        return {}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        return self._loss(model, batch), carry

    def loss_part(self, model: nn.Module, part: Batch, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        return self._loss(model, part, batch[2]), carry

    def _loss(self, model: nn.Module, batch: Batch, all_tokens: Tensor | None = None) -> Tensor:
        """all_tokens: those of a larger batch, of which this one is a part."""
        features, lengths, tokens = batch
        recipe = self.recipe
        if model.training and recipe.num_freq_mask:
            features = mask_frequencies(features, recipe.num_freq_mask, recipe.freq_mask_width)
        if model.training and recipe.num_time_mask:
            features = mask_times(features, lengths, recipe.num_time_mask, recipe.time_mask_width_ratio)
        return _own_model(model).loss(features, lengths, tokens, all_tokens)

    def example_dim(self) -> int:
        return 0

    def count(self, batch: Batch) -> int:
        return len(batch[0])

    def training_metrics(self, loss: float) -> dict[str, float]:
        return {"loss": loss}

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        return evaluate(_own_model(model), self.examples(split), search_for(self.recipe), self.vocabulary)

    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        search, seconds = search_for(self.recipe, options), self._assets["seconds"]
        return [transcribe_file(_own_model(model), path, self.features, search, seconds) for path in inputs]

    def show(self, model: nn.Module) -> list[Prediction]:
        some = self.examples("test")[:SHOWN]
        texts = transcribe(_own_model(model), some, search_for(self.recipe))
        return [Prediction(f"{example.name}: {example.text}", text) for example, text in zip(some, texts, strict=True)]

    def exhibits(self, model: nn.Module) -> list[AnyExhibit]:
        test, own = self.examples("test"), _own_model(model)
        texts = transcribe(own, test, search_for(self.recipe))
        return exhibits(own, self.recordings.splits["test"], test, texts, self.vocabulary)

    def outcomes(self, model: nn.Module, split: str) -> list[bool]:
        some = self.examples(split)
        texts = transcribe(_own_model(model), some, search_for(self.recipe))
        return [example.text == text for example, text in zip(some, texts, strict=True)]

    def example_scores(self, model: nn.Module, split: str) -> ExampleScores:
        some = self.examples(split)
        texts = transcribe(_own_model(model), some, search_for(self.recipe))
        found = shares([example.text for example in some], texts)[self.metric]
        return ExampleScores(
            metric=self.metric, unit="utterance", numerators=found.part.tolist(), denominators=found.whole.tolist()
        )

    def evaluation_id(self) -> str:
        # How much of a transcript is scored is the recipe's.
        texts = [[example.text for example in self.examples(split)] for split in ("valid", "test")]
        return sha256_of_json([self.fingerprint(), texts])

    def facts(self) -> dict[str, int | float | str]:
        facts: dict[str, int | float | str] = dict(self._recordings.facts if self._recordings else {})
        if self._recordings:
            facts |= reference_facts(self._recordings, self.recipe)
        with torch.device("meta"):
            model = self.build()
        facts["encoder parameters"] = sum(parameter.numel() for parameter in model.encoder.parameters())
        facts["decoder parameters"] = sum(parameter.numel() for parameter in model.decoder.parameters())
        # An LSTM takes its symbols one after the other even when all of them are given.
        facts["sequential steps of the decoder in training"] = (
            self.letters()["T"] if self.recipe.decoder == "lstm" else 1
        )
        return facts

    def letters(self) -> dict[str, int]:
        own = {"X": self._assets["frames"], "T": self._assets["length"]}
        return {**subject(self.recipe).sizes, **own}

    def units(self) -> int:
        return self.recipe.batch_size

    @classmethod
    def subject(cls, recipe: Recipe) -> CostSubject:
        return subject(_own(recipe))

    def cost_notes(self) -> Sequence[str]:
        frames, symbols = self._assets["frames"], self._assets["length"]
        return [
            f"Counted is an example as long as the longest of train: {frames:,} frames, {symbols:,} symbols. "
            "Shorter ones compute less, so a training makes fewer FLOPs a second than shown."
        ]

    def published(self) -> dict[str, dict[str, float]]:
        sizes = {split: len(utterances) for split, utterances in self.recordings.splits.items()}
        comparable = sizes == PUBLISHED_SPLIT and self.recipe.scoring == "published"
        return PUBLISHED.get(self.recipe.name, {}) if comparable else {}

    def baselines(self) -> dict[str, dict[str, dict[str, float]]]:
        texts = {split: [example.text for example in self.examples(split)] for split in self.splits}
        features = {split: [example.features[0] for example in self.examples(split)] for split in self.splits}
        return baseline_metrics(texts, self.vocabulary, features)

    def baseline_notes(self) -> Sequence[str]:
        return baseline_notes({split: len(self.recordings.splits[split]) for split in self.splits})

    def baselines_key(self) -> Hashable:
        # Transcripts of train are guessed and its recordings compared as the recipe cuts and perturbs them.
        recipe = self.recipe
        return super().baselines_key(), recipe.features, recipe.max_target_length, recipe.speed_perturb

    def limit(self) -> dict[str, dict[str, float]]:
        return {split: {"loss": lowest_loss(self.recipe, len(SYMBOLS))} for split in self.splits}


def reference_facts(recordings: Recordings, recipe: SpeechRecipe) -> dict[str, str]:
    """What of the transcripts the model cannot read or write, and how that is scored."""
    whole, longest = recipe.scoring == "whole", recipe.max_target_length
    missed = "counted as errors" if whole else "not scored"
    facts: dict[str, str] = {}
    for split, utterances in recordings.splits.items():
        texts = [utterance.text for utterance in utterances]
        scored = f"cut in training and {missed}" if split == "train" else missed
        if cut := [text for text in texts if len(text) > longest]:
            lost = sum(len(text) - longest for text in cut) / sum(map(len, texts))
            facts[f"{split} texts beyond {longest} characters"] = (
                f"{len(cut)} of {len(texts)}, {lost:.1%} of all characters, {scored}"
            )
        kept = texts if whole else [text[:longest] for text in texts]
        if unknown := sum(unknown_characters(kept).values()):
            meaning = "counted as errors" if whole else "one symbol for all"
            facts[f"{split} characters outside the alphabet"] = f"{unknown} of {sum(map(len, kept))}, {meaning}"
    if any("characters" in name for name in facts):
        facts["scored against"] = "whole transcripts" if whole else "cut transcripts, as published"
    return facts


def _own(recipe: Recipe) -> SpeechRecipe:
    assert isinstance(recipe, SpeechRecipe)
    return recipe


def _own_model(model: nn.Module) -> SpeechModel:
    assert isinstance(model, SpeechModel)
    return model
