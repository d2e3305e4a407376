"""The version, in a file without imports, so that every module may read it, also in a source tree that is not
installed. It is that of the changelog's first heading, with `.dev0` while that one is not released."""

__version__ = "0.2.0.dev0"
