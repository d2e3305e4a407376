"""Which cases of a sweep run, and in which order all tests run: both drawn from one printed seed.

Order. Files are shuffled, and the tests within each file. The tests of a file stay together, so that what a file sets
up for all its tests is set up once. A test's place is a hash of the seed and its own name: the same tests stand in the
same order whichever others are asked for, and a failure can be repeated with few files. The random modules are left
as they are: to seed them before each test, as pytest-randomly does unless told otherwise, would hide a test that lives
on what its neighbour drew. That, and one seed for order and shares, is why it is not used here.

Shares. `@pytest.mark.sweep(8)` says that of the parametrised cases of a test eight are enough for `make test`, drawn
by the seed; with `sweep(2, each="case")` two for each value of the argument `case`, with `sweep(0)` none: one long
test, not a sweep, that only `make test-all` waits for. That is `pytest --whole`, which runs all cases, and so does a
test that is named on the command line. A loop inside a test asks the fixture `is_whole`. `--whole --share=0.5` runs
half of the cases of every sweep, and of each at least what `make test` runs: where a change is judged, time is limited.
There `--minutes=9` skips, once nine minutes are over, all that `make test` would not run: slow machines try less.
`sample(3)` is a sweep that `--share` leaves whole, for cases that are few and unlike; as the `pytestmark` of a file it
says that so many of its tests are enough.
"""

import argparse
import hashlib
import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence

import pytest

ORDERS = ("shuffled", "written", "reversed")
SWEEP = "sweep(cases, each=None): so many parametrised cases, drawn by --seed, are enough without --whole"
SAMPLE = "sample(tests): so many cases of a test, or tests of a file, drawn by --seed, are enough without --whole"
FIXED = 1
"""The seed where a change is judged: whether it may go in must not hang on what was drawn."""

Place = Callable[[str], bytes]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="sweeps as a whole, not a share of them drawn by --seed")
    parser.addoption("--share", type=_share, default=1.0, help="with --whole: this part of each sweep (default: 1)")
    parser.addoption("--minutes", type=float, help="with --whole: what else would not run is skipped after so many")
    parser.addoption("--order", choices=ORDERS, default="shuffled", help="the order of the tests (default: shuffled)")
    parser.addoption("--seed", type=int, help="draws order and shares; without it one is drawn and printed")


LEFT_OUT_OTHERWISE = pytest.StashKey[bool]()
"""Of a test that does not run without --whole."""
BEGAN = pytest.StashKey[float]()


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and up to 1")
    return share


def pytest_configure(config: pytest.Config) -> None:
    config.stash[BEGAN] = time.monotonic()
    config.addinivalue_line("markers", SWEEP)
    config.addinivalue_line("markers", SAMPLE)
    if config.option.seed is None:
        # Workers are processes of their own and must agree with the one that started them.
        sent = getattr(config, "workerinput", {}).get("seed")
        drawn = FIXED if os.environ.get("CI") else random.SystemRandom().randrange(10_000)
        config.option.seed = drawn if sent is None else sent


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: "object") -> None:
    node.workerinput["seed"] = node.config.option.seed  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Every second worker begins at the last file of each folder, where the order of tests is drawn.

    The first run of a checkout compiles all tests, which is a third of what it takes to collect them: workers that
    begin at the same file compile each one twice, and these find half of them compiled by the other.
    """
    report = yield
    worker = int(getattr(collector.config, "workerinput", {}).get("workerid", "gw0").removeprefix("gw"))
    if worker % 2 and collector.config.option.order == "shuffled" and isinstance(collector, pytest.Directory):
        report.result.reverse()
    return report


@pytest.fixture
def is_whole(pytestconfig: pytest.Config) -> bool:
    """For a test that sweeps in a loop of its own."""
    return bool(pytestconfig.option.whole)


def pytest_report_header(config: pytest.Config) -> str:
    return repeat(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    failed = any(terminalreporter.stats.get(kind) for kind in ("failed", "error"))
    if failed:
        terminalreporter.write_line(repeat(terminalreporter.config))


def repeat(config: pytest.Config) -> str:
    """What makes the same tests run in the same order."""
    whole = " --whole" if config.option.whole else ""
    whole += f" --share={config.option.share:g}" if config.option.whole and config.option.share < 1 else ""
    return f"tests {config.option.order}: --seed={config.option.seed} --order={config.option.order}{whole}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def place(name: str) -> bytes:
        return hashlib.sha256(f"{config.option.seed} {name}".encode()).digest()

    named = any("::" in argument for argument in config.args) or config.getoption("lf", False)
    share = 1.0 if named else config.option.share if config.option.whole else 0.0
    kept = items if share == 1 else shares(items, place, share)
    kept = kept if share else samples(kept, place)
    left = set(items).difference(kept)
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
    usual = set(samples(shares(items, place), place))
    for item in kept:
        item.stash[LEFT_OUT_OTHERWISE] = item not in usual
    items[:] = ordered(kept, config.option.order, place)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = item.config.option.minutes
    if minutes is None or not item.stash[LEFT_OUT_OTHERWISE]:
        return
    if time.monotonic() - item.config.stash[BEGAN] > 60 * minutes:
        pytest.skip(f"the {minutes:g} minutes for what runs with --whole alone are over")


def ordered(items: Sequence[pytest.Item], order: str, place: Place) -> list[pytest.Item]:
    if order == "shuffled":
        return sorted(items, key=lambda item: (place(item.nodeid.partition("::")[0]), place(item.nodeid)))
    return list(items) if order == "written" else list(reversed(items))


def shares(items: Sequence[pytest.Item], place: Place, share: float = 0.0) -> list[pytest.Item]:
    """All tests, but of a sweep no more cases than its mark asks for, or than this share of all."""
    sweeps: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (mark := item.get_closest_marker("sweep")) is not None:
            each = mark.kwargs.get("each")
            # The value itself need not be hashable or have a readable repr; it is the same object in all its cases.
            value = "" if each is None else str(id(item.callspec.params[each]))  # type: ignore[attr-defined]
            sweeps[item.nodeid.partition("[")[0], value].append(item)
    left = set()
    for cases in sweeps.values():
        mark = cases[0].get_closest_marker("sweep")
        assert mark is not None
        most = max(mark.args[0], math.ceil(share * len(cases)))
        left |= set(sorted(cases, key=lambda item: place(item.nodeid))[most:])
    return [item for item in items if item not in left]


def samples(items: Sequence[pytest.Item], place: Place) -> list[pytest.Item]:
    """All tests, but of those that are marked to be sampled no more than their mark asks for."""
    sampled: dict[str, list[pytest.Item]] = defaultdict(list)
    most: dict[str, int] = {}
    for item in items:
        for node, mark in item.iter_markers_with_node("sample"):
            group = node.nodeid.partition("[")[0]
            sampled[group].append(item)
            most[group] = mark.args[0]
            break  # that of the test itself comes first
    left: set[pytest.Item] = set()
    for group, tests in sampled.items():
        left |= set(sorted(tests, key=lambda item: place(item.nodeid))[most[group] :])
    return [item for item in items if item not in left]
