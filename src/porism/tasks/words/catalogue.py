"""The texts that `--data` knows by name. Imports no torch, so that a list of them comes at once."""

from porism.tasks.blocks.download import DataSet
from porism.tasks.blocks.texts import PUBLIC

NAME = "manual"

CATALOGUE = {NAME: DataSet("the manual of Python 3.11, as help() shows it: the default", "PSF"), **PUBLIC}
"""Texts known by name. Anything else is a path."""
