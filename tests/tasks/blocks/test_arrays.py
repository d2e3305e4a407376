"""Arrays come out of an .npz as numpy wrote them, and files that do not hold what their header says are refused."""

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porism.errors import DataError
from porism.tasks.blocks.arrays import open_npz

NUMBERS = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "array",
    [
        *(NUMBERS.astype(dtype) for dtype in ("?", "i1", "u2", "<i4", ">i4", "u8", "f2", "<f4", ">f8")),
        np.asfortranarray(NUMBERS),
        NUMBERS[:, ::2],
        np.array(7),
        np.zeros((0, 4)),
        np.zeros(0, ">i8"),
        np.array(["one", "größer", ""]),
        np.array([b"one", b"two"]),
    ],
    ids=lambda array: f"{array.dtype.str} {array.shape}",
)
def test_an_array_comes_out_as_it_went_in(tmp_path: Path, array: Any, save: Any) -> None:
    save(tmp_path / "file.npz", array=array, other=NUMBERS)
    with open_npz(tmp_path / "file.npz") as file:
        assert file.names == ["array", "other"]
        found = file.read("array")
    assert np.array_equal(found, array)
    assert found.shape == array.shape
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.dtype.isnative
    assert found.flags.writeable
    assert found.flags.c_contiguous


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.savez(content, numbers=NUMBERS)
    (tmp_path / "file.npz.gz").write_bytes(gzip.compress(content.getvalue()))
    with open_npz(tmp_path / "file.npz.gz") as file:
        assert np.array_equal(file.read("numbers"), NUMBERS)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([{}, []], dtype=object), "a holds something else than numbers or text"),
        (np.zeros(2, dtype=[("x", "f8"), ("y", "i4")]), "a holds something else than numbers or text"),
        (np.zeros(2, dtype="c16"), "a holds something else than numbers or text"),
        (np.zeros(2, dtype="M8[s]"), "a holds something else than numbers or text"),
    ],
    ids=["objects", "records", "complex", "dates"],
)
def test_what_is_no_plain_array_is_refused_when_it_is_asked_for(tmp_path: Path, array: Any, reason: str) -> None:
    np.savez(tmp_path / "file.npz", allow_pickle=True, a=array, b=NUMBERS)
    with open_npz(tmp_path / "file.npz") as file:
        assert np.array_equal(file.read("b"), NUMBERS)
        with pytest.raises(DataError, match=rf"file.npz: not a whole .npz of plain arrays \({reason}\)"):
            file.read("a")


def npy(header: bytes, content: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", b"\0" * 8)], "16 bytes, and 8 are there"),
        ([npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", b"\0" * 24)], "16 bytes, and 24 are there"),
        ([npy(b"{'descr': '<i8', 'shape': (2,), }", b"\0" * 16)], "something else than numbers or text"),
        ([npy(b"{'descr': '<U0', 'fortran_order': False, 'shape': (10000000000,), }")], "elements of type <U0"),
        ([npy(b"{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", b"\0" * 16)], "elements of type"),
        ([npy(b" " * 20_000)], "the header of a has 20000 bytes"),
        ([b"\x93NUMPY\x09\x00"], "a is no array"),
        ([b"hello"], "a is no array"),
        ([npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (), }", b"7")] * 2, "two arrays of one name"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_does_not_hold_what_it_says(tmp_path: Path, members: list[bytes], reason: str) -> None:
    path = tmp_path / "file.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for content in members:
            archive.writestr("a.npy", content)
    with (
        pytest.raises(DataError, match=f"file.npz: not a whole .npz of plain arrays .*{reason}"),
        open_npz(path) as file,
    ):
        file.read("a")


def test_an_array_larger_than_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "file.npz", a=np.zeros(10**6))
    monkeypatch.setattr("porism.tasks.blocks.memory.available_bytes", lambda: 7e6)
    with (
        open_npz(tmp_path / "file.npz") as file,
        pytest.raises(DataError, match=r"file.npz: a takes 0.00745 GiB, and 0.00652 GiB of memory are free"),
    ):
        file.read("a")


def test_every_cut_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    np.savez(path, a=NUMBERS)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="file.npz: not a whole .npz"), open_npz(path) as file:
            file.read("a")
    with pytest.raises(DataError, match="gone.npz: no such file"), open_npz(tmp_path / "gone.npz"):
        pass
