"""The version, in a file without imports, so that every module may read it, also in a source tree that is not
installed."""

__version__ = "0.1.0"
