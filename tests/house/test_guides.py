"""What the guides show is what the program says: their examples are run."""

import doctest
from pathlib import Path

import pytest


@pytest.mark.parametrize("guide", sorted((Path(__file__).parents[2] / "docs").glob("*.md")), ids=lambda path: path.stem)
def test_every_example_of_a_guide_gives_what_it_shows(
    guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # what examples measure is not kept
    ran = doctest.testfile(str(guide), module_relative=False)
    assert ran.attempted > 0
    assert ran.failed == 0
