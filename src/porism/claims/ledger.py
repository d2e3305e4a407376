"""All claims, by id. Each topic is a module or a folder of `topics/` whose CLAIMS are listed here."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path

from porism.claims.claim import Statement
from porism.errors import ClaimError, RecipeError, nearest
from porism.training.own_code import module_of_file, why_not

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
def all_claims() -> dict[str, Statement]:
    """
    >>> all_claims()["000-24"].verdict
    'wrong'
    """
    claims = [claim for topic in TOPICS for claim in import_module(f"porism.claims.topics.{topic}").CLAIMS]
    return _by_id(claims, "the ledger")


def select(claims: Mapping[str, Statement], topic: str | None = None, number: str | None = None) -> list[Statement]:
    """The claims of a topic, of a number, or all. The number of a statement that is listed in parts means all of them.

    >>> [claim.id for claim in select(all_claims(), number="003-39")]
    ['003-39a', '003-39b']
    """
    topics = list(dict.fromkeys(claim.topic for claim in claims.values()))
    if topic is not None and topic not in topics:
        raise RecipeError(f"the ledger has no topic {topic!r}. {nearest(topic, topics)}")
    chosen = [claim for claim in claims.values() if number is None or number in (claim.id, claim.id.rstrip("abc"))]
    if not chosen:
        raise RecipeError(f"the ledger has no claim {number!r}. {nearest(str(number), list(claims))}")
    return [claim for claim in chosen if topic in (None, claim.topic)]


def read_ledger(path: Path) -> dict[str, Statement]:
    """The claims of a Python file of your own, which holds them as CLAIMS."""
    if not path.is_file():
        raise ClaimError(f"{path}: there is no such file. Give a Python file that holds CLAIMS.")
    if path.suffix != ".py":
        raise ClaimError(f"{path}: not a Python file. Give one that holds CLAIMS, with the suffix .py.")
    try:
        module = module_of_file(path)
    except (Exception, SystemExit) as error:
        raise ClaimError(f"{path}: cannot be run: {why_not(error)}") from error
    claims = getattr(module, "CLAIMS", ())
    if not isinstance(claims, (list, tuple)) or not claims or not all(isinstance(claim, Statement) for claim in claims):
        raise ClaimError(f"{path}: holds no CLAIMS, expected a list of Claim and Empirical. See docs/claims.md.")
    return _by_id(claims, str(path))


def _by_id(claims: Iterable[Statement], place: str) -> dict[str, Statement]:
    ordered = sorted(claims, key=lambda claim: claim.id)
    for number, same in groupby(ordered, key=lambda claim: claim.id):
        if len(list(same)) > 1:
            raise ClaimError(f"{place} has claim {number} twice. Give one of them another id.")
    return {claim.id: claim for claim in ordered}
