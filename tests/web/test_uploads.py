"""Uploads: counted while they are read, kept in a private folder, and gone with the job that used them."""

import stat
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from porism.web import uploads
from porism.web.context import ServerContext
from porism.web.uploads import PICTURE, SOUND


def send(
    client: TestClient, content: bytes | Iterator[bytes], kind: str = "audio/wav"
) -> tuple[int, dict[str, object]]:
    answer = client.post("/api/uploads", content=content, headers={"content-type": kind})
    return answer.status_code, answer.json()


def test_a_file_waits_in_a_folder_for_this_user_alone(client: TestClient, context: ServerContext) -> None:
    status, told = send(client, b"RIFF", "image/png; charset=x")
    assert (status, told["bytes"]) == (201, 4)
    upload = context.uploads.find(str(told["upload"]))
    assert upload.path.read_bytes() == b"RIFF"
    assert upload.path.suffix == ".png"
    assert stat.S_IMODE(upload.path.parent.stat().st_mode) == 0o700
    context.uploads.remove(upload.id)
    assert not upload.path.exists()


@pytest.mark.parametrize(("kind", "most"), [("audio/wav", SOUND), ("image/png", PICTURE)])
def test_a_file_that_is_too_large_is_refused_and_removed(
    client: TestClient, context: ServerContext, kind: str, most: int
) -> None:
    status, told = send(client, (b"x" * 500_000 for _ in range(most // 500_000 + 1)), kind)
    assert (status, told["code"]) == (413, "too_large")
    assert f"{most:,}" in str(told["message"])
    assert list(context.uploads.folder.iterdir()) == []


@pytest.mark.parametrize(
    "kind", ["application/zip", "application/json", "text/plain", "image/svg+xml", "multipart/form-data"]
)
def test_other_media_types_are_refused(client: TestClient, kind: str) -> None:
    status, told = send(client, b"PK", kind)
    assert (status, told["code"]) == (415, "media_type")


def test_an_empty_file_is_refused(client: TestClient, context: ServerContext) -> None:
    assert send(client, b"")[0] == 422
    assert list(context.uploads.folder.iterdir()) == []


def test_files_are_few_and_do_not_wait_for_long(
    client: TestClient, context: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_KEPT", 1)
    name = str(send(client, b"x")[1]["upload"])
    assert send(client, b"x")[0] == 429
    later = time.time() + uploads.KEPT_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert send(client, b"x")[0] == 201
    answer = client.post("/api/predict", json={"run": "old/images", "upload": name})
    assert (answer.status_code, answer.json()["code"]) == (404, "no_upload")
    context.uploads.close()
