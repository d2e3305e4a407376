"""Compiled templates are kept: compiled once, and once more where what was kept cannot be used."""

from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from porism.report.compiled_templates import FOLDER, CompiledTemplates


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates that were compiled, in order; none is kept at first."""
    names: list[str] = []
    compile_template = Environment.compile

    def counted(self: Environment, source: str, name: str, *rest: object) -> object:
        names.append(name)
        return compile_template(self, source, name, *rest)  # type: ignore[call-overload]

    monkeypatch.setattr(Environment, "compile", counted)
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "cache"))
    return names


def rendered(folder: Path, text: str = "{{ name }} of {{ task }}") -> str:
    """A template of that text, as a process that has just begun renders it."""
    folder.mkdir(exist_ok=True)
    (folder / "one.txt").write_text(text)
    environment = Environment(loader=FileSystemLoader(folder), bytecode_cache=CompiledTemplates(), autoescape=True)
    return environment.get_template("one.txt").render(name="<b>", task="words")


def test_a_template_is_compiled_once_wherever_it_lies(tmp_path: Path, compiled: list[str]) -> None:
    answers = {rendered(tmp_path / folder) for folder in ("here", "here", "there")}
    assert answers == {"&lt;b&gt; of words"}
    assert compiled == ["one.txt"]


def test_another_text_is_compiled(tmp_path: Path, compiled: list[str]) -> None:
    rendered(tmp_path / "here")
    assert rendered(tmp_path / "here", "now {{ task }}") == "now words"
    assert compiled == ["one.txt"] * 2


@pytest.mark.parametrize("damage", [b"", b"{}", b"no JSON", b'{"sha256": "0", "body": "1"}'])
def test_a_damaged_file_is_replaced(tmp_path: Path, compiled: list[str], damage: bytes) -> None:
    rendered(tmp_path / "here")
    (kept,) = (tmp_path / "cache" / FOLDER).iterdir()
    kept.write_bytes(damage)
    for _ in range(2):
        assert rendered(tmp_path / "here") == "&lt;b&gt; of words"
    assert compiled == ["one.txt"] * 2


def test_where_nothing_can_be_kept_templates_are_compiled(tmp_path: Path, compiled: list[str]) -> None:
    (tmp_path / "cache").write_text("a file, no folder")
    for _ in range(2):
        assert rendered(tmp_path / "here") == "&lt;b&gt; of words"
    assert compiled == ["one.txt"] * 2
