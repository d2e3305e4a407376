"""Checkpoints: tensors as safetensors, everything else as JSON, each file with its sha256. No pickle.

A checkpoint is a folder that appears whole or not at all: it is written under a temporary name, synced and renamed. The
one before it stays as `NAME.previous`, so at every moment at least one good checkpoint is on the disk.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from porism.errors import RunError

Parts = Mapping[str, Mapping[str, Tensor]]
STATE = "state.json"
FULL = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name)}
"""What a system says when a disk, a quota or a file is full; not every system knows all three."""


@dataclass(frozen=True)
class Checkpoint:
    """What a folder held: the named groups of tensors, the named documents, and the plain state."""

    folder: Path
    parts: dict[str, dict[str, Tensor]]
    documents: dict[str, Any]
    state: dict[str, Any]


def save(folder: Path, parts: Parts, state: Mapping[str, Any], documents: Mapping[str, Any] | None = None) -> None:
    """Write a checkpoint so that `folder` is either the old one or the whole new one."""
    writing = folder.with_name(f".{folder.name}.writing")
    files = {f"{name}.safetensors": save_tensors(_plain(tensors)) for name, tensors in parts.items()}
    files |= {f"{name}.json": json.dumps(content).encode() for name, content in (documents or {}).items()}
    body = {"state": dict(state), "files": {name: _digest(content) for name, content in files.items()}}
    files[STATE] = json.dumps({**body, "sha256": _digest(_canonical(body))}, indent=1).encode()
    size = sum(map(len, files.values()))
    try:
        shutil.rmtree(writing, ignore_errors=True)
        writing.mkdir(parents=True)
        for name, content in files.items():
            write_synced(writing / name, content)
        _put_in_place(writing, folder)
    except OSError as error:
        shutil.rmtree(writing, ignore_errors=True)
        raise cannot_write(folder, error, size) from error


def cannot_write(target: Path, error: OSError, size: int) -> RunError:
    """What to tell the user when the disk refuses."""
    if error.errno in FULL:
        free = shutil.disk_usage(target.parent).free
        return RunError(
            f"the disk is full: {target} needs {size:,} bytes, {free:,} are free. What was saved before is intact; "
            f"make room, then go on with: porism train --resume {target.parent}"
        )
    return RunError(f"{target} cannot be written: {error.strerror}. Choose another folder with --out.")


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that it is the old one or the whole new one."""
    writing = path.with_name(f".{path.name}.writing")
    try:
        write_synced(writing, content)
        writing.replace(path)
    except OSError as error:
        writing.unlink(missing_ok=True)
        raise cannot_write(path, error, len(content)) from error


def _put_in_place(writing: Path, folder: Path) -> None:
    previous = _previous(folder)
    if folder.exists():
        # A kill between these two renames leaves only `previous`, which `load` then takes.
        shutil.rmtree(previous, ignore_errors=True)
        folder.rename(previous)
    writing.rename(folder)
    if os.name == "posix":  # elsewhere a folder cannot be opened, and renames are synced by the file system
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load(folder: Path) -> tuple[Checkpoint, str | None]:
    """The newest good checkpoint, and a sentence for the user when that is not the newest one."""
    previous = _previous(folder)
    try:
        return read(folder), None
    except RunError as error:
        if not previous.exists():
            raise
        try:
            return read(previous), f"{error} Using the one before it, {previous}."
        except RunError:
            raise error from None


def exists(folder: Path) -> bool:
    """Whether there is anything to load."""
    return folder.exists() or _previous(folder).exists()


def read(folder: Path) -> Checkpoint:
    """One checkpoint, every file of it checked."""
    body = _read_state(folder / STATE)
    parts, documents = {}, {}
    for name, expected in body["files"].items():
        content = _read_bytes(folder / name)
        if _digest(content) != expected:
            raise RunError(
                f"{folder / name} is damaged: its sha256 begins {_digest(content)[:12]}, {expected[:12]} was written."
            )
        stem, _, kind = name.partition(".")
        if kind == "json":
            documents[stem] = json.loads(content)
        else:
            parts[stem] = load_tensors(content)
    return Checkpoint(folder, parts, documents, body["state"])


def _read_state(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_read_bytes(path))
        body = {"state": content["state"], "files": content["files"]}
        expected = content["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged: it is not the JSON that was written.") from error
    if _digest(_canonical(body)) != expected:
        raise RunError(f"{path} is damaged: its content was altered.")
    return body


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}.") from error


def _previous(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.previous")


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def model_tensors(model: torch.nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """A model's tensors, a shared one once, and for each further name of it the first name."""
    first: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in first:
            aliases[name] = first[id(tensor)]
        else:
            first[id(tensor)] = name
            tensors[name] = tensor
    return tensors, aliases


def load_model(model: torch.nn.Module, checkpoint: Checkpoint) -> None:
    """Put a checkpoint's parameters into a model, every name and shape checked."""
    tensors = dict(checkpoint.parts["model"])
    tensors.update({name: tensors[first] for name, first in checkpoint.state["aliases"].items()})
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise RunError(f"{checkpoint.folder} does not fit the model of its recipe: {detail}") from error
