"""`porism train` on files that are not what they should be: exit code 2, one line with the file's name, and no run."""

import gzip
import io
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse  # type: ignore[import-untyped]
import soundfile
from PIL import Image

from porism.cli import main

NODES = 20
Case = tuple[Callable[[Path], Path], str]


def graph(**replaced: Any) -> Callable[[Path], Path]:
    """Writes a ring of twenty nodes with sparse features; arrays can be replaced, or left out by None."""

    def write(folder: Path) -> Path:
        ring = np.arange(NODES)
        arrays: dict[str, Any] = {
            "edge_index": np.stack([ring, (ring + 1) % NODES]),
            "y": ring % 2,
            "attr_data": np.ones(NODES, np.float32),
            "attr_indices": (ring % 4).astype(np.int32),
            "attr_indptr": np.arange(NODES + 1),
            "attr_shape": np.array([NODES, 4]),
        } | replaced
        np.savez(folder / "graph.npz", **{name: array for name, array in arrays.items() if array is not None})
        return folder / "graph.npz"

    return write


def adjacency(**replaced: Any) -> Callable[[Path], Path]:
    """The same ring as a sparse matrix."""
    ring = np.arange(NODES)
    parts = {
        "adj_data": np.ones(NODES),
        "adj_indices": (ring + 1) % NODES,
        "adj_indptr": np.arange(NODES + 1),
    }
    return graph(edge_index=None, **parts | replaced)


def masks(train: slice, valid: slice, test: slice) -> Callable[[Path], Path]:
    def mask(members: slice) -> Any:
        return np.isin(np.arange(NODES), np.arange(NODES)[members])

    return graph(train_mask=mask(train), val_mask=mask(valid), test_mask=mask(test))


def with_header(header: str) -> Callable[[Path], Path]:
    """A graph whose array y says of itself what the header says."""

    def write(folder: Path) -> Path:
        padded = header.encode().ljust(118) + b"\n"
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + b"\0" * 64
        return repacked(graph(y=None)(folder), {"y.npy": content})

    return write


def repacked(path: Path, added: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | added
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def with_zip_field(offset: int, value: int) -> Callable[[Path], Path]:
    """A graph in whose archive a field of two bytes is changed at both positions that hold it: flags (6), method
    (8)."""

    def write(folder: Path) -> Path:
        path = graph()(folder)
        content = bytearray(path.read_bytes())
        for start, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
            struct.pack_into("<H", content, content.index(start) + offset + shift, value)
        path.write_bytes(content)
        return path

    return write


def one_array(folder: Path) -> Path:
    content = io.BytesIO()
    np.save(content, np.eye(3))
    (folder / "graph.npz").write_bytes(content.getvalue())
    return folder / "graph.npz"


NPZ: dict[str, Case] = {
    "features start at 10^6": (graph(attr_indptr=np.arange(21) + 10**6), "attr_indptr does not cut 20 entries into 20"),
    "features start at 5": (graph(attr_indptr=np.arange(21) + 5), "it runs from 5 to 25, expected from 0 to 20"),
    "features fall": (
        graph(attr_indptr=np.array([0, 5, 3, *range(3, 20), 20])),
        "attr_indptr does not cut 20 entries into 20 rows",
    ),
    "features fall, unsigned": (
        graph(attr_indptr=np.array([0, 5, 3, *range(3, 20), 20], dtype=np.uint64)),
        "attr_indptr does not cut 20 entries into 20 rows",
    ),
    "features end beyond": (
        graph(attr_indptr=np.array([*range(20), 60])),
        "runs from 0 to 60, expected from 0 to 20",
    ),
    "features end before": (graph(attr_indptr=np.minimum(np.arange(21), 9)), "runs from 0 to 9, expected from 0 to 20"),
    "too few values": (graph(attr_data=np.ones(7)), "7 attr_data and 20 attr_indices, expected as many"),
    "a shape of one number": (
        graph(attr_shape=np.array([20])),
        "attr_shape is array([20]), expected two whole",
    ),
    "a shape of 999 rows": (graph(attr_shape=np.array([999, 4])), "attr_indptr has 21 numbers, expected 1000"),
    "a shape of 10^12 columns": (graph(attr_shape=np.array([20, 10**12])), "attr_shape is 20 x 1000000000000"),
    "a column below 0": (graph(attr_indices=np.arange(20) % 4 - 1), "attr_indices run from -1 to 2"),
    "a column beyond": (graph(attr_indices=np.arange(20) % 5), "attr_indices run from 0 to 4, and 4 columns are"),
    "a column of 1.5": (
        graph(attr_indices=np.full(20, 1.5)),
        "attr_indices is (20,) of float64, expected one row of whole",
    ),
    "values in two dimensions": (graph(attr_data=np.ones((20, 1))), "attr_data is (20, 1) of float64"),
    "values of text": (graph(attr_data=np.full(20, "1")), "attr_data is (20,) of <U1, expected one row of numbers"),
    "an adjacency from 1 on": (adjacency(adj_indptr=np.arange(21) + 1), "adj_indptr does not cut 20 entries into 20"),
    "an adjacency of few weights": (adjacency(adj_data=np.ones(3)), "3 adj_data and 20 adj_indices, expected as many"),
    "an adjacency of text": (
        adjacency(adj_data=np.full(20, "one")),
        "adj_data is (20,) of <U3, expected one row of numbers",
    ),
    "an adjacency of other nodes": (adjacency(adj_indices=np.arange(20) + 1), "adj_indices run from 1 to 20"),
    "an adjacency of other shape": (
        adjacency(adj_shape=np.array([20, 19])),
        "adj_indices run from 0 to 19, and 19 col",
    ),
    "edges of text": (
        graph(edge_index=np.array([["a"], ["b"]])),
        "edge_index is (2, 1) of <U1, expected (2, E) of whole",
    ),
    "edges of fractions": (
        graph(edge_index=np.array([[0.5], [1]])),
        "edge_index is (2, 1) of float64, expected (2",
    ),
    "an edge of 2^64 - 1": (
        graph(edge_index=np.array([[2**64 - 1], [0]], dtype=np.uint64)),
        "edge_index runs from 0 to 18446744073709551615, and 20 nodes are numbered 0 to 19",
    ),
    "weights of complex numbers": (graph(edge_weight=np.full(20, 1j)), "edge_weight holds something else than numbers"),
    "a weight beyond 32 bits": (
        graph(edge_weight=np.full(20, 1e200)),
        "the weight of edge 0 is 1e+200, expected a number",
    ),
    "weights below 0": (
        graph(edge_weight=np.array([-1.0, 1, -2, *[1] * 17])),
        "2 of 20 edges have a weight below 0, and sym divides by the sum of weights",
    ),
    "a label of 2^64 - 1": (
        graph(y=np.array([2**64 - 1, *[1] * 19], dtype=np.uint64)),
        "label 18446744073709551615 of example 0, expected a class from 0 on, or -1 where it is unknown",
    ),
    "a label of -2": (graph(y=np.array([-2, *[1] * 19])), "label -2 of example 0, expected a class from 0 on, or -1"),
    "a label of 10^9": (graph(y=np.array([10**9, *[1] * 19])), "1,000,000,001 classes for 20 labelled examples"),
    "a label of 2^62": (graph(y=np.array([2**62, *[1] * 19])), "labels run to 4611686018427387904"),
    "a label of 50,000": (graph(y=np.array([50_000, *[1] * 19])), "50,001 classes for 20 labelled examples"),
    "one mask for all": (
        masks(slice(None), slice(None), slice(None)),
        "20 nodes are in train and valid, 0 for instance",
    ),
    "train in test": (masks(slice(0, 10), slice(10, 12), slice(9, 20)), "1 node is in train and test, 9 for instance"),
    "valid in test": (masks(slice(0, 3), slice(3, 9), slice(5, 20)), "4 nodes are in valid and test, 5 for instance"),
    "a mask of 2": (
        graph(train_mask=np.full(20, 2), val_mask=np.full(20, 0), test_mask=np.full(20, 0)),
        "train_mask is (20,) of int64, expected (20,) of 0 or 1",
    ),
    "class names without a dimension": (
        graph(class_names=np.array("one")),
        "class_names are () of <U3, expected one row",
    ),
    "one name for two classes": (graph(class_names=np.array(["a", "a"])), "two classes are called 'a'"),
    "a single array": (one_array, "not a whole .npz of plain arrays (a single array, an .npy file)"),
    "an encrypted archive": (with_zip_field(6, 1), "not a whole .npz of plain arrays"),
    "an unknown compression": (with_zip_field(8, 77), "not a whole .npz of plain arrays"),
    "10^12 rows": (
        with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }"),
        "y is (1000000000000,) of int64, 8000000000000 bytes, and 64 are there",
    ),
    "3,000 brackets": (
        with_header(f"{{'descr': '<i8', 'fortran_order': False, 'shape': {'(' * 3000}"),
        "y holds something else than numbers or text",
    ),
    "a header that computes": (
        with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (9**9**9,), }"),
        "y holds something else than numbers or text",
    ),
}


def planetoid(test_index: str = "6\n7\n5\n", **replaced: Any) -> Callable[[Path], Path]:
    """Writes eight nodes in Planetoid's format. A part may be an object or the bytes of a file."""

    def write(folder: Path) -> Path:
        labels = np.eye(2, dtype=np.int32)[[0, 1, 0, 1, 0]]
        parts = {
            "x": scipy.sparse.csr_matrix(np.eye(2, 3, dtype=np.float32)),
            "y": labels[:2],
            "allx": scipy.sparse.csr_matrix(np.eye(5, 3, dtype=np.float32)),
            "ally": labels,
            "tx": scipy.sparse.csr_matrix(np.ones((3, 3), dtype=np.float32)),
            "ty": np.eye(2, dtype=np.int32)[[1, 0, 1]],
            "graph": {node: [(node + 1) % 8] for node in range(8)},
        } | replaced
        folder = folder / "planetoid"
        folder.mkdir()
        for part, content in parts.items():
            stored = content if isinstance(content, bytes) else pickle.dumps(content, protocol=2)
            (folder / f"ind.tiny.{part}").write_bytes(stored)
        (folder / "ind.tiny.test.index").write_text(test_index)
        return folder

    return write


def changed(**parts: Any) -> Any:
    """A sparse matrix (5, 3) with other parts than scipy would give it."""
    matrix = scipy.sparse.csr_matrix(np.eye(5, 3, dtype=np.float32))
    for name, part in parts.items():
        setattr(matrix, name, np.array(part))
    return matrix


SHARED = [number % 8 for number in range(20_000)]
PLANETOID: dict[str, Case] = {
    "a column of 5000": (
        planetoid(allx=changed(indices=[0, 5000, 2])),
        "allx: indices run from 0 to 5000, and 3 columns",
    ),
    "a column of -1": (planetoid(allx=changed(indices=[0, -1, 2])), "allx: indices run from -1 to 2, and 3 columns"),
    "rows from 9 on": (planetoid(allx=changed(indptr=[9, 10, 11, 12, 12, 12])), "allx: indptr does not cut 3 entries"),
    "rows that fall": (planetoid(allx=changed(indptr=[0, 3, 1, 3, 3, 3])), "allx: indptr does not cut 3 entries"),
    "values too few": (planetoid(allx=changed(data=[1.0])), "allx: 1 data and 3 indices, expected as many"),
    "labelled features wrong": (planetoid(x=changed(indices=[0, 7, 2])), "x: indices run from 0 to 7, and 3 columns"),
    "a graph that is a list": (planetoid(graph=[[1], [0]]), "graph: holds a list, expected a dictionary"),
    "a graph that is None": (planetoid(graph=None), "graph: holds a NoneType, expected a dictionary"),
    "a graph of texts": (
        planetoid(graph={0: ["a"]}),
        "holds a dict, expected a dictionary from a node",
    ),
    "a graph of nested lists": (
        planetoid(graph={0: [[1, 2]]}),
        "holds a dict, expected a dictionary from a node",
    ),
    "a graph beyond 64 bits": (planetoid(graph={0: [1, 2**80]}), "graph: an edge names node 12089258196146291747061"),
    "a node beyond 64 bits": (planetoid(graph={2**80: [1]}), "graph: an edge names node 12089258196146291747061"),
    "a shared list": (
        planetoid(graph=dict.fromkeys(range(2708), SHARED)),
        "graph: not a whole pickle of arrays (a list or a dictionary that is shared)",
    ),
    "labels for features": (planetoid(allx=np.eye(5)), "allx: holds an array (5, 5), expected a sparse matrix"),
    "features for labels": (
        planetoid(ally=scipy.sparse.csr_matrix(np.eye(5, 2))),
        "ally: holds a SparseMatrix, expected an array (nodes, classes)",
    ),
    "a graph for features": (planetoid(tx={0: [1]}), "tx: holds a dict, expected a sparse matrix of features"),
    "features for a graph": (
        planetoid(graph=scipy.sparse.csr_matrix(np.eye(3))),
        "graph: holds a SparseMatrix, expected",
    ),
    "labels that are a number": (planetoid(y=7), "y: holds a int, expected an array (nodes, classes) of labels"),
    "labels longer than all": (
        planetoid(y=np.eye(2)[[0] * 6], x=scipy.sparse.csr_matrix(np.eye(6, 3))),
        "y: 6 rows, and ally has 5",
    ),
    "labels of two classes at once": (planetoid(ty=np.ones((3, 2))), "ty: a node has more than one class"),
    "other widths": (planetoid(tx=scipy.sparse.csr_matrix(np.ones((3, 4)))), "tx: 4 columns, expected 3, as in allx"),
    "a squared test node": (planetoid(test_index="6\n7\n²\n"), "test.index, line 3: '²' is no node's number"),
    "a test node twice": (planetoid(test_index="6\n7\n6\n"), "test.index, line 3: node 6 is there already, in line 1"),
    "a test node of 10^9": (planetoid(test_index=f"6\n7\n{10**9}\n"), "test.index: test node 1000000000, and features"),
    "a test node of 10^30": (planetoid(test_index=f"6\n7\n{10**30}\n"), "test.index, line 3: '1" + "0" * 28),
}


def tables(nodes: str, edges: str = "source,target\nn0,n1\n") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        folder = folder / "tables"
        folder.mkdir()
        (folder / "nodes.csv").write_text(nodes)
        (folder / "edges.csv").write_text(edges)
        return folder

    return write


MANY = "node,label,f\n" + "".join(f"n{number},{number % 2},1\n" for number in range(20_000))
TABLES: dict[str, Case] = {
    "a cell of 200,000 letters": (tables("node,f\n" + "a" * 200_000 + ",1\n"), "nodes.csv, line 2: field larger than"),
    "an unknown node among many": (
        tables(MANY, "source,target\nn0,who\n"),
        "edges.csv, line 2: there is no node 'who' in nodes.csv. It names 20,000 others.",
    ),
    "an unknown node with a long name": (
        tables("node,label,f\nn0,a,1\n", "source,target\nn0," + "z" * 100_000 + "\n"),
        "edges.csv, line 2: there is no node 'zzzzz",
    ),
    "two columns of one name": (tables("node,f,f\na,1,2\n"), "nodes.csv, line 1: two columns are called 'f'"),
    "a weight that is too large": (
        tables("node,label,f\nn0,a,1\nn1,b,2\n", "source,target,weight\nn0,n1,1e300\n"),
        "edges.csv: the weight of edge 0 is 1e+300, expected a number",
    ),
}


def medmnist(**replaced: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        arrays: dict[str, Any] = {}
        for key in ("train", "val", "test"):
            arrays[f"{key}_images"] = np.zeros((6, 8, 8), np.uint8)
            arrays[f"{key}_labels"] = np.arange(6) % 2
        np.savez(folder / "scans.npz", **arrays | replaced)
        return folder / "scans.npz"

    return write


def pictures(name: str, make: Callable[[Path], object]) -> Callable[[Path], Path]:
    """Two classes of twelve pictures and something else among those of the first."""

    def write(folder: Path) -> Path:
        for label, animal in enumerate(("cat", "dog")):
            (folder / "animals" / animal).mkdir(parents=True)
            for number in range(12):
                place = folder / "animals" / animal / f"{number:02d}.png"
                Image.new("L", (8, 8), 100 * label + number).save(place)
        make(folder / "animals" / "cat" / name)
        return folder / "animals"

    return write


def png(path: Path, rows: int, columns: int) -> None:
    """A black picture, in few bytes however large it is."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    row = b"\0" * (1 + (columns + 7) // 8)
    packer = zlib.compressobj(1)
    packed = b"".join([*(packer.compress(row * 100) for _ in range(rows // 100)), packer.flush()])
    header = struct.pack(">IIBBBBB", columns, rows, 1, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b""))


def fraction(value: float) -> Callable[[Path], object]:
    return lambda path: Image.fromarray(np.full((8, 8), value, np.float32)).save(path)


IMAGES: dict[str, Case] = {
    "a label of 10^9": (medmnist(val_labels=np.full(6, 10**9)), "1,000,000,001 classes for 18 labelled examples"),
    "a label of 2^62": (medmnist(val_labels=np.full(6, 2**62)), "labels run to 4611686018427387904"),
    "a label of 2^64 - 1": (
        medmnist(val_labels=np.full(6, 2**64 - 1, np.uint64)),
        "val: label 18446744073709551615 of example 0, expected a class from 0 on",
    ),
    "169 million pixels": (
        pictures("z.png", lambda path: png(path, 13_000, 13_000)),
        "z.png: more than 89,478,485 pixels",
    ),
    "fractions that are none": (pictures("z.tiff", fraction(float("nan"))), "z.tiff: a pixel is nan, expected 0 to 1"),
    "fractions above 1": (pictures("z.tiff", fraction(1.5)), "z.tiff: a pixel is 1.5, expected 0 to 1"),
    "fractions below 0": (pictures("z.tiff", fraction(-0.5)), "z.tiff: a pixel is -0.5, expected 0 to 1"),
    "numbers above 16 bits": (
        pictures("z.tiff", lambda path: Image.fromarray(np.full((8, 8), 70_000, np.int32)).save(path)),
        "z.tiff: a pixel is 70000, expected 0 to 65535",
    ),
    "a pipe": (pictures("pipe", os.mkfifo), "pipe: neither a file nor a folder. Take it away."),
    "a link to nowhere": (pictures("z.png", lambda path: path.symlink_to("gone.png")), "z.png: a link that leads"),
    "a folder in a class": (pictures("more", lambda path: path.mkdir()), "more: a folder within a class"),
    "notes": (pictures("notes.txt", lambda path: path.write_text("mine")), "notes.txt: not a picture that can be read"),
}


def sound(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.1 * np.random.default_rng(seed).standard_normal(1600), 16_000, subtype="PCM_16")
    return path


def one_recording(folder: Path) -> Path:
    """On all lines of a list."""
    sound(folder / "a.wav", 1)
    (folder / "list.tsv").write_text("".join(f"a.wav\tword {number}\n" for number in range(12)))
    return folder / "list.tsv"


def lists(train: str, valid: str, test: str) -> Callable[[Path], Path]:
    """Recordings by their names; the same letter is the same content."""

    def write(folder: Path) -> Path:
        folder = folder / "speech"
        for split, names in (("train", train), ("valid", valid), ("test", test)):
            files = [sound(folder / f"{name}.wav", ord(name[-1])) for name in names.split()]
            (folder / f"{split}.tsv").write_text("".join(f"{file.name}\tsome words\n" for file in files))
        return folder

    return write


def linked(folder: Path) -> Path:
    folder = lists("a b c", "d", "e")(folder)
    (folder / "e.wav").unlink()
    (folder / "e.wav").symlink_to("a.wav")
    return folder


SPEECH: dict[str, Case] = {
    "one recording for all": (one_recording, "list: 1 recording is in train and valid, a.wav"),
    "train in test": (lists("a b c", "d", "b c"), "speech: 2 recordings are in train and test, b.wav"),
    "a copy in test": (lists("a b c", "d", "copy-a"), "speech: 1 recording is in train and test, copy-a.wav"),
    "a link in test": (linked, "speech: 1 recording is in train and test, e.wav"),
    "twice in train": (lists("a b b", "d", "e"), "speech: 1 recording is in train twice, b.wav"),
}


def bomb(folder: Path) -> Path:
    packed = gzip.compress(b"so rain\n" * 2**20, compresslevel=9)
    (folder / "b.txt.gz").write_bytes(packed * 40)
    return folder / "b.txt.gz"


def encoded(encoding: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "letter.txt").write_bytes("the cat sees the dog\n".encode(encoding) * 90)
        return folder / "letter.txt"

    return write


TEXT: dict[str, Case] = {
    "a bomb": (bomb, " bytes that unpack to more than 100 times as many, which no data does."),
    "UTF-16": (encoded("utf-16"), "letter.txt: UTF-16 or UTF-32, expected UTF-8. Convert it"),
    "UTF-16 without a mark": (encoded("utf-16-be"), "letter.txt: UTF-16 or UTF-32, expected UTF-8. Convert it"),
    "UTF-32": (encoded("utf-32"), "letter.txt: UTF-16 or UTF-32, expected UTF-8. Convert it"),
}


def pipe(folder: Path, name: str) -> Path:
    """A pipe into which nobody writes: to open it would take for ever."""
    os.mkfifo(folder / name)
    return folder / name


def piped(*names: str) -> dict[str, Case]:
    return {name: (partial(pipe, name=name), f"{name}: a pipe or a device, expected a file") for name in names}


CASES = {
    f"{task}: {what}": (task, *case)
    for task, cases in {
        "graphs": NPZ | PLANETOID | TABLES | piped("pipe.npz"),
        "images": IMAGES | piped("pipe.npz"),
        "speech": SPEECH | piped("pipe.tsv"),
        "language": TEXT | piped("pipe.txt"),
        "words": TEXT | piped("pipe.txt"),
        "sentiment": piped("pipe.csv"),
        "supervised": piped("pipe.csv", "pipe.npz"),
    }.items()
    for what, case in cases.items()
}


@pytest.mark.sample(24)
@pytest.mark.parametrize("case", CASES)
def test_a_bad_file_is_one_line_and_no_run(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task, write, message = CASES[case]
    source = write(tmp_path)
    monkeypatch.chdir(tmp_path)
    code = main(["train", task, "--data", source.name, "--set=epochs=1", "--out=run"])
    message_shown = capsys.readouterr().err
    assert code == 2, message_shown
    assert message in message_shown
    assert message_shown.startswith("porism: ")
    assert source.name.split(".")[0] in message_shown
    assert message_shown.count("\n") == 1
    assert len(message_shown) < 500
    assert not (tmp_path / "run").exists()
