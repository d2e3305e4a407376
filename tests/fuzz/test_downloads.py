"""Downloads that break off, time out or bring something else: the whole file, or none and one line."""

import gzip
import http.client
import io
import urllib.error
import urllib.request
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from tests.fuzz.cases import Fuzz, attempt, check_both
from tests.fuzz.mutations import CHANGE, NUMBERS, Change, mutated

from porism.errors import DataError, PorismError
from porism.tasks.blocks.download import PublicFile, fetch, read_content

CONTENT = b"the cat sees the dog\n" * 40
SENT = {"": CONTENT, ".gz": gzip.compress(CONTENT, mtime=0)}
BROKEN = (
    None,
    TimeoutError("timed out"),
    ConnectionResetError(104, "Connection reset by peer"),
    http.client.IncompleteRead(b"", 10),
    OSError(28, "No space left on device"),
    urllib.error.URLError("no route\nto host"),
    http.client.BadStatusLine("\r\n"),
)


class Answer(io.BytesIO):
    """What a server sends, up to a place where it breaks off."""

    def __init__(self, content: bytes, end: int, error: Exception | None, length: str | None) -> None:
        super().__init__(content)
        self.end, self.error = end, error
        self.headers = {} if length is None else {"Content-Length": length}

    def read(self, size: int | None = -1, /) -> bytes:
        if self.error is not None and self.tell() >= self.end:
            raise self.error
        wanted = len(self.getvalue()) if size is None or size < 0 else size
        return super().read(min(wanted, 7 if self.error is None else max(1, self.end - self.tell())))


class Trouble(NamedTuple):
    suffix: str
    changes: list[Change]
    end: int
    error: int
    length: str | None
    left: bytes | None
    """What a download that was killed left beside the file."""


TROUBLES = st.builds(
    Trouble,
    st.sampled_from(["", ".gz"]),
    st.lists(CHANGE, max_size=2),
    NUMBERS,
    st.integers(0, len(BROKEN) - 1),
    st.sampled_from([None, "0", "840", "none", "-1", "99999999999999999999"]),
    st.none() | st.binary(max_size=30),
)


def test_a_download_is_whole_or_not_there(fuzz: Fuzz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: answers.pop())
    outcomes: list[bool] = []

    def check(trouble: Trouble) -> None:
        folder = tmp_path / str(len(outcomes))
        folder.mkdir()
        sent = SENT[trouble.suffix]
        for change in trouble.changes:
            sent = mutated(sent, change)
        error = BROKEN[trouble.error]
        answers.append(Answer(sent, trouble.end % (len(sent) + 1), error, trouble.length))
        if trouble.left is not None:
            (folder / f"a.txt{trouble.suffix}.killed.part").write_bytes(trouble.left)
        before = sorted(folder.iterdir())
        file = PublicFile("a.txt", f"https://example.org/a.txt{trouble.suffix}", sha256(CONTENT).hexdigest())
        found = attempt(lambda: fetch(file, folder))
        outcomes.append(isinstance(found, PorismError))
        if isinstance(found, PorismError):
            assert isinstance(found, DataError)
            assert sorted(folder.iterdir()) == before
        else:
            assert read_content(found) == CONTENT

    fuzz(TROUBLES, check, share=40, whole=800)
    check_both(outcomes)
