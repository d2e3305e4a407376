"""What came of a run: metrics.json, with checksums of its own content and of the files it stands for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from porism.errors import RunError, advise, resuming
from porism.files import read_bytes, sha256, sha256_of_json, without_nan

METRICS, EXHIBITS, OUTCOMES, EXAMPLES = "metrics.json", "exhibits.json", "outcomes.json", "examples.json"


@dataclass(frozen=True)
class Results:
    """What metrics.json says, and the checksums it gives by the names of files. Those of 0.1 give none."""

    folder: Path
    metrics: dict[str, Any]
    sha256: dict[str, str]

    def attached(self, name: str) -> bytes | None:
        """The content of a file that was written with these results, None where there was none."""
        path = self.folder / name
        if not self.sha256:
            return read_bytes(path) if path.is_file() else None
        if name not in self.sha256:
            return None
        content = read_bytes(path)
        if sha256(content) != self.sha256[name]:
            raise damaged(path, "its content was altered")
        return content


def encode_results(metrics: Mapping[str, Any], attached: Mapping[str, str]) -> bytes:
    """The content of metrics.json. attached: the checksums of the files that the results stand for."""
    # To JSON and back, so that the checksum is of what a reader will find.
    content = json.loads(json.dumps(without_nan({**metrics, "sha256": dict(attached)}), allow_nan=False))
    content["sha256"][METRICS] = sha256_of_json(content)
    return json.dumps(content, indent=1).encode()


def read_results(folder: Path, sealed: bool) -> Results | None:
    """What metrics.json says, checked; None where the run has not finished.

    sealed: the run is one whose files all have checksums; otherwise it may be of 0.1, which gave them none.
    """
    path = folder / METRICS
    if not path.is_file():
        return None
    content = _decoded(path)
    recorded = content.pop("sha256", None)
    if recorded is None and not sealed:
        return Results(folder, content, {})
    try:
        checksums = msgspec.convert(recorded, dict[str, str])
        own = checksums.pop(METRICS)
    except (msgspec.ValidationError, KeyError):
        raise damaged(path, "its checksums are missing or altered") from None
    if sha256_of_json({**content, "sha256": checksums}) != own:
        raise damaged(path, "its content was altered")
    return Results(folder, content, checksums)


def _decoded(path: Path) -> dict[str, Any]:
    try:
        return msgspec.convert(json.loads(read_bytes(path).decode()), dict[str, Any])
    except msgspec.ValidationError as error:
        raise damaged(path, f"{error}") from None
    except json.JSONDecodeError as error:
        raise damaged(path, f"not JSON: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"not JSON: {error}") from None


def damaged(path: Path, why: str, line: int | None = None) -> RunError:
    """What to tell of results that cannot be trusted."""
    place = f"{path}, line {line}" if line else f"{path}"
    return RunError(
        f"{place}: {why}. Bring it back as it was, or delete {path.parent / METRICS} and have the results written anew",
        advise("with: {}", resuming(path.parent)),
    )
