"""Tables of word vectors, and scores over a vocabulary."""

from torch import nn

from counter_cases.case import Case, call
from counter_cases.inputs import asking, words
from counter_cases.models import SkipGram, Tied
from counter_cases.products import projected
from porism.costing.alphabet import B, D, H, K, T, V
from porism.layers import Readout

VOCABULARY = [
    Case(
        "EmbeddingBag, weighted",
        lambda V, D, B, T: call(nn.EmbeddingBag(V, D, mode="sum"), words(V, B, T), per_sample_weights=asking(B, T)),
        # A multiply-add for each number of each row; back, one for the table and one for the weights.
        2 * B * T * D,
        4 * B * T * D,
    ),
    Case("tied embedding and readout", lambda V, D, B, T: call(Tied(V, D), words(V, B, T)), *projected(T, D, V)),
    Case(
        "skip-gram, K negatives",
        lambda V, D, B, K: call(SkipGram(V, D), words(V, B), words(V, B), words(V, B, K)),
        2 * B * D * (1 + K),
        4 * B * D * (1 + K),
    ),
    Case("Readout", lambda T, B, H, V: call(Readout(H, V), asking(T, B, H)), *projected(T, H, V)),
    Case(
        "Readout with its loss",
        lambda T, B, H, V: call(Readout(H, V).loss, asking(T, B, H), words(V, T, B)),
        # The gradients are made in the forward pass, the bias's by a product with ones. They count as backward.
        projected(T, H, V)[0],
        2 * projected(T, H, V)[0] + 2 * B * T * V,
    ),
]
