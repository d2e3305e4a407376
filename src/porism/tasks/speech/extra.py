"""The packages that the extra `audio` brings, imported when they are needed."""

from importlib import import_module
from types import ModuleType

from porism.errors import MissingExtra


def of_audio(name: str, what: str) -> ModuleType:
    """A package of the extra, or a message that names it.

    >>> of_audio("soundfile", "recordings").available_formats()["FLAC"]         # doctest: +SKIP
    'FLAC (Free Lossless Audio Codec)'
    """
    try:
        return import_module(name)
    except (ImportError, OSError):  # soundfile may be there, and the library it wraps may not
        package = name.partition(".")[0]
        raise MissingExtra(f'{what} need {package}, which is not installed: pip install "porism[audio]"') from None
