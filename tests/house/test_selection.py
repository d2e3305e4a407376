"""The order of tests and the share of a sweep: drawn by a seed, repeated by it, and whole when asked."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.selection import ordered, shares

pytest_plugins = ["pytester"]

FILE = """
import pytest

@pytest.mark.sweep(2, each="layer")
@pytest.mark.parametrize("layer", ["elman", "lstm"])
@pytest.mark.parametrize("size", range(5))
def test_swept(layer, size): pass

@pytest.mark.sample(1)
@pytest.mark.parametrize("size", range(3))
def test_sampled(size): pass

def test_alone(): pass
"""


@dataclass(eq=False)
class Item:
    """As much of a pytest.Item as is looked at."""

    nodeid: str
    mark: Any = None
    callspec: Any = field(default_factory=lambda: SimpleNamespace(params={}))

    def get_closest_marker(self, _name: str) -> Any:
        return self.mark


def names(items: list[pytest.Item]) -> list[str]:
    return [item.nodeid for item in items]


def by_seed(seed: int) -> Callable[[str], bytes]:
    return lambda name: f"{hash((seed, len(name), name[-2:])):x}".encode()


def items_of(*files: str) -> list[pytest.Item]:
    return cast(list[pytest.Item], [Item(f"{file}::test_{number}") for file in files for number in range(4)])


def test_files_stay_together_and_order_repeats() -> None:
    items = items_of("a.py", "b.py", "c.py")
    place = lambda name: {"a.py": b"3", "b.py": b"1", "c.py": b"2"}.get(name, name[::-1].encode())  # noqa: E731
    found = names(ordered(items, "shuffled", place))
    assert [name[0] for name in found] == [*"bbbbccccaaaa"]
    # The same place whichever others are there.
    few = [item for item in items if item.nodeid[0] != "c"]
    assert names(ordered(few, "shuffled", place)) == [name for name in found if name[0] != "c"]


def test_written_and_reversed() -> None:
    items = items_of("a.py", "b.py")
    assert names(ordered(items, "written", by_seed(0))) == names(items)
    assert names(ordered(items, "reversed", by_seed(0))) == names(items)[::-1]


def test_a_sweep_has_its_share() -> None:
    mark = pytest.mark.sweep(3).mark
    items = items_of("a.py")
    swept = cast(list[pytest.Item], [Item(f"b.py::test_all[{number}]", mark) for number in range(9)])
    kept = shares([*items, *swept], lambda name: name[::-1].encode())
    assert names(kept) == [*names(items), *names(swept)[:3]]
    assert names(shares(swept, lambda name: bytes(255 - sign for sign in name.encode()))) == names(swept)[-3:]
    # A part of all, where more than the share has time; never less than the mark asks for.
    for part, count in ((0.1, 3), (0.5, 5), (0.9, 9)):
        assert len(shares(swept, by_seed(1), part)) == count


def test_a_file_has_its_share(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, repository: Any) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_few=FILE.replace("import pytest", "import pytest\npytestmark = pytest.mark.sample(2)"))
    pytester.makeini(f"[pytest]\npythonpath = {repository}\n")
    words = ["-p", "tests.selection", "-p", "no:cacheprovider"]
    # Two of all that the file has, and one of the test with a mark of its own.
    pytester.runpytest_inprocess(*words, "--seed=3").assert_outcomes(passed=3)


@pytest.mark.parametrize(("minutes", "passed", "skipped"), [(0, 6, 8), (60, 14, 0)])
def test_what_time_is_left_for(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    repository: Any,
    minutes: int,
    passed: int,
    skipped: int,
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_few=FILE)
    pytester.makeini(f"[pytest]\npythonpath = {repository}\n")
    words = ["-p", "tests.selection", "-p", "no:cacheprovider", "--seed=3", "--whole", f"--minutes={minutes}"]
    # With none left the tests of a run without --whole, and those alone.
    pytester.runpytest_inprocess(*words).assert_outcomes(passed=passed, skipped=skipped)


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        (["--seed=3"], 6),
        (["--whole"], 14),
        (["--whole", "--share=0.6"], 10),
        (["test_few.py::test_swept"], 10),
        (["-p", "xdist", "-n2", "--seed=3"], 6),
    ],
    ids=["a share", "whole", "part of whole", "named", "workers"],
)
def test_in_a_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, repository: Any, options: list[str], passed: int
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # those of others take seconds to import
    pytester.makepyfile(test_few=FILE)
    pytester.makeini(f"[pytest]\npythonpath = {repository}\n")
    words = ["-p", "tests.selection", "-p", "no:cacheprovider", *options]
    if "-n2" in options:
        pytest.importorskip("xdist")
        result = pytester.run(sys.executable, "-m", "pytest", *words)
    else:
        result = pytester.runpytest_inprocess(*words)
    result.assert_outcomes(passed=passed)
    seed = options[-1] if options[-1].startswith("--seed") else "--seed=*"
    result.stdout.fnmatch_lines([f"tests shuffled: {seed} --order=shuffled*"])
