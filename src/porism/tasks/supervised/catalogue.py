"""The data that `--data` knows by name. Imports no torch, so that a list of them comes at once."""

from porism.tasks.blocks.download import DataSet

CATALOGUE = {"rings": DataSet("600 points of three rings, which no line tells apart: the default", "none needed")}
"""Data known by name. Anything else is a path."""
