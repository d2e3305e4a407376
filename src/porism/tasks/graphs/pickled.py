"""Reads a pickle without running it.

A pickle is a program, and loading one from the world means to run it. Planetoid's files are pickles of numpy arrays,
sparse matrices and a dictionary of lists. The few instructions that such files have are walked here, one by one, with
inert stand-ins for numpy's and scipy's classes. A file that asks for anything else is refused by the name of what it
asks for.
"""

import re
from collections.abc import Callable
from pathlib import Path
from pickletools import genops
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError
from porism.tasks.download import read_content

NUMBERS = re.compile(r"[biuf][1248]")
"""The types of array elements that are plain numbers, as a pickle spells them: f4 is a float of 4 bytes."""


class SparseMatrix(NamedTuple):
    """What a pickled csr_matrix holds. Row i has its columns and values from starts[i] to starts[i + 1]."""

    values: NDArray[Any]
    columns: NDArray[Any]
    starts: NDArray[Any]
    shape: tuple[int, int]


def read_pickle(path: Path) -> Any:
    """Arrays, `SparseMatrix`, dictionaries and lists of numbers, as a file holds them."""
    content = read_content(path)
    try:
        return _plain(_Walk().through(content))
    except _Refused as refused:
        raise DataError(
            f"{path}: asks for {refused}, which no file of arrays needs, and is not read: a pickle can run any code. "
            "Get the file from its source again."
        ) from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise DataError(f"{path}: not a whole pickle of arrays ({error}). Get the file again.") from None


class _Refused(Exception):
    """Something that is not known, by its name."""


class _Stand:
    """Stands in for a class. It is made from anything, and told its state as a pickle does."""

    def build(self, state: Any) -> None:
        raise ValueError(f"a state for {type(self).__name__}")


class _Type(_Stand):
    """numpy.dtype"""

    def __init__(self, spelled: str, *_: Any) -> None:
        if not NUMBERS.fullmatch(spelled):
            raise ValueError(f"array elements of type {spelled!r}, wanted numbers")
        self.spelled, self.order = spelled, "<"

    def build(self, state: Any) -> None:
        self.order = state[1]

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.spelled if self.order in "<>" else self.spelled)


class _Array(_Stand):
    """numpy.ndarray, whose state is (version, shape, type, whether columns come first, bytes)."""

    found: NDArray[Any]

    def __init__(self, *_: Any) -> None:
        pass

    def build(self, state: Any) -> None:
        _, shape, kind, columns_first, raw = state
        flat = np.frombuffer(raw.encode("latin1") if isinstance(raw, str) else raw, kind.dtype())
        self.found = flat.reshape(shape, order="F" if columns_first else "C")


class _Matrix(_Stand):
    """scipy's csr_matrix, whose state is the dictionary of its parts."""

    found: SparseMatrix

    def build(self, state: Any) -> None:
        values, columns, starts = (state[name].found for name in ("data", "indices", "indptr"))
        height, width = state.get("_shape") or state["shape"]
        self.found = SparseMatrix(values, columns, starts, (int(height), int(width)))


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


class _Walk:
    """The stack of values, the places of open marks in it, and what is kept under a number to be met again."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.kept: dict[int, Any] = {}

    def through(self, content: bytes) -> Any:
        for instruction, argument, _ in genops(content):
            if instruction.name == "STOP":
                return self.stack.pop()
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
                stack.append(self.kept[argument])
            case "GLOBAL":
                stack.append(_known(argument))
            case "REDUCE" | "NEWOBJ":
                maker, arguments = self._last(2)
                stack.append(maker(*arguments))
            case "BUILD":
                (state,) = self._last(1)
                stack[-1].build(state)
            case _ if name in CONSTANTS:
                stack.append(CONSTANTS[name])
            case _ if name in LITERALS:
                stack.append(argument)
            case _:
                raise _Refused(f"the instruction {name}")

    def _last(self, count: int | None) -> list[Any]:
        """Takes so many values off the stack, or all from the last mark on."""
        first = self.marks.pop() if count is None else len(self.stack) - count
        if first < 0:
            raise ValueError("it takes what is not there")
        taken = self.stack[first:]
        del self.stack[first:]
        return taken


def _known(argument: str) -> Callable[..., Any]:
    asked = argument.replace(" ", ".")
    if asked not in KNOWN:
        raise _Refused(asked)
    return KNOWN[asked]


def _plain(found: Any) -> Any:
    return found.found if isinstance(found, _Array | _Matrix) else found
