"""Skip-gram: word vectors that predict the words around them, by the softmax itself or by one of its estimates."""

from porism.layers.skipgram.functional import sampled_loss, skipgram
from porism.layers.skipgram.layer import SkipGram

__all__ = ["SkipGram", "sampled_loss", "skipgram"]
