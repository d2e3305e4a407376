"""The reviews that `--data` knows by name. Imports no torch, so that a list of them comes at once."""

from porism.tasks.blocks.download import DataSet

CATALOGUE = {
    "synthetic": DataSet("5,500 sentences of a small grammar, nobody's reviews: the default", "none needed"),
}
"""Reviews known by name. Anything else is a path."""
