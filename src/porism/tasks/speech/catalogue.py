"""The recordings that `--data` knows by name. Imports no torch, so that a list of them comes at once."""

from porism.tasks.blocks.download import DataSet, PublicFile

NAME = "spoken"

PUBLIC = {
    "ljspeech": DataSet(
        about="LJ Speech 1.1: 13,100 clips of one reader, 24 hours",
        licence="public domain",
        files={
            "all": PublicFile(
                "ljspeech/LJSpeech-1.1.tar.bz2",
                "https://data.keithito.com/data/speech/LJSpeech-1.1.tar.bz2",
                sha256="be1a30453f28eb8dd26af4101ae40cbf2c50413b1bb21936cbcdc6fae3de8aa5",
            )
        },
    )
}

CATALOGUE = {
    NAME: DataSet("sentences of a small grammar, spoken by espeak-ng in several voices: the default", "none needed"),
    **PUBLIC,
}
"""Recordings known by name. Anything else is a path."""
