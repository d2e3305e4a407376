"""The corpora that `--data` knows by name. Imports no torch, so that a list of them comes at once."""

from porism.tasks.blocks.download import DataSet
from porism.tasks.blocks.texts import PUBLIC

CATALOGUE = {
    "manual": DataSet("the manual of Python 3.11, as help() shows it: the default", "PSF"),
    "synthetic": DataSet("made-up words in a Markov chain, whose entropy is known exactly", "none needed"),
    **PUBLIC,
}
"""Corpora known by name. Anything else is a path."""
