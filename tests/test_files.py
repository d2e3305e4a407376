"""A file is the old one or the whole new one, and errors are one line."""

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from porism.errors import DiskError, RunError
from porism.files import (
    cache_folder,
    cached,
    cannot_write,
    own_temporary,
    sha256_of_json,
    warn_not_kept,
    write_atomically,
)


def test_the_new_file_replaces_the_old_one_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.json", b"old")
    write_atomically(tmp_path / "a.json", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"new"


def test_a_disk_that_nothing_can_be_written_to_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("open", "unlink", "replace"):
        monkeypatch.setattr(Path, name, refuse)
    with pytest.raises(RunError, match=r"a\.json cannot be written: Read-only file system\. Choose another"):
        write_atomically(tmp_path / "a.json", b"new")


def test_free_bytes_are_asked_for_before_what_was_written_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)

    def free(folder: Path) -> Any:
        assert own_temporary(tmp_path / "a.json").exists()
        return usage._replace(free=12_345)

    def full(descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "disk_usage", free)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"the disk is full: .*a\.json needs 3 bytes, 12,345 are free"):
        write_atomically(tmp_path / "a.json", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_inodes_is_not_told_by_its_bytes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_files=18, f_favail=0, f_bavail=5, f_bfree=5, f_blocks=9, f_frsize=1000)
    monkeypatch.setattr(os, "statvfs", lambda folder: disk)
    refusal = cannot_write(tmp_path / "a.json", OSError(errno.ENOSPC, "No space left on device"), 3)
    assert "needs 3 bytes, 5,000 are free, but all 18 inodes of the disk are taken." in str(refusal)


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(DiskError) as caught:
        write_atomically(tmp_path / "run" / "a.json", b"new")
    assert str(caught.value) == (
        f"{tmp_path / 'run' / 'a.json'} cannot be written: {tmp_path / 'run'} is gone. Bring it back, or if it was "
        "moved, go on there with: porism train --resume FOLDER"
    )


def test_a_link_under_the_temporary_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    own_temporary(tmp_path / "a.json").symlink_to("mine")
    write_atomically(tmp_path / "a.json", b"new")
    assert (tmp_path / "mine").read_text() == "mine"
    assert (tmp_path / "a.json").read_bytes() == b"new"


def test_two_processes_do_not_share_a_temporary_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = own_temporary(tmp_path / "a.json")
    monkeypatch.setattr(os, "getpid", lambda: 12345)
    assert own_temporary(tmp_path / "a.json").name == ".a.json.12345.writing"
    assert own_temporary(tmp_path / "a.json") != ours


def test_one_cache_folder_and_data_of_0_1_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORISM_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    old = tmp_path / ".cache" / "porism"
    assert cache_folder() == old
    (old / "ptb").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_folder() == tmp_path / "shared" / "porism"
    assert cached("ptb") == old / "ptb"
    assert cached("an4") == tmp_path / "shared" / "porism" / "an4"
    (tmp_path / "shared" / "porism" / "ptb").mkdir(parents=True)
    assert cached("ptb") == tmp_path / "shared" / "porism" / "ptb"
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "mine"))
    assert cached("ptb") == tmp_path / "mine" / "ptb"


def test_a_checksum_of_json_is_of_what_it_says() -> None:
    assert sha256_of_json({"a": 1, "b": [0.1, None]}) == sha256_of_json({"b": [0.1, None], "a": 1})
    assert sha256_of_json({"a": 1}) != sha256_of_json({"a": "1"})


def test_what_cannot_be_kept_is_told_where_the_caller_s_caller_asked_for_it() -> None:
    def keep() -> None:
        warn_not_kept("formulas", Path("cache"), error)

    def derive() -> None:
        keep()

    error = RunError("not ours")
    error.__cause__ = OSError("no space left")
    message = "^formulas cannot be kept in cache: no space left. Let PORISM_DATA or XDG_CACHE_HOME name a folder"
    with pytest.warns(UserWarning, match=message) as caught:
        derive()  # the line that the warning names
    assert "derive()  # the line" in Path(caught[0].filename).read_text().splitlines()[caught[0].lineno - 1]
