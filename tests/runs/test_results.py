"""What metrics.json says is what the run wrote, and so is what stands beside it."""

import json
from pathlib import Path

import pytest

from porism.errors import RunError
from porism.files import sha256, write_atomically
from porism.runs.results import encode_results, read_results

METRICS = {"recipe": "elman", "metrics": {"test": {"perplexity": 154.92}}, "epochs": 3, "limit": {}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_atomically(tmp_path / "outcomes.json", b'{"test": "0110"}')
    attached = {"recipe.toml": "ab", "outcomes.json": sha256(b'{"test": "0110"}')}
    write_atomically(tmp_path / "metrics.json", encode_results(METRICS, attached))
    return tmp_path


def test_results_come_back_and_the_keys_of_0_1_stay(folder: Path) -> None:
    results = read_results(folder, sealed=True)
    assert results is not None
    assert results.metrics == METRICS
    assert results.attached("outcomes.json") == b'{"test": "0110"}'
    assert json.loads((folder / "metrics.json").read_text()).keys() == METRICS.keys() | {"sha256"}


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    ("old", "new"),
    [("154.92", "1.01"), ('"recipe.toml": "a', '"recipe.toml": "b'), ('"limit"', '"limits"'), ("{", "["), ("}", "")],
)
def test_altered_results_are_refused_in_one_line(folder: Path, old: str, new: str, sealed: bool) -> None:
    path = folder / "metrics.json"
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new, 1))
    with pytest.raises(RunError, match=r"metrics\.json.*delete .*metrics.json and have the results written") as caught:
        read_results(folder, sealed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"[]", b"7", b'{"sha256": 3}', b'{"sha256": {}}', b"[" * 100_000]
)
def test_what_is_no_result_is_refused_in_one_line(folder: Path, content: bytes) -> None:
    (folder / "metrics.json").write_bytes(content)
    with pytest.raises(RunError, match=r"metrics\.json") as caught:
        read_results(folder, sealed=False)
    assert "\n" not in str(caught.value)


def test_checksums_can_be_missing_in_runs_of_0_1_only(folder: Path) -> None:
    (folder / "metrics.json").write_text(json.dumps(METRICS))
    results = read_results(folder, sealed=False)
    assert results is not None
    assert results.metrics == METRICS
    assert results.attached("outcomes.json") == b'{"test": "0110"}'
    with pytest.raises(RunError, match="its checksums are missing or altered"):
        read_results(folder, sealed=True)


def test_a_file_beside_the_results_is_the_one_that_was_written(folder: Path) -> None:
    results = read_results(folder, sealed=True)
    assert results is not None
    (folder / "exhibits.json").write_text("[]")
    assert results.attached("exhibits.json") is None
    (folder / "outcomes.json").write_text('{"test": "1111"}')
    with pytest.raises(RunError, match=r"outcomes\.json: its content was altered"):
        results.attached("outcomes.json")
    (folder / "outcomes.json").unlink()
    with pytest.raises(RunError, match=r"outcomes\.json cannot be read"):
        results.attached("outcomes.json")
