"""The model of the words task: two vectors a word, one as a word and one as a context."""

import numpy as np
import torch
from numpy.typing import NDArray

from porism.layers.skipgram import SkipGram
from porism.layers.skipgram.noise import Noise
from porism.tasks.words.recipes import WordsRecipe


def build(recipe: WordsRecipe, frequencies: NDArray[np.int64]) -> SkipGram:
    """A new model. Its noise follows the words' frequencies; `uniform` draws all words alike."""
    counts = None if recipe.estimator == "uniform" else torch.from_numpy(frequencies)
    return SkipGram(len(frequencies), recipe.vector_size, recipe.estimator, recipe.negative, counts)


def noise_of(recipe: WordsRecipe, frequencies: NDArray[np.int64]) -> Noise:
    """The noise of a new model."""
    if recipe.estimator == "uniform":
        return Noise.uniform(len(frequencies))
    return Noise.of_frequencies(torch.from_numpy(frequencies))
