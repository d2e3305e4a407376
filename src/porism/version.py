"""The version, in a file that imports nothing: every room may read it, also in a source tree that is not installed."""

__version__ = "0.1.0"
