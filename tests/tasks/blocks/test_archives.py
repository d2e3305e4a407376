"""An archive is unpacked whole, into its own folder and to so many bytes, or not at all."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from porism.errors import DataError
from porism.tasks.blocks.archives import unpack_folder

MOST = 100_000


def archive(path: Path, *added: tuple[tarfile.TarInfo, bytes], kind: str = "w:bz2") -> Path:
    with tarfile.open(path, kind) as made:  # type: ignore[call-overload]
        for member, content in added:
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return path


def file(name: str, content: bytes = b"sound") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member, b""


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-30])
    return path


GOOD = file("speech/a.wav")
BAD: dict[str, Callable[[Path], Path]] = {
    "a file above": lambda path: archive(path, GOOD, file("../evil")),
    "a file above by its folder": lambda path: archive(path, GOOD, file("speech/../../evil")),
    "a link above": lambda path: archive(path, GOOD, link("speech/b", "../../evil")),
    "a file through a link": lambda path: archive(path, GOOD, link("speech/b", "/tmp"), file("speech/b/evil")),
    "a hard link to elsewhere": lambda path: archive(path, GOOD, link("speech/b", "/etc/passwd", tarfile.LNKTYPE)),
    "a device": lambda path: archive(path, GOOD, link("speech/b", "", tarfile.CHRTYPE)),
    "a bomb": lambda path: archive(path, GOOD, file("speech/b", bytes(MOST))),
    "a bomb of many files": lambda path: archive(path, *(file(f"speech/{n}", bytes(MOST // 9)) for n in range(10))),
    "another folder": lambda path: archive(path, file("music/a.wav")),
    "cut off": lambda path: cut(archive(path, GOOD, file("speech/b", bytes(range(256)) * 40))),
    "no archive": lambda path: cut(archive(path, kind="w:gz")),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_bad_leaves_nothing(case: str, tmp_path: Path) -> None:
    place = tmp_path / "cache"
    place.mkdir()
    with pytest.raises(DataError, match=r"^\S+a\.tar") as raised:
        unpack_folder(BAD[case](place / "a.tar"), place / "speech", MOST)
    assert len(str(raised.value).splitlines()) == 1
    assert [path.name for path in place.iterdir()] == ["a.tar"]
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_what_is_good_is_there_once(tmp_path: Path) -> None:
    made = archive(tmp_path / "a.tar", GOOD)
    unpack_folder(made, tmp_path / "new" / "speech", MOST)
    assert (tmp_path / "new" / "speech" / "a.wav").read_bytes() == b"sound"
    # A second process was slower: what the first unpacked stays.
    unpack_folder(made, tmp_path / "new" / "speech", MOST)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["speech"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="cannot be unpacked to .*speech .*set PORISM_DATA"):
        unpack_folder(archive(tmp_path / "a.tar", GOOD), tmp_path / "file" / "speech", MOST)
