"""Which code computes: the checksum of its source as it was loaded, the packages it computes with, the processor.

What is kept in the cache folder is named for these, so that it holds until one of them changes.
"""

import platform
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from porism.files import sha256

SOURCES = ("layers", "tasks", "costing")
"""Folders of this package whose code decides what is kept."""
_LOADED_AT: float = import_module("porism.costing").LOADED_AT


@cache
def source_checksum() -> str | None:
    """The checksum of the code as it was loaded; None where that is not known."""
    package = Path(__file__).parent.parent
    files = sorted(path for folder in SOURCES for path in (package / folder).rglob("*.py"))
    if not files or any(path.stat().st_mtime > _LOADED_AT for path in files):
        return None  # in an archive, or edited since this process began
    return sha256(b"".join(f"{path.relative_to(package)}\n".encode() + path.read_bytes() for path in files))


@cache
def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """The versions of packages, empty where one is not installed, and the kind of processor."""
    # Which kernels a CPU runs, and so what they keep and how they round, depends on its kind.
    found = {"processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = ""
    return found
