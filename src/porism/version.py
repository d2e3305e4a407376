"""The version, in a file that imports nothing: every room may read it, and a source tree needs no installation to know."""

__version__ = "0.1.0"
