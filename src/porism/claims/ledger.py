"""All claims, by id. Each topic is a module or a folder of `topics/` whose CLAIMS are listed here."""

from functools import cache
from importlib import import_module
from itertools import groupby

from porism.claims.claim import Statement
from porism.errors import ClaimError

TOPICS = {
    "recurrent": "Recurrent language models: gradients and perplexity",
    "attention": "Attention: parameters and operations",
    "series": "Attention by a series: features, errors, order of products",
    "windows": "Attention within windows",
    "graphs": "Graph convolutions: normalising a graph",
    "images": "Images: pooling, strides, and a recurrent net on a grid",
    "speech": "Speech: decoders and similarities",
    "words": "Skip-gram: gradients, and estimates of them",
}
"""A topic's name, which is its module in `topics`, and what it is about."""


@cache
def ledger() -> dict[str, Statement]:
    """
    >>> ledger()["000-24"].verdict
    'wrong'
    """
    claims = [claim for topic in TOPICS for claim in import_module(f"porism.claims.topics.{topic}").CLAIMS]
    claims.sort(key=lambda claim: claim.id)
    for number, same in groupby(claims, key=lambda claim: claim.id):
        if len(list(same)) > 1:
            raise ClaimError(f"the ledger has claim {number} twice. Give one of them another id.")
    return {claim.id: claim for claim in claims}
