"""Files that were damaged, cut, swapped or mixed up with others, as hypothesis draws and shrinks them."""

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

Tree = dict[str, bytes]
"""The files of a folder, by their paths below it."""

PIECES = (
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"\t",
        b",",
        b'"',
        b"'",
        b" ",
        b"|",
        b":",
        b"=",
        b"/",
        b"\\",
        b"#",
        b"\x1a",
        b"\x1c",
    ),
    *(b"nan", b"inf", b"-inf", b"-1", b"0", b"1.5", b"1e999", b"-1e-999", b"9" * 25, b"1" + b"0" * 400, b"1_0"),
    *(b"true", b"null", b"{", b"}", b"[", b"]", b"[" * 3000, b"{}", b"../../x", b"~", b"$HOME", b"<eos>", b"<unk>"),
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3", "²".encode(), "\u2028".encode(), "\x85".encode()),
    *(b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"a" * 5000, "é".encode(), "١".encode()),
)
"""What readers stumble over: separators, numbers that are none or too large, brackets, paths, odd letters and bytes."""
KINDS = (
    "flip",
    "flip",
    "put in",
    "put in",
    "instead",
    "cut out",
    "cut off",
    "twice",
    "empty",
    "remove",
    "swap",
    "random",
)


class Change(NamedTuple):
    """One change of one file. Numbers are taken modulo what there is."""

    kind: str
    file: int
    place: int
    piece: bytes


NUMBERS = st.integers(0, 2**20)
CHANGE = st.builds(
    Change, st.sampled_from(KINDS), NUMBERS, NUMBERS, st.sampled_from(PIECES) | st.binary(min_size=1, max_size=12)
)
CHANGES = st.lists(CHANGE, min_size=1, max_size=4)


def mutated(content: bytes, change: Change) -> bytes:
    """The content after a change of some bytes."""
    place = change.place % (len(content) + 1)
    piece = change.piece
    match change.kind:
        case "flip" if content:
            found = bytearray(content)
            found[change.place % len(found)] ^= 1 << (piece[0] % 8)
            return bytes(found)
        case "put in":
            return content[:place] + piece + content[place:]
        case "instead":
            return content[:place] + piece + content[place + len(piece) :]
        case "cut out":
            return content[:place] + content[place + 1 + piece[0] % 40 :]
        case "cut off":
            return content[:place]
        case "twice":
            return content[:place] + content[place : place + 1 + 10 * piece[0]] + content[place:]
        case "empty":
            return b""
        case "random":
            return piece * (1 + change.place % 3)
        case _:
            return content


def changed(tree: Tree, changes: list[Change]) -> Tree:
    """The files after all changes."""
    found = dict(tree)
    for change in changes:
        names = sorted(found)
        if not names:
            break
        name = names[change.file % len(names)]
        if change.kind == "remove":
            del found[name]
        elif change.kind == "swap":
            other = names[change.place % len(names)]
            found[name], found[other] = found[other], found[name]
        else:
            found[name] = mutated(found[name], change)
    return found


def write_tree(folder: Path, tree: Tree) -> Path:
    """A folder with these files and no others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def read_tree(folder: Path) -> Tree:
    """The files of a folder, those of locks left out."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**31, 2**70, -(2**70), 1.5, -0.5, 1e308, 1e-320, "", "text", "<eos>", "nan", "1"),
    *([], {}, [1, 2], [[]], ["a", "a"], {"a": 1}, "é\n\x00", "../../x", "x" * 2000, [0] * 50, {"event": "epoch"}),
)
"""What stands in the place of another value of a JSON document."""


class Edit(NamedTuple):
    """One change of one value of a document."""

    kind: str
    place: int
    value: Any


EDIT = st.builds(Edit, st.sampled_from(("set", "set", "remove", "add")), NUMBERS, st.sampled_from(VALUES))
EDITS = st.lists(EDIT, min_size=1, max_size=3)


def edited(document: Any, edits: list[Edit]) -> Any:
    """A JSON document with some of its values replaced, removed or added."""
    found = {"": json.loads(json.dumps(document))}
    for edit in edits:
        places = list(_places(found))
        holder, key = places[edit.place % len(places)]
        value = deepcopy(edit.value)
        if edit.kind == "set" or key == "":
            holder[key] = value
        elif edit.kind == "remove":
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(key, value)
        else:
            holder["added"] = value
    return found[""]


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every value of a document, as what holds it and where."""
    entries = list(document.items() if isinstance(document, dict) else enumerate(document))
    for key, value in entries:
        yield document, key
        if isinstance(value, dict | list):
            yield from _places(value)
