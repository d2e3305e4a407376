"""Baselines that are kept in the cache folder: the same numbers, measured once for data, code and machine."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from porism.costing import code_version
from porism.tasks.language import task as language
from porism.tasks.language.baselines import baseline_cross_entropies
from porism.tasks.language.recipes import LanguageRecipe
from porism.tasks.language.task import Language
from porism.training import baseline_cache, baselines
from porism.training.baselines import baselines_of, begin_baselines
from porism.training.task import UserObjects


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(baselines, "_known", {})
    code_version.source_checksum.cache_clear()
    yield tmp_path / "cache" / baseline_cache.FOLDER
    code_version.source_checksum.cache_clear()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has an entry for each time that they are measured."""
    times: list[int] = []

    def counted(*given: object) -> dict[str, dict[str, float]]:
        times.append(len(times))
        return baseline_cross_entropies(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(language, "baseline_cross_entropies", counted)
    return times


def in_another_process(task: Language) -> baseline_cache.Baselines:
    """What a process finds that begins now: it has nothing in memory."""
    baselines._known.clear()
    return baselines_of(task)


def test_a_later_process_reads_what_was_measured(task: Language, measured: list[int]) -> None:
    first = baselines_of(task)
    assert in_another_process(task) == first == task.baselines()
    assert len(measured) == 2  # by the first, and by the last call above


def test_what_is_kept_is_not_begun(task: Language, tiny: LanguageRecipe, text: str) -> None:
    class Begun(Exception):
        pass

    class Slow(Language):
        def begin_baselines(self) -> None:
            raise Begun

    slow = Slow.load(tiny, text)
    with pytest.raises(Begun):
        begin_baselines(slow)
    baselines_of(task)
    baselines._known.clear()
    begin_baselines(slow)


def _another_source(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(baseline_cache, "source_checksum", lambda: "0" * 64)


def _another_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(baseline_cache, "versions", lambda packages: dict.fromkeys(packages, "0.1"))


def _a_package_less(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(baseline_cache, "find_spec", lambda name: None if name == "sklearn" else name)


def _more_threads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("torch.get_num_threads", lambda: 7)


def _threads_by_the_environment(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("OPENBLAS_NUM_THREADS", "3")


@pytest.mark.parametrize(
    "change", [_another_source, _another_version, _a_package_less, _more_threads, _threads_by_the_environment]
)
def test_they_are_measured_anew_for_other_code_packages_and_threads(
    task: Language, measured: list[int], change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    baselines_of(task)
    change(monkeypatch)
    in_another_process(task)
    assert len(measured) == 2


def test_they_are_measured_anew_for_other_data(
    task: Language, tiny: LanguageRecipe, text: str, tmp_path: Path, measured: list[int]
) -> None:
    baselines_of(task)
    (other := tmp_path / "other.txt").write_text(Path(text).read_text() + "the dog sleeps\n")
    in_another_process(Language.load(tiny, str(other)))
    assert len(measured) == 2
    in_another_process(Language.load(replace(tiny, hidden_size=3), text))
    assert len(measured) == 2


@pytest.mark.parametrize("why", ["edited", "in memory", "of another package"])
def test_nothing_is_kept_where_it_is_not_known_what_decides_them(
    why: str, task: Language, folder: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = Language.baselines
    match why:
        case "edited":
            monkeypatch.setattr(code_version, "_LOADED_AT", 0.0)
        case "in memory":
            task.user_objects = UserObjects(data=["a text"])
        case "of another package":
            monkeypatch.setattr(Language, "baselines", lambda self: measure(self))
    baselines_of(task)
    in_another_process(task)
    assert len(measured) == 2
    assert not folder.exists()


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"sha256": "", "body": "{}"}'], ids=["empty", "list", "changed"])
def test_a_damaged_file_is_replaced(content: bytes, task: Language, folder: Path, measured: list[int]) -> None:
    first = baselines_of(task)
    (file,) = folder.iterdir()
    file.write_bytes(content)
    with pytest.warns(UserWarning, match="cannot be read .*; they are measured again"):
        assert in_another_process(task) == first
    assert in_another_process(task) == first
    assert len(measured) == 2


def test_a_folder_that_cannot_be_written_is_no_failure(task: Language, folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("a file, no folder")
    with pytest.warns(UserWarning, match="they cannot be kept in"):
        assert baselines_of(task) == task.baselines()
