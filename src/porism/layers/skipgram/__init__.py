"""Skip-gram: word vectors that predict the words around them, by the softmax itself or by one of its estimates."""

from porism.layers.skipgram.layer import SkipGram, sampled_loss, skipgram

__all__ = ["SkipGram", "sampled_loss", "skipgram"]
