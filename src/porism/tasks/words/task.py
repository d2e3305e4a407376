"""The words task: word vectors by skip-gram."""

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from porism.costing.subject import CostSubject
from porism.errors import DataError, advise, fields
from porism.layers.skipgram import SkipGram
from porism.layers.skipgram.noise import Noise
from porism.runs.example_scores import ExampleScores
from porism.runs.exhibits import AnyExhibit, Table
from porism.runs.recipe import Recipe
from porism.runs.tuning import Space
from porism.tasks.blocks.threads import one_thread
from porism.tasks.words.baselines import GensimVectors, WordsData, baseline_metrics, baseline_notes, begin_gensim
from porism.tasks.words.data import help_load_corpus, load_corpus
from porism.tasks.words.data.batches import (
    Chunks,
    CorpusPass,
    Pairs,
    Sampling,
    draw_pairs,
    part_of_chunk,
    seeded_generator,
)
from porism.tasks.words.data.corpus import ReadingOptions, StreamedCorpus
from porism.tasks.words.data.evaluation_sets import checksum, evaluate
from porism.tasks.words.data.vocabulary import WordCounts
from porism.tasks.words.exhibits.estimators import EstimationError, estimation_errors, table
from porism.tasks.words.exhibits.word_map import word_map
from porism.tasks.words.metric import cross_entropy, measure, pair_losses
from porism.tasks.words.model.base import build, noise_of
from porism.tasks.words.model.cost import pairs_a_word, subject, work_notes
from porism.tasks.words.model.trainer import KernelStep, kept_share
from porism.tasks.words.predict import answer
from porism.tasks.words.recipes import DEFAULT, EXPERIMENTS, RECIPES, WordsRecipe
from porism.tasks.words.tuning import SPACE
from porism.training.distributed.processes import Processes
from porism.training.experiment import Experiment
from porism.training.task import Batch, Carry, Prediction, Step, Task, loaded, part_of

SEED = 0
"""Of the pairs that are held out: the same for every model."""
MOST_PAIRS, MOST_SCORES = 2**13, 2**27
"""Held-out pairs that are measured, and their scores with all words: measuring must not outlast training."""
ERROR_PAIRS = 24
"""Pairs on which estimates are compared with the exact gradient."""
SHOWN = 4
"""Words whose neighbours are shown, and three times as many in the report's table."""
FREQUENT = 1000
"""They are taken evenly from so many."""
PASSAGE = 50
"""Words whose pairs are resampled together."""
EXACT = ("full", "uniform", "importance")
"""Estimators whose loss is that of the softmax."""


class Words(Task):
    """Skip-gram on a text of any size.

    >>> task = Words.load(RECIPES["skipgram"], None)      # the embedded text
    >>> model = task.build()
    """

    name: ClassVar[str] = "words"
    unit: ClassVar[str] = "words"
    metric = "cross_entropy"
    lower_is_better = True
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    default_recipe: ClassVar[str] = DEFAULT
    tunable: ClassVar[Space] = SPACE
    experiments: ClassVar[Mapping[str, Experiment]] = EXPERIMENTS

    def __init__(self, recipe: WordsRecipe, vocabulary: WordCounts, corpus: StreamedCorpus | None = None) -> None:
        self.recipe: WordsRecipe = recipe
        self.vocabulary = vocabulary
        self._corpus = corpus
        self._held: dict[str, Tensor] = {}
        self._gensim: Future[GensimVectors] | None = None

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        own = _own(recipe)
        if own.evaluation_data is not None and not Path(own.evaluation_data).is_dir():
            raise DataError(
                f"{own.evaluation_data}: no such folder. Give evaluation_data a folder with wordsim353.tsv in it."
            )
        reading = ReadingOptions(
            own.lowercase, own.min_count, round(1 / own.validation_split), own.batch_size, own.max_memory_mib
        )
        corpus = load_corpus(source, reading, own.tokenizer)
        task = cls(own, corpus.vocabulary, corpus)
        for split in ("valid", "test"):
            if not len(task._pairs(split)):
                raise DataError(
                    f"{corpus.name}: no pair of known words in what is held out for {split}.",
                    advise("Give more text, or hold out more with {}.", fields(validation_split=0.1)),
                )
        # Now, since of the processes of a machine one loads before the others, which find it in the cache folder.
        task._chunks  # noqa: B018
        return task

    @classmethod
    def help_load(cls, processes: Processes, request: Mapping[str, Any]) -> None:
        help_load_corpus(processes, request)

    @classmethod
    def restore(cls, recipe: Recipe, assets: Mapping[str, Any]) -> Self:
        return cls(_own(recipe), WordCounts.from_json(assets["vocabulary"]))

    @property
    def corpus(self) -> StreamedCorpus:
        return loaded(self._corpus)

    def assets(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary.to_json()}

    def fingerprint(self) -> str:
        return self.corpus.fingerprint

    def evaluation_id(self) -> str:
        # Vocabulary, window and subsampling decide which pairs are scored, and among how many words.
        digest = hashlib.sha256(f"{self.fingerprint()} {self.vocabulary.sha256()}".encode())
        for split in ("valid", "test"):
            digest.update(self._pairs(split).numpy().astype("<i8").tobytes())
        return digest.hexdigest()

    def build(self) -> SkipGram:
        return build(self.recipe, self.vocabulary.frequencies)

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        if self.recipe.by_kernel:
            return CorpusPass(self._chunks, (epoch - 1) * self.corpus.words)
        return Pairs(self._chunks, self._keep, self.recipe.window, (seed, epoch), self._sampling)

    def start(self, model: nn.Module) -> Carry:
        return {}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        net = _own_model(model)
        negatives: list[Tensor] = []
        if len(batch) == 2:
            tokens, position = batch
            pairs = draw_pairs(tokens.cpu(), self._keep, self.recipe.window, seeded_generator(SEED, int(position[0])))
            words, contexts = pairs.to(tokens.device).T
        else:
            words, contexts, *negatives, _ = batch
        if not len(words):
            # A chunk without a pair has no gradient.
            return 0 * (net.weight.sum() + net.context_weight.sum()), carry
        loss: Tensor = net(words, contexts, *negatives)
        return loss, carry

    def step(self, model: nn.Module) -> Step | None:
        if not self.recipe.by_kernel:
            return None
        return KernelStep(_own_model(model), self.recipe, self.vocabulary.frequencies, self.corpus.words)

    def example_dim(self) -> int:
        return 0

    def part(self, batch: Batch, rank: int, size: int) -> Batch:
        if self.recipe.by_kernel:
            return part_of_chunk(batch, rank, size)
        *pairs, position = batch
        return *(part_of(x, 0, rank, size) for x in pairs), position

    def loss_weight(self, batch: Batch) -> float:
        # Of a chunk the words that are known, of pairs the pairs: a chunk's position counts unknown words too.
        return int((batch[0] >= 0).sum())

    def caution(self, device: str, threads: int) -> str:
        if not self.recipe.by_kernel or self.recipe.deterministic or (device == "cpu" and threads == 1):
            return ""
        return (
            "two runs of one seed have different vectors, at about the same loss, since threads update the same "
            "vectors without waiting for one another. The same bits come of threads=1 or deterministic=true on a CPU."
        )

    def count(self, batch: Batch) -> int:
        return int(batch[-1][1])

    def training_metrics(self, loss: float) -> dict[str, float]:
        return {"cross_entropy" if self.recipe.estimator in EXACT else "loss": loss}

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        net, pairs = _own_model(model), self._pairs(split)
        metrics = {"cross_entropy": cross_entropy(net, pairs)}
        if self.recipe.estimator == "negative":
            metrics |= measure(net.weight, net.context_weight, pairs, net.noise, self.recipe.negative)
        if split == "test" and self.recipe.evaluation_data is not None:
            metrics |= evaluate(Path(self.recipe.evaluation_data), self.vocabulary.words, net.weight.cpu()).metrics()
        if split == "test" and not self.recipe.by_kernel:
            error = next(error for error in self._errors(net) if error.estimator == self.recipe.estimator)
            metrics |= {"gradient_bias": error.bias, "gradient_deviation": error.deviation}
        return metrics

    def example_scores(self, model: nn.Module, split: str) -> ExampleScores:
        # Pairs of one sentence are not independent: passages of text are more nearly so.
        losses = pair_losses(_own_model(model), self._pairs(split)).cpu()
        passages = self._held_pairs(split)[:, 2] // PASSAGE
        sums, counts = (torch.bincount(passages, weights) for weights in (losses, torch.ones_like(losses)))
        return ExampleScores(
            metric=self.metric,
            unit=f"passage of {PASSAGE} words",
            numerators=sums[counts > 0].tolist(),
            denominators=counts[counts > 0].tolist(),
        )

    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        return answer(_vectors(model), self.vocabulary.words, inputs, options)

    def show(self, model: nn.Module) -> list[Prediction]:
        return self.predict(model, self._some_words(SHOWN), {"count": 8})

    def exhibits(self, model: nn.Module) -> list[AnyExhibit]:
        net, vectors, words = _own_model(model), _vectors(model), self.vocabulary.words
        # Each takes half a second of one thread, and neither needs what the other does.
        with one_thread(), ThreadPoolExecutor(1) as aside:
            drawn = aside.submit(word_map, vectors, words)
            errors = self._errors(net)
        shown: list[AnyExhibit] = [drawn.result(), self._neighbours(model)]
        if self.recipe.evaluation_data is not None:
            shown += evaluate(Path(self.recipe.evaluation_data), words, vectors).tables()
        return [*shown, table(errors)]

    def facts(self) -> dict[str, int | float | str]:
        corpus = self.corpus
        facts: dict[str, int | float | str] = {
            "tokenizer": corpus.reading.tokenizer + (", in lower case" if corpus.reading.lower else ""),
            "words": corpus.words,
            "vocabulary": len(self.vocabulary),
            "split": _how_split(corpus),
            "pairs scored": ", ".join(f"{len(self._pairs(split)):,} of {split}" for split in ("valid", "test")),
            **{f"words of {split} without a vector": _percent(corpus.unknown_share(split)) for split in self.splits},
            "sha256 of the vocabulary": self.vocabulary.sha256()[:12],
        }
        if corpus.pruned:
            facts["forgotten while counting"] = f"words seen {corpus.pruned} times or less, when memory was full"
        return facts

    def notes(self) -> Sequence[str]:
        facts = self.facts()
        unknown = ", ".join(f"{split} {facts[f'words of {split} without a vector']}" for split in self.splits)
        line = f"{self.corpus.words:,} words ({facts['tokenizer']}), vocabulary {len(self.vocabulary):,}; "
        notes = [f"{line}rarer than min_count={self.recipe.min_count}, and so without a vector: {unknown}"]
        if (mapped := self._chunks.mapped) is not None:
            notes.append(f"more than half of max_memory_mib={self.recipe.max_memory_mib}: trained from {mapped}")
        return notes

    def letters(self) -> dict[str, int]:
        return {"B": pairs_a_word(self.recipe), "V": len(self.vocabulary), "D": self.recipe.vector_size}

    @classmethod
    def subject(cls, recipe: Recipe) -> CostSubject:
        return subject(_own(recipe))

    def cost_notes(self) -> Sequence[str]:
        return work_notes(self.recipe)

    def begin_baselines(self) -> None:
        self._gensim = begin_gensim(self._data_of_baselines(), self.recipe)

    def baselines(self) -> dict[str, dict[str, dict[str, float]]]:
        if self._gensim is None:
            self.begin_baselines()
        begun, self._gensim = self._gensim, None
        return baseline_metrics(self._data_of_baselines(), self.recipe, begun)

    def _data_of_baselines(self) -> WordsData:
        pairs = {split: self._pairs(split) for split in ("valid", "test")}
        return WordsData(self.corpus, self._chunks, self._keep, pairs)

    def baseline_notes(self) -> Sequence[str]:
        return baseline_notes(self.corpus, self.recipe)

    def baselines_key(self) -> Hashable:
        # gensim is trained by these, and PPMI is as wide.
        recipe = self.recipe
        sets = None if recipe.evaluation_data is None else checksum(Path(recipe.evaluation_data))
        fields = (recipe.vector_size, recipe.window, recipe.negative, recipe.sample, recipe.epochs)
        return super().baselines_key(), fields, sets

    @cached_property
    def _chunks(self) -> Chunks:
        return Chunks(self.corpus)

    @cached_property
    def _keep(self) -> Tensor:
        frequencies = self.vocabulary.frequencies
        return torch.from_numpy(kept_share(frequencies / frequencies.sum(), self.recipe.sample))

    @cached_property
    def _sampling(self) -> Sampling | None:
        """What an estimate of the softmax draws for each pair."""
        if self.recipe.estimator == "full":
            return None
        return Sampling(noise_of(self.recipe, self.vocabulary.frequencies), self.recipe.negative)

    def _pairs(self, split: str) -> Tensor:
        """Some pairs of a split, (P, 2), the same for every model."""
        return self._held_pairs(split)[:, :2].contiguous()

    def _held_pairs(self, split: str) -> Tensor:
        """The same with the position of the word in the text, (P, 3)."""
        if split not in self._held:
            tokens = self._chunks[0][0] if split == "train" else torch.from_numpy(self.corpus.held_out(split))
            generator = seeded_generator(SEED, self.splits.index(split))
            pairs = draw_pairs(tokens, self._keep, self.recipe.window, generator, positions=True)
            most = min(MOST_PAIRS, MOST_SCORES // len(self.vocabulary))
            self._held[split] = pairs[torch.randperm(len(pairs), generator=generator)[:most]]
        return self._held[split]

    def _errors(self, net: SkipGram) -> list[EstimationError]:
        """The errors of every estimator's gradient on this model, with the noise that all but `uniform` draw from."""
        noise = Noise.of_frequencies(torch.from_numpy(self.vocabulary.frequencies))
        pairs = self._pairs("test")[:ERROR_PAIRS]
        return estimation_errors(net.weight, net.context_weight, noise, pairs, self.recipe.negative)

    def _some_words(self, count: int) -> list[str]:
        """Words among the most frequent that are likely to have a meaning: no short ones and no punctuation."""
        longer = [word for word in self.vocabulary.words if len(word) > 4 and word.isalpha()][:FREQUENT]
        chosen = longer or list(self.vocabulary.words)
        return chosen[:: -(-len(chosen) // count)]

    def _neighbours(self, model: nn.Module) -> Table:
        samples = self.predict(model, self._some_words(3 * SHOWN), {"count": 6})
        return Table(
            title="Most similar words",
            about="By the cosine of their vectors.",
            columns=["word", "neighbours"],
            rows=[[sample.prompt, sample.output.removeprefix("-> ")] for sample in samples],
        )


def _how_split(corpus: StreamedCorpus) -> str:
    """How valid and test were held out."""
    return f"of every {corpus.every:,} sentences one is valid and one test" if corpus.every else "as given"


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _vectors(model: nn.Module) -> Tensor:
    return _own_model(model).weight.detach().cpu()


def _own(recipe: Recipe) -> WordsRecipe:
    assert isinstance(recipe, WordsRecipe)
    return recipe


def _own_model(model: nn.Module) -> SkipGram:
    assert isinstance(model, SkipGram)
    return model
