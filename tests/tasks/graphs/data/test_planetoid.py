"""Planetoid's files are read as everybody reads them, and never run."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse  # type: ignore[import-untyped]
import torch
from tests.tasks.graphs.conftest import Writer

from porism.errors import DataError
from porism.layers.gcn import SparseFeatures
from porism.tasks.graphs.data import read_graph
from porism.tasks.graphs.data.pickled import read_pickle


def test_nodes_come_in_their_places_and_gaps_are_filled(planetoid: Writer) -> None:
    data = read_graph(str(planetoid()))
    assert isinstance(data.features, SparseFeatures)
    # Test nodes 7 and 5 stand in this order in the file; 6 is named nowhere but in the graph.
    dense = data.features.to_dense()
    assert dense[7].tolist() == [5, 0, 1]
    assert dense[5].tolist() == [7, 0, 0]
    assert dense[6].tolist() == [0, 0, 0]
    assert data.labels.tolist() == [0, 1, 0, 1, 0, 0, -1, 1]


def test_edges_count_once_and_both_ways_without_loops(planetoid: Writer) -> None:
    adjacency = read_graph(str(planetoid())).graph.to_dense("none", add_self_loops=False)
    expected = torch.zeros(8, 8)
    for one, other in ((0, 1), (0, 7), (1, 2), (4, 5)):
        expected[one, other] = expected[other, one] = 1
    assert torch.equal(adjacency, expected)


def test_the_public_split(planetoid: Writer) -> None:
    data = read_graph(str(planetoid()))
    assert {split: members.tolist() for split, members in data.splits.items()} == {
        "train": [0, 1],
        "valid": [2, 3, 4],
        "test": [5, 7],
    }
    assert data.sizes() == "public 2/3/2"


class Intruder:
    """Would run a command when unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.trace),)


def test_a_pickle_that_would_run_something_is_refused_by_name(planetoid: Writer, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    folder = planetoid(graph=Intruder(trace))
    with pytest.raises(DataError, match=r"ind.tiny.graph: asks for (posix|nt).mkdir, which no file of arrays needs"):
        read_graph(str(folder))
    assert not trace.exists()


@pytest.mark.parametrize("name", ["builtins.eval", "numpy.load", "builtins.getattr", "_codecs.open"])
def test_nothing_beyond_arrays_can_be_asked_for(tmp_path: Path, name: str) -> None:
    module, _, attribute = name.rpartition(".")
    path = tmp_path / "file"
    path.write_bytes(f"c{module}\n{attribute}\n.".encode())
    with pytest.raises(DataError, match=re.escape(f"asks for {name}")):
        read_pickle(path)


def test_an_instruction_that_files_of_arrays_do_not_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps({"a", "set"}, protocol=4))
    with pytest.raises(DataError, match="file: asks for the instruction FRAME, which no file of arrays needs"):
        read_pickle(path)


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps(np.array([{}, []], dtype=object), protocol=2))
    with pytest.raises(DataError, match=r"file: not a whole pickle of arrays \(array elements of type 'O8'"):
        read_pickle(path)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", ">f4", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_out_as_they_went_in(tmp_path: Path, dtype: str, order: str) -> None:
    array = np.asarray(np.arange(6).reshape(2, 3), dtype=dtype, order=order)  # type: ignore[call-overload]
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps(array, protocol=2))
    assert np.array_equal(read_pickle(path), array)


@pytest.mark.parametrize("kept", [0, 1, 60])
def test_a_damaged_file_is_a_clear_error(planetoid: Writer, kept: int) -> None:
    folder = planetoid()
    whole = (folder / "ind.tiny.allx").read_bytes()
    (folder / "ind.tiny.allx").write_bytes(whole[:kept])
    with pytest.raises(DataError, match=r"ind.tiny.allx: not a whole pickle of arrays .* Get the file again."):
        read_graph(str(folder))


def test_what_does_not_fit_together_is_a_clear_error(planetoid: Writer) -> None:
    folder = planetoid(ty=np.eye(2, dtype=np.int32)[[0]])
    with pytest.raises(DataError, match="ind.tiny.ty: 1 rows, expected 2, one for each node."):
        read_graph(str(folder))
    folder = planetoid(graph={0: [1, 99]})
    with pytest.raises(DataError, match="ind.tiny.graph: an edge names node 99, and nodes are numbered 0 to 7."):
        read_graph(str(folder))


def test_missing_and_broken_parts_are_named(planetoid: Writer) -> None:
    folder = planetoid()
    (folder / "ind.tiny.test.index").write_text("7\nfive\n")
    with pytest.raises(DataError, match=r"ind.tiny.test.index, line 2: 'five' is no node's number"):
        read_graph(str(folder))
    (folder / "ind.tiny.tx").unlink()
    with pytest.raises(DataError, match="no file ind.tiny.tx"):
        read_graph(str(folder))


def test_a_byte_gone_wrong_never_does_worse_than_a_clear_error(tmp_path: Path) -> None:
    whole = pickle.dumps(scipy.sparse.csr_matrix(np.eye(3, dtype=np.float32)), protocol=2)
    path = tmp_path / "file"
    generator = np.random.default_rng(0)
    messages = []
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] = generator.integers(256)
        path.write_bytes(damaged)
        try:
            read_pickle(path)
        except DataError as error:
            messages.append(str(error))
    assert len(messages) > len(whole) / 2
    assert all(message.startswith(str(path)) for message in messages)


def test_bytes_are_made_no_more_often_than_they_are_there(tmp_path: Path) -> None:
    """One text that is turned into bytes again and again is little in a file and much in memory."""
    text = b"X" + (1000).to_bytes(4, "little") + b"a" * 1000 + b"q\x00"
    again = b"c_codecs\nencode\nh\x00X\x06\0\0\0latin1\x86R"
    path = tmp_path / "file"
    path.write_bytes(b"\x80\x02(" + text + again * 2 + b"l.")
    with pytest.raises(DataError, match="asks for the instruction LIST"):
        read_pickle(path)
    path.write_bytes(b"\x80\x02]q\x01(" + text + again * 50 + b"e.")
    with pytest.raises(DataError, match="more bytes come out than are in the file"):
        read_pickle(path)


def test_a_list_within_itself_has_no_end_and_is_refused(tmp_path: Path) -> None:
    endless: list[object] = []
    endless.append(endless)
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps(endless, protocol=2))
    with pytest.raises(DataError, match="a list or a dictionary that is shared"):
        read_pickle(path)


def test_an_array_that_was_never_filled(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"\x80\x02cnumpy\nndarray\n)R.", b"\x80\x02cscipy.sparse._csr\ncsr_matrix\n)\x81.", b"\x80\x02."):
        path.write_bytes(content)
        with pytest.raises(DataError, match="file: not a whole pickle of arrays"):
            read_pickle(path)


def test_classes_have_the_names_of_a_known_graph_only_where_they_are_as_many(planetoid: Writer) -> None:
    folder = planetoid()
    for file in list(folder.iterdir()):
        file.rename(folder / file.name.replace("tiny", "cora"))
    assert read_graph(str(folder)).classes == ("class 0", "class 1")


def test_blank_lines_and_windows_ends_among_test_nodes(planetoid: Writer) -> None:
    folder = planetoid()
    (folder / "ind.tiny.test.index").write_text("7\r\n5\r\n\n")
    assert read_graph(str(folder)).splits["test"].tolist() == [5, 7]
