"""Checkpoints: tensors as safetensors, everything else as JSON, each file with its sha256. No pickle.

A checkpoint is a folder that appears whole or not at all: it is written under a temporary name, synced and renamed. The
one before it stays as `NAME.previous`, so at every moment at least one good checkpoint is on the disk, under one of the
three names. Which of them are good is known by their checksums, and whether porism made them by what they hold.
"""

import errno
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from porism.errors import RunError, one_line
from porism.files import (
    LITTER,
    cannot_write,
    copy_synced,
    read_bytes,
    sha256,
    sha256_of_file,
    sha256_of_json,
    sync_folder,
    temporary,
    write_synced,
)
from porism.runs.checkpoint_state import STATE, candidates, previous_of, read_state

Parts = Mapping[str, Mapping[str, Tensor]]
Pieces = Sequence[bytes | memoryview]
"""The content of a file, piece after piece."""
Files = Mapping[str, Collection[str]]
"""The names of a checkpoint's files, and of the tensors in each."""
MODEL = "model.safetensors"
OPENING = b'{\n "state": {'
"""How every state.json begins."""
DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.complex64: "C64",
}
"""What safetensors calls them."""


@dataclass(frozen=True)
class Checkpoint:
    """What a folder held: the named groups of tensors, the named documents, and the plain state."""

    folder: Path
    parts: dict[str, dict[str, Tensor]]
    documents: dict[str, Any]
    state: dict[str, Any]


Check = Callable[[Checkpoint], None]
"""Raises RunError where a checkpoint, whole as it may be, is not the one that is looked for."""


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint that is still to be written, its tensors in memory that nothing else changes.

    >>> taken = snapshot(folder, parts, state)      # the model may learn on
    >>> taken.save()                                # also in another thread
    """

    folder: Path
    state: Mapping[str, Any]
    documents: Mapping[str, Any]
    """Of the data, so that training does not change them."""
    tensor_files: Mapping[str, Pieces]
    made_here: Files

    def save(self) -> None:
        """Write it so that `folder` is either the old checkpoint or the whole new one."""
        folder, made_here, writing = self.folder, self.made_here, temporary(self.folder)
        contents = dict(self.tensor_files)
        contents |= {f"{name}.json": [json.dumps(content).encode()] for name, content in self.documents.items()}
        body = {"state": self.state, "files": {name: sha256(*pieces) for name, pieces in contents.items()}}
        # First, so that a folder of ours can be distinguished from others however little of it was written.
        sealed = json.dumps({**body, "sha256": sha256_of_json(body)}, indent=1).encode()
        contents = {STATE: [sealed]} | contents
        size = sum(len(piece) for pieces in contents.values() for piece in pieces)
        try:
            if _is_whole(writing):
                _put_in_place(writing, folder, made_here)
            _discard(writing, made_here)
        except OSError as error:
            raise cannot_write(folder, error, size) from error
        try:
            # Not its parents: a run that was moved while it trains would go on in two places.
            writing.mkdir()
            for name, pieces in contents.items():
                write_synced(writing / name, *pieces)
            sync_folder(writing)
        except OSError as error:
            refusal = cannot_write(folder, error, size)
            with suppress(OSError):
                _discard(writing, made_here)
            raise refusal from error
        try:
            _put_in_place(writing, folder, made_here)
        except OSError as error:
            raise cannot_write(folder, error, size) from error


def snapshot(
    folder: Path, parts: Parts, state: Mapping[str, Any], documents: Mapping[str, Any] | None = None
) -> Snapshot:
    """A checkpoint of this moment, its tensors copied into the computer's memory."""
    documents = documents or {}
    files = {f"{name}.safetensors": _tensor_file(tensors) for name, tensors in parts.items()}
    return Snapshot(folder, dict(state), documents, files, files_of(parts, documents))


def save(folder: Path, parts: Parts, state: Mapping[str, Any], documents: Mapping[str, Any] | None = None) -> None:
    """Write a checkpoint so that `folder` is either the old one or the whole new one."""
    snapshot(folder, parts, state, documents).save()


def files_of(parts: Parts, documents: Mapping[str, Any]) -> Files:
    """The files that `save` makes of these."""
    tensors = {f"{name}.safetensors": tuple(part) for name, part in parts.items()}
    return {STATE: (), **tensors, **{f"{name}.json": () for name in documents}}


def refuse_foreign(folder: Path, made_here: Files) -> None:
    """Refuse to go on where a folder of one of the three names is not a checkpoint that porism wrote."""
    try:
        for place in candidates(folder):
            _refuse_foreign(place, made_here)
    except OSError as error:
        raise cannot_write(folder, error, 0) from error


def load(folder: Path, check: Check | None = None) -> tuple[Checkpoint, str | None]:
    """The newest good checkpoint, and a sentence for the user when that is not the one under the name itself.

    check: what else a checkpoint must be to be taken.
    """
    writing, previous = temporary(folder), previous_of(folder)
    if (newer := _try(writing, check)) is not None:
        damage = _reason(folder, check)
        return newer, f"{damage} Using the newer one, {writing}." if damage else f"Using {writing}, saved whole."
    try:
        return _checked(folder, check), None
    except RunError as error:
        if (older := _try(previous, check)) is None:
            raise
        return older, f"{error} Using the one before it, {previous}."


def promote(taken: Checkpoint, folder: Path) -> None:
    """Give a checkpoint that `load` found the name itself, so that what is saved next replaces no better one."""
    made_here = files_of(taken.parts, taken.documents)
    try:
        if taken.folder == temporary(folder):
            _put_in_place(taken.folder, folder, made_here)
        elif taken.folder != folder:
            _discard(folder, made_here)
            _move(taken.folder, folder, made_here)
            sync_folder(folder.parent)
        # What a stop left half-way is out of date by now, be it whole or torn.
        _discard(temporary(folder), made_here)
    except OSError as error:
        raise cannot_write(folder, error, 0) from error


def exists(folder: Path) -> bool:
    """Whether there is anything to load."""
    return folder.exists() or previous_of(folder).exists() or _is_good(temporary(folder))


def read(folder: Path) -> Checkpoint:
    """One checkpoint, every file of it checked."""
    sealed = read_state(folder / STATE)
    parts, documents = {}, {}
    for name, expected in sealed.files.items():
        content = read_bytes(folder / name)
        if (found := sha256(content)) != expected:
            raise RunError(f"{folder / name} is damaged: its sha256 begins {found[:12]}, {expected[:12]} was written.")
        stem, _, kind = name.partition(".")
        try:
            if kind == "json":
                documents[stem] = json.loads(content)
            else:
                parts[stem] = load_tensors(content)
        except (ValueError, RecursionError, SafetensorError) as error:
            # A right checksum says who wrote it, not what it is.
            raise RunError(f"{folder / name} is no file of a checkpoint: {one_line(error)}.") from error
    return Checkpoint(folder, parts, documents, sealed.state)


def first_not_finite(tensors: Mapping[str, Tensor], parameters: Collection[str] = ()) -> str | None:
    """The name of a tensor that no training can go on from: one that holds NaN, or a parameter that is infinite.

    Infinity is no fault elsewhere: a mask is often made of it, and so is the memory of an optimizer that overflowed.
    """
    for name, tensor in tensors.items():
        if (tensor.is_floating_point() or tensor.is_complex()) and not _has_finite_sum(tensor):
            sound = torch.isfinite(tensor) if name in parameters else ~torch.isnan(tensor)
            if not bool(sound.all()):
                return name
    return None


def _has_finite_sum(tensor: Tensor) -> bool:
    """Whether no number is NaN or infinite, by a sum: a fraction of what it costs to ask each. False where one may be.

    A sum of finite numbers may overflow, and of those of 8 bits torch has none.
    """
    return tensor.itemsize > 1 and bool(torch.isfinite(tensor.detach().sum()))


def _put_in_place(writing: Path, folder: Path, made_here: Files) -> None:
    """Rename. At every moment `writing`, or what it has become, is whole."""
    previous = previous_of(folder)
    for place in (folder, previous):
        _refuse_foreign(place, made_here)
    if _is_whole(folder):
        _discard(previous, made_here)
        _move(folder, previous, made_here)
    else:
        # Over the one before it, a damaged one would take the place of a good one.
        _discard(folder, made_here)
    _move(writing, folder, made_here)
    sync_folder(folder.parent)


def _move(folder: Path, target: Path, made_here: Files) -> None:
    """Rename a checkpoint, or copy it where the file system renames no folders.

    In a container, that is one that came with its image. The copy is whole before anything is deleted.
    """
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        target.mkdir()
        # First what tells that it is ours, as in `save`.
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name != STATE):
            copy_synced(entry, target / entry.name)
        sync_folder(target)
        _discard(folder, made_here)


def _discard(folder: Path, made_here: Files) -> None:
    """Delete a checkpoint of ours; what tells that it is ours goes last."""
    _refuse_foreign(folder, made_here)
    if not folder.exists():
        return
    for entry in sorted(folder.iterdir(), key=lambda entry: (entry.name == STATE, entry.name == MODEL)):
        entry.unlink()
    folder.rmdir()


def _refuse_foreign(folder: Path, made_here: Files) -> None:
    if not folder.is_symlink() and not folder.exists():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise RunError(f"{folder} is not a checkpoint that porism wrote, but a link or a file. Move it elsewhere.")
    entries = [entry for entry in folder.iterdir() if entry.name not in LITTER]
    known = _file_names(folder) or set(made_here)
    foreign = sorted(entry.name for entry in entries if entry.name not in known or not _is_plain_file(entry))
    if foreign:
        raise RunError(f"{folder} holds {foreign[0]}, which porism did not write there. Move it elsewhere.")
    if not (_begins_as_ours(folder / STATE) or _holds(folder / MODEL, made_here) or _is_empty(entries)):
        raise RunError(f"{folder} is not a checkpoint that porism wrote. Move it elsewhere.")


def _file_names(folder: Path) -> set[str]:
    """The names that an unaltered state.json gives, none otherwise."""
    try:
        return {STATE, *read_state(folder / STATE).files}
    except RunError:
        return set()


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_empty(files: Collection[Path]) -> bool:
    return all(file.stat().st_size == 0 for file in files)


def _begins_as_ours(path: Path) -> bool:
    """Whether a state.json, torn as it may be, is one that `save` wrote."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        beginning = file.read(len(OPENING))
    return bool(beginning) and OPENING.startswith(beginning)


def _holds(path: Path, made_here: Files) -> bool:
    """Whether a file has the tensors of the model that is saved here, by their names."""
    expected = made_here.get(MODEL, ())
    if not expected or not path.is_file():
        return False
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length) if length <= path.stat().st_size else b""
    try:
        return set(json.loads(header)) - {"__metadata__"} == set(expected)
    except (ValueError, TypeError, RecursionError):
        return False


def _is_whole(folder: Path) -> bool:
    """Whether every file is what was written, without holding a second checkpoint in memory while one is saved."""
    try:
        files = read_state(folder / STATE).files
        return all(sha256_of_file(folder / name) == expected for name, expected in files.items())
    except (RunError, OSError):
        return False


def _is_good(folder: Path) -> bool:
    return _try(folder, None) is not None


def _try(folder: Path, check: Check | None) -> Checkpoint | None:
    try:
        return _checked(folder, check)
    except RunError:
        return None


def _reason(folder: Path, check: Check | None) -> str | None:
    """Why a checkpoint that is there cannot be taken."""
    try:
        _checked(folder, check)
    except RunError as error:
        return str(error) if folder.exists() else None
    return None


def _checked(folder: Path, check: Check | None) -> Checkpoint:
    found = read(folder)
    if name := first_not_finite(found.parts.get("model", {})):
        raise RunError(f"{folder} cannot be used: {name} of its model holds NaN.")
    if check is not None:
        check(found)
    return found


def _tensor_file(tensors: Mapping[str, Tensor]) -> Pieces:
    """A file of safetensors: a header of names, types, shapes and places, then the numbers of each tensor, copied.

    safetensors itself makes one text of bytes of it, in twice the memory, and lets no other thread run meanwhile.
    """
    header: dict[str, Any] = {}
    numbers: list[memoryview] = []
    start = 0
    # The widest first, so that each begins at a multiple of its width.
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])):
        if tensor.dtype not in DTYPES:
            raise RunError(f"{name} is of {tensor.dtype}, which no checkpoint holds: safetensors has no name for it.")
        copy = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        numbers.append(copy.reshape(-1).view(torch.uint8).numpy().data)
        end = start + copy.nbytes
        header[name] = {"dtype": DTYPES[copy.dtype], "shape": list(copy.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *numbers]


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
    """Put a checkpoint's parameters into a model, every name, shape and number checked."""
    try:
        tensors = dict(checkpoint.parts["model"])
        tensors.update({name: tensors[first] for name, first in checkpoint.state["aliases"].items()})
    except (KeyError, AttributeError, TypeError) as error:
        raise RunError(f"{checkpoint.folder} is not a checkpoint of a model: it has no {error}.") from error
    if name := first_not_finite(tensors, dict(model.named_parameters())):
        raise RunError(f"{checkpoint.folder} cannot be used: {name} is not finite.")
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise RunError(f"{checkpoint.folder} does not fit the model of its recipe: {detail}") from error
