"""Templates that were compiled once, kept in the cache folder: to compile those of a report takes as long as to train
a small model for some epochs.

A file is named for all that decides what it holds: the template's text, and the versions of Jinja and of Python.
"""

import sys
from base64 import b64decode, b64encode
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

from porism.errors import RunError
from porism.files import cache_folder, read_kept, sha256_of_json, write_kept

FOLDER = "templates"
MOST_KEPT = 100
"""Files of about 10 kB each; reports and the page in a browser have half as many templates."""


class CompiledTemplates(BytecodeCache):
    """Where Jinja looks for a compiled template before it compiles one.

    Where the folder cannot be read or written, or a file is damaged, templates are compiled as if none were kept.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError, ValueError):
            if (kept := read_kept(_file(bucket))) is not None:
                bucket.bytecode_from_string(b64decode(kept))

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError, RunError):
            write_kept(_file(bucket), b64encode(bucket.bytecode_to_string()).decode(), MOST_KEPT)


def _file(bucket: Bucket) -> Path:
    # The text alone, not where it lies: an installation in another folder has the same templates.
    return cache_folder() / FOLDER / f"{sha256_of_json({'text': bucket.checksum, **_compilers()})}.json"


@cache
def _compilers() -> dict[str, str]:
    return {"jinja2": version("jinja2"), "python": sys.version}
