"""Public files: fetched once, checked, kept; and what the message is when that fails."""

import gc
import gzip
import hashlib
import lzma
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from porism.errors import DataError
from porism.tasks.blocks.download import MOST_PADDING, DataSet, PublicFile, data_folder, fetch, read_content

CONTENT = b"no it was n't black monday\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Tests need no log of requests."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a web server that holds `text.txt`."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "text.txt").write_bytes(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "served")) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_a_file_is_fetched_once_and_kept(server: str, tmp_path: Path) -> None:
    file = PublicFile("corpus/text.txt", f"{server}/text.txt", SHA256)
    place = fetch(file, tmp_path / "data")
    assert place == tmp_path / "data" / "corpus" / "text.txt"
    assert place.read_bytes() == CONTENT
    assert list(place.parent.iterdir()) == [place]
    (tmp_path / "served" / "text.txt").unlink()
    assert fetch(file, tmp_path / "data") == place


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), ("", bytes)])
def test_a_file_put_there_by_hand_is_not_fetched(suffix: str, compress: type[bytes], tmp_path: Path) -> None:
    kept = tmp_path / f"text.txt{suffix}"
    kept.write_bytes(compress(CONTENT))
    assert fetch(PublicFile("text.txt", "file:///nowhere", SHA256), tmp_path) == kept
    assert read_content(kept) == CONTENT


def test_an_address_of_a_compressed_file_gives_one_that_is_kept_so(server: str, tmp_path: Path) -> None:
    (tmp_path / "served" / "text.txt.gz").write_bytes(gzip.compress(CONTENT))
    file = PublicFile("text.txt", f"{server}/text.txt.gz", SHA256)
    place = fetch(file, tmp_path / "data")
    assert place == tmp_path / "data" / "text.txt.gz"
    assert read_content(place) == CONTENT
    (tmp_path / "served" / "text.txt.gz").unlink()
    assert fetch(file, tmp_path / "data") == place


def test_an_md5_serves_where_only_that_is_published(server: str, tmp_path: Path) -> None:
    md5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    assert fetch(PublicFile("text.txt", f"{server}/text.txt", md5=md5), tmp_path / "data").read_bytes() == CONTENT
    other = PublicFile("other.txt", f"{server}/text.txt", md5="0" * 32)
    with pytest.raises(DataError, match=f"what came has md5 {md5}, expected {'0' * 32}; not kept"):
        fetch(other, tmp_path / "data")


def test_a_kept_file_with_other_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"other")
    found = hashlib.sha256(b"other").hexdigest()
    message = (
        f"{tmp_path}/text.txt: its content has sha256 {found}, expected {SHA256}. Delete it to have file:///x fetched."
    )
    with pytest.raises(DataError) as refused:
        fetch(PublicFile("text.txt", "file:///x", SHA256), tmp_path)
    assert str(refused.value) == message


def test_what_comes_with_another_checksum_is_not_kept(server: str, tmp_path: Path) -> None:
    expected, folder = "0" * 64, tmp_path / "data"
    with pytest.raises(DataError) as refused:
        fetch(PublicFile("text.txt", f"{server}/text.txt", expected), folder)
    assert str(refused.value) == (
        f"{server}/text.txt: what came has sha256 {SHA256}, expected {expected}; not kept. Try again. "
        f"Or get it by hand from {server}/text.txt and put it at {folder}/text.txt (sha256 {expected})."
    )
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("path", ["/gone.txt", ":1/text.txt"])
def test_a_failed_download_says_what_to_do_by_hand(server: str, path: str, tmp_path: Path) -> None:
    url = server + path if path.startswith("/") else "http://127.0.0.1" + path
    folder = tmp_path / "data"
    with pytest.raises(DataError) as refused:
        fetch(PublicFile("text.txt", url, SHA256), folder)
    message = str(refused.value)
    del refused
    gc.collect()  # a connection left open would be noticed here
    assert message.startswith(f"{url}: could not be fetched (")
    assert message.endswith(
        f"Try again with a network. Or get it by hand from {url} and put it at {folder}/text.txt (sha256 {SHA256})."
    )
    assert "\n" not in message
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"data: cannot be written \(.*\). Set PORISM_DATA to a folder of yours.$"):
        fetch(PublicFile("text.txt", "file:///x", SHA256), tmp_path / "data")


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PORISM_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("PORISM_DATA")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "porism"


def test_what_0_1_fetched_is_found_wherever_the_cache_is_now(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PORISM_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    old = tmp_path / ".cache" / "porism" / "text.txt"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"words")
    file = PublicFile("text.txt", "file:///nowhere", hashlib.sha256(b"words").hexdigest())
    assert fetch(file) == fetch(file, data_folder()) == old
    assert DataSet("", "", {"all": file}).here()
    with pytest.raises(DataError):
        fetch(file, tmp_path / "other")


def test_a_data_set_is_here_when_all_its_files_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PORISM_DATA", str(tmp_path))
    data = DataSet("two files", "", {part: PublicFile(f"two/{part}.txt", "file:///x", SHA256) for part in "ab"})
    assert data.folder() == tmp_path / "two"
    assert not data.here()
    data.folder().mkdir()
    (data.folder() / "a.txt").touch()
    assert not data.here()
    (data.folder() / "b.txt.xz").touch()
    assert data.here()


def test_embedded_data_is_always_here() -> None:
    assert DataSet("embedded", "").here()


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("damage", ["cut", "plain"])
def test_a_broken_archive_is_named(suffix: str, compress: type[bytes], damage: str, tmp_path: Path) -> None:
    broken = tmp_path / f"text.txt{suffix}"
    broken.write_bytes(compress(CONTENT)[:-9] if damage == "cut" else CONTENT)
    with pytest.raises(
        DataError, match=rf"text.txt{suffix}: not a whole {suffix} file \(.*\). Copy or compress it again"
    ):
        read_content(broken)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone.txt: no such file. Check the path.$"):
        read_content(tmp_path / "gone.txt")
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\). Check its permissions.$"):
        read_content(tmp_path)


@pytest.mark.parametrize(("zeros", "right"), [(512, True), (MOST_PADDING, True), (2**40, False)])
def test_zeros_after_a_compressed_file_are_skipped_or_refused(zeros: int, right: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(CONTENT))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + zeros)  # a hole, which takes no room
    if right:
        assert read_content(path) == CONTENT
        return
    with pytest.raises(DataError, match=rf"a\.txt\.gz: not a whole \.gz file \(more than {MOST_PADDING:,} zero bytes"):
        read_content(path)
