"""Reads a pickle without running it.

A pickle is a program, and loading one from the world means to run it. Planetoid's files are pickles of numpy arrays,
sparse matrices and a dictionary of lists. The few instructions that such files have are interpreted here, one by one,
with inert stand-ins for numpy's and scipy's classes. A file that asks for anything else is refused by the name of what
it asks for.
"""

import re
from collections.abc import Callable
from operator import index
from pathlib import Path
from pickletools import genops
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError, one_line, shown
from porism.tasks.blocks.download import read_content
from porism.tasks.graphs.data.sparse import sparse_matrix

NUMBERS = re.compile(r"[biuf][1248]")
"""The types of array elements that are plain numbers, as a pickle spells them: f4 is a float of 4 bytes."""


def read_pickle(path: Path) -> Any:
    """Arrays, `SparseMatrix`, dictionaries and lists of numbers, as a file holds them."""
    content = read_content(path)
    try:
        result = _Machine(most=2 * len(content)).run(content)
    except _Refused as refused:
        raise DataError(
            f"{path}: asks for {shown(str(refused))[1:-1]}, which no file of arrays needs, and is not read: a pickle "
            "can run any code. Get the file from its source again."
        ) from None
    # Damaged bytes can fail in any instruction, and in whatever numpy makes of their arguments.
    except Exception as error:
        raise DataError(f"{path}: not a whole pickle of arrays ({one_line(error)}). Get the file again.") from None
    if isinstance(result, _Matrix):
        return sparse_matrix(str(path), **result.parts)
    return result.array if isinstance(result, _Array) else result


class _Refused(Exception):
    """Something that is not known, by its name."""


class _Stand:
    """Stands in for a class. Takes any arguments, and its state as a pickle gives it."""

    def __init__(self, *_: Any) -> None:
        pass

    def build(self, state: Any) -> None:
        raise ValueError(f"a state for {type(self).__name__}")

    def size(self) -> int:
        """Bytes it holds itself."""
        return 0


class _Type(_Stand):
    """numpy.dtype"""

    def __init__(self, spelled: str, *_: Any) -> None:
        if not NUMBERS.fullmatch(spelled):
            raise ValueError(f"array elements of type {spelled!r}, expected numbers")
        self.spelled, self.order = spelled, "<"

    def build(self, state: Any) -> None:
        self.order = state[1]

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.spelled if self.order in "<>" else self.spelled)


class _Array(_Stand):
    """numpy.ndarray, whose state is (version, shape, type, whether columns come first, bytes)."""

    array: NDArray[Any]

    def build(self, state: Any) -> None:
        _, shape, kind, columns_first, raw = state
        dtype = kind.dtype()
        flat = np.frombuffer(raw.encode("latin1") if isinstance(raw, str) else raw, dtype)
        self.array = flat.reshape(shape, order="F" if columns_first else "C").astype(dtype.newbyteorder("="))

    def size(self) -> int:
        return self.array.nbytes if vars(self) else 0


class _Matrix(_Stand):
    """scipy's csr_matrix, whose state is the dictionary of its parts."""

    parts: dict[str, Any]

    def build(self, state: Any) -> None:
        names = {"values": "data", "columns": "indices", "starts": "indptr"}
        self.parts = {part: state[name].array for part, name in names.items()}
        self.parts["shape"] = tuple(index(size) for size in state.get("_shape") or state["shape"])


def _encode(text: str = "", _encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes for Python 2 to read."""
    return text.encode("latin1")


KNOWN: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"), _Array),
    "numpy.ndarray": _Array,
    "numpy.dtype": _Type,
    **dict.fromkeys(("scipy.sparse.csr.csr_matrix", "scipy.sparse._csr.csr_matrix"), _Matrix),
    "collections.defaultdict": lambda *_: {},
    **dict.fromkeys(("__builtin__.list", "builtins.list"), lambda *_: []),
    **dict.fromkeys(("_codecs.encode", "__builtin__.bytes", "builtins.bytes"), _encode),
}
"""All that a pickle may ask for by name."""
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINSTRING", "BINSTRING", "BINUNICODE"}
"""Instructions that hold a number or a text."""


class _Machine:
    """The stack of values, where its open marks are, and what is kept under a number to be met again.

    `most` is how many bytes it may make. A file holds those of an array once, and they are made twice at most: as bytes
    from a text, and as numbers from bytes.
    """

    def __init__(self, most: int) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.kept: dict[int, Any] = {}
        self.most = most

    def run(self, content: bytes) -> Any:
        for instruction, argument, _ in genops(content):
            if instruction.name == "STOP":
                (result,) = self._last(1)
                if isinstance(result, _Stand) and not vars(result):
                    raise ValueError("an array without content")
                return result
            self._take(instruction.name, argument)
        raise ValueError("it has no end")

    def _take(self, name: str, argument: Any) -> None:
        stack = self.stack
        match name:
            case "PROTO":
                pass
            case "MARK":
                self.marks.append(len(stack))
            case "EMPTY_LIST" | "EMPTY_DICT":
                stack.append([] if name == "EMPTY_LIST" else {})
            case "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._last(None if name == "TUPLE" else int(name[-1]))))
            case "APPEND" | "APPENDS":
                items = self._last(1 if name == "APPEND" else None)
                stack[-1].extend(items)
            case "SETITEM" | "SETITEMS":
                items = self._last(2 if name == "SETITEM" else None)
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case "BINPUT" | "LONG_BINPUT":
                self.kept[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self._met_again(argument))
            case "GLOBAL":
                stack.append(_known(argument))
            case "REDUCE" | "NEWOBJ":
                maker, arguments = self._last(2)
                stack.append(self._counted(maker(*arguments)))
            case "BUILD":
                (state,) = self._last(1)
                stack[-1].build(state)
                self._counted(stack[-1])
            case _ if name in CONSTANTS:
                stack.append(CONSTANTS[name])
            case _ if name in LITERALS:
                stack.append(argument)
            case _:
                raise _Refused(f"the instruction {name}")

    def _met_again(self, number: int) -> Any:
        """A shared list would be small in a file and large in a graph; one that contains itself would have no end."""
        value = self.kept[number]
        if isinstance(value, list | dict):
            raise ValueError("a list or a dictionary that is shared")
        return value

    def _counted(self, made: Any) -> Any:
        self.most -= len(made) if isinstance(made, bytes) else made.size() if isinstance(made, _Stand) else 0
        if self.most < 0:
            raise ValueError("more bytes come out than are in the file")
        return made

    def _last(self, count: int | None) -> list[Any]:
        """Takes so many values off the stack, or all from the last mark on."""
        first = self.marks.pop() if count is None else len(self.stack) - count
        if first < 0:
            raise ValueError("it takes what is not there")
        taken = self.stack[first:]
        del self.stack[first:]
        return taken


def _known(argument: str) -> Callable[..., Any]:
    requested = argument.replace(" ", ".")
    if requested not in KNOWN:
        raise _Refused(requested)
    return KNOWN[requested]
