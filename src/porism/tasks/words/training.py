"""Negative sampling by the kernels: a piece of text at a time, the model changed where it lies."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.layers.skipgram import SkipGram
from porism.layers.skipgram.training import Trainer, padded
from porism.tasks.words.recipes import WordsRecipe
from porism.training.task import Batch, Carry, Step

LAST_RATE = 1 / 250
"""Of the first rate, where it falls linearly; word2vec goes from 0.025 to 0.0001."""


def kernel_step(model: SkipGram, recipe: WordsRecipe, frequencies: NDArray[np.int64], words: int) -> Step:
    """Trains on a batch of `Pass`. From here on the model's vectors are the trainer's. words: of a pass."""
    trainer = Trainer(
        words=padded(model.words.detach()),
        contexts=padded(model.contexts.detach()),
        width=model.width,
        frequencies=frequencies,
        total=recipe.epochs * words,
        window=recipe.window,
        negatives=recipe.negatives,
        sample=recipe.sample,
        rate=recipe.learning_rate,
        last_rate=recipe.learning_rate * (LAST_RATE if recipe.schedule == "linear" else 1),
        seed=torch.initial_seed(),
        threads=torch.get_num_threads(),
        deterministic=recipe.deterministic,
    )
    # Views: what the kernels change is what is evaluated and saved.
    model.words.data = trainer.words[:, : model.width]
    model.contexts.data = trainer.contexts[:, : model.width]

    def step(batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        tokens, place = batch
        trainer.done = int(place[0])
        progress = trainer.train(tokens)
        return torch.tensor(progress.loss if progress.pairs else 0.0, dtype=torch.float64), carry

    return step
