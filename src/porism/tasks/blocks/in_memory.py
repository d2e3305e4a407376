"""Data that a user has in memory, in the forms that torch, numpy, scikit-learn and Hugging Face give it.

(X, y) as arrays or tensors, a Dataset, a DataLoader, a datasets.Dataset, or these by split. Whatever came, what is read
from it are examples: by their positions, so that a training can be resumed in the middle of a pass.
"""

import hashlib
import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, TensorDataset
from torch.utils.data.dataloader import default_collate

from porism.errors import DataError
from porism.tasks.blocks.texts import SPLIT_NAMES

READ_FOR_FINGERPRINT = 64
"""Examples of a Dataset that stand for all of them in its fingerprint: to read every one may take an epoch."""
Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Examples:
    """Examples of one split, by position."""

    names: tuple[str, ...] | None
    """Of the tensors of a batch where examples are dicts; None where they are tuples, the target last."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, positions: Tensor) -> Batch:
        """Some examples, as tensors with one row for each."""

    @abstractmethod
    def digest(self) -> str:
        """The sha256 of what they are."""

    @property
    def shuffles(self) -> bool:
        """Whether their order is drawn anew in each epoch."""
        return True


@dataclass(frozen=True)
class Arrays(Examples):
    """Tensors with one row an example."""

    tensors: Batch
    classes: tuple[str, ...] = ()
    """What the numbers of the last one stand for, where they came as text."""

    def __len__(self) -> int:
        return len(self.tensors[0])

    def batch(self, positions: Tensor) -> Batch:
        return tuple(x[positions] for x in self.tensors)

    def digest(self) -> str:
        return _digest(self.tensors)


@dataclass(frozen=True)
class Items(Examples):
    """Examples of a Dataset, read one by one and put together as its DataLoader does."""

    items: Any
    collate: Callable[[list[Any]], Any] = default_collate
    in_order: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def batch(self, positions: Tensor) -> Batch:
        return _tensors(self.collate([self.items[index] for index in positions.tolist()]), self.names)

    def digest(self) -> str:
        count = len(self)
        some = torch.linspace(0, count - 1, min(count, READ_FOR_FINGERPRINT)).round().long().unique()
        with fixed_randomness():
            read = [self.batch(some[index : index + 1]) for index in range(len(some))]
        return _digest([torch.tensor(count), *(x for batch in read for x in batch)])

    @property
    def shuffles(self) -> bool:
        return not self.in_order


@dataclass(frozen=True)
class Chosen(Examples):
    """Some of other examples."""

    whole: Examples
    positions: Tensor

    def __len__(self) -> int:
        return len(self.positions)

    def batch(self, positions: Tensor) -> Batch:
        return self.whole.batch(self.positions[positions])

    def digest(self) -> str:
        return hashlib.sha256(f"{self.whole.digest()} {self.positions.tolist()}".encode()).hexdigest()


def inputs_in_memory(examples: Examples) -> Batch | None:
    """All inputs of examples that are arrays, without the target; None where examples are read one by one."""
    whole = examples.whole if isinstance(examples, Chosen) else examples
    if not isinstance(whole, Arrays):
        return None
    tensors = examples.batch(torch.arange(len(examples)))
    return tensors[:-1] if examples.names is None and len(tensors) > 1 else tensors


def rows_digests(tensors: Batch) -> list[bytes]:
    """Of each row of all tensors together: the same for copies of an example.

    >>> first, second, third = rows_digests((torch.tensor([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]]),))
    >>> first == third, first == second
    (True, False)
    """
    plain = [x.detach().cpu().reshape(len(x), -1).contiguous() for x in tensors]
    rows = [x.view(torch.uint8).numpy() for x in plain if x.numel()]
    return [hashlib.blake2b(b"".join(row[index] for row in rows)).digest() for index in range(len(tensors[0]))]


def by_split(data: Any) -> dict[str, Any]:
    """Data by the split it is for: a dict of splits as it is, all else under `train`.

    >>> by_split({"train": 1, "validation": 2})
    {'train': 1, 'valid': 2}
    """
    if not isinstance(data, Mapping) or not data or not all(isinstance(key, str) for key in data):
        return {"train": data}
    unknown = [name for name in data if name.lower() not in SPLIT_NAMES]
    if unknown:
        raise DataError(f"data: there is no split {unknown[0]!r}. Give data by train, valid and test.")
    found = {SPLIT_NAMES[name.lower()]: part for name, part in data.items()}
    if len(found) < len(data) or "train" not in found:
        raise DataError(f"data: splits are {', '.join(data)}, expected train, and valid and test at most once each.")
    return found


def examples_of(data: Any, where: str = "data") -> Examples:
    """The examples of (X, y), a Dataset, a DataLoader or a datasets.Dataset."""
    if isinstance(data, DataLoader):
        return _of_loader(data, where)
    if isinstance(data, TensorDataset):
        return Arrays(None, _same_length(tuple(data.tensors), where))
    if isinstance(data, IterableDataset):
        raise DataError(f"{where}: an IterableDataset has no positions to resume at. Give a Dataset with a length.")
    if hasattr(data, "with_format") and hasattr(data, "column_names"):
        data = data.with_format("torch")  # a datasets.Dataset
        return Items(_names(data[0]) if len(data) else None, data)
    if isinstance(data, Dataset) or (hasattr(data, "__getitem__") and hasattr(data, "__len__") and _of_pairs(data)):
        return _of_items(data, default_collate, False, where)
    if isinstance(data, tuple | list) and len(data) >= 2 and all(_is_array(part) for part in data):
        return arrays(data, where)
    raise DataError(
        f"{where}: a {type(data).__name__} is no data that can be trained on. Give (X, y), a Dataset, a DataLoader, a "
        "datasets.Dataset, or a dict of these by split."
    )


def arrays(parts: Sequence[Any], where: str) -> Arrays:
    """Inputs and, last, targets: numbers, or text that is numbered in the order of the alphabet.

    >>> found = arrays(([[0.5], [1.5], [2.5]], ["dog", "cat", "dog"]), "data")
    >>> found.tensors[-1], found.classes
    (tensor([1, 0, 1]), ('cat', 'dog'))
    """
    *inputs, target = parts
    tensors = [as_tensor(part, where) for part in inputs]
    if not _is_text(target):
        return Arrays(None, _same_length((*tensors, as_tensor(target, where)), where))
    classes, numbers = np.unique(np.asarray(target).astype(str), return_inverse=True)
    labels = torch.from_numpy(numbers.astype(np.int64))
    return Arrays(None, _same_length((*tensors, labels), where), tuple(str(name) for name in classes))


def as_tensor(part: Any, where: str) -> Tensor:
    """An array, a list of numbers or a table's column as a tensor; floats of numpy in torch's default precision."""
    if isinstance(part, Tensor):
        return part.detach().cpu()
    array = np.asarray(part)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{where}: an array of {array.dtype}, expected numbers.")
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    # A copy: the array may be read-only, have strides torch has not, or change later.
    found = torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
    return found.to(torch.get_default_dtype()) if found.dtype == torch.float64 else found


def _is_text(part: Any) -> bool:
    if isinstance(part, Tensor):
        return False
    array = np.asarray(part)
    return array.ndim == 1 and (array.dtype.kind == "U" or (array.size > 0 and isinstance(array[0], str)))


def _is_array(part: Any) -> bool:
    return isinstance(part, Tensor | np.ndarray) or hasattr(part, "__array__") or _is_plain_list(part)


def _is_plain_list(part: Any) -> bool:
    while isinstance(part, list | tuple) and part:
        part = part[0]
    return isinstance(part, int | float | str | np.generic)


def _same_length(tensors: Batch, where: str) -> Batch:
    lengths = [len(x) if x.dim() else 0 for x in tensors]
    if len(set(lengths)) != 1 or not lengths[0]:
        shown = " and ".join(str(tuple(x.shape)) for x in tensors)
        raise DataError(f"{where}: arrays are {shown}, expected as many rows in each, and at least one.")
    return tensors


def _of_pairs(data: Any) -> bool:
    """Whether a sequence is one of examples, as a list of (x, y) is, and not a pair of arrays."""
    return isinstance(data, Sequence) and len(data) > 0 and isinstance(data[0], tuple | dict) and not _is_array(data[0])


def _of_loader(loader: DataLoader[Any], where: str) -> Examples:
    if isinstance(loader.dataset, IterableDataset):
        raise DataError(f"{where}: an IterableDataset has no positions to resume at. Give a Dataset with a length.")
    sampler = loader.sampler
    if not isinstance(sampler, RandomSampler | SequentialSampler) or loader.batch_size is None:
        raise DataError(
            f"{where}: a DataLoader with a {type(sampler).__name__} of its own cannot be resumed. Give its Dataset, "
            "or a DataLoader with shuffle=True or False."
        )
    in_order = isinstance(sampler, SequentialSampler)
    if isinstance(loader.dataset, TensorDataset) and not in_order and loader.collate_fn is default_collate:
        return examples_of(loader.dataset, where)
    return _of_items(loader.dataset, loader.collate_fn, in_order, where)


def _of_items(items: Any, collate: Callable[[list[Any]], Any], in_order: bool, where: str) -> Items:
    if not hasattr(items, "__len__") or not len(items):
        raise DataError(f"{where}: a {type(items).__name__} without a length or without examples. Give one with both.")
    with fixed_randomness():
        first = collate([items[0]])
    return Items(_names(first), items, collate, in_order)


def _names(example: Any) -> tuple[str, ...] | None:
    return tuple(example) if isinstance(example, Mapping) else None


def _tensors(batch: Any, names: tuple[str, ...] | None) -> Batch:
    parts = [batch[name] for name in names] if names is not None else list(batch) if _is_several(batch) else [batch]
    if odd := [part for part in parts if not isinstance(part, Tensor)]:
        raise DataError(f"data: an example holds a {type(odd[0]).__name__}, expected tensors or numbers.")
    return tuple(parts)


def _is_several(batch: Any) -> bool:
    return isinstance(batch, list | tuple)


def _digest(tensors: Sequence[Tensor]) -> str:
    digest = hashlib.sha256()
    for x in tensors:
        digest.update(f"{tuple(x.shape)} {x.dtype}\n".encode())
        digest.update(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@contextmanager
def fixed_randomness() -> Iterator[None]:
    """Examples that are augmented at random are the same inside, and what is drawn outside does not depend on it."""
    before, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        try:
            yield
        finally:
            random.setstate(before)
            np.random.set_state(numpys)
