"""What no file of the repository may say: where it was made, whence it was fetched, and anything that runs a pickle."""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.house.conftest import Plant

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|home|work)/")
REGISTRY = re.compile(r"\b(?:pypi\.(?:org|python)|pythonhosted\.|download\.pytorch\.|jfrog\.|artifactory\.)")
DRAWER = re.compile(r"(?:utils?|helpers?|misc|common)\.py")
PICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
SUSPECT = re.compile(rf"{'|'.join(PICKLES)}|\b(?:load|save)\b")
"""Without one of these words in it a file need not be parsed."""


def tracked_files(root: Path) -> list[Path]:
    """The files git tracks, and those it would if they were added. A clone may belong to another user."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted(file for name in listing.split("\0") if name and (file := root / name).is_file())


def forbidden_words(files: Iterable[Path]) -> list[str]:
    """Machine paths, registry hosts and files named after nothing, as `name:line: what`. Binary files are skipped."""
    complaints = []
    for file in files:
        if DRAWER.fullmatch(file.name):
            complaints.append(f"{file.name}: a name that explains nothing")
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            for pattern, what in ((MACHINE_PATH, "a machine's path"), (REGISTRY, "a registry's host")):
                if found := pattern.search(line):
                    complaints.append(f"{file.name}:{number}: {what}: {found[0]}")
    return complaints


def pickles(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and words of everything in a module that reads or writes a pickle."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names if alias.name.split(".")[0] in PICKLES)
            case ast.ImportFrom(module=str(module), names=names):
                if module.split(".")[0] in PICKLES:
                    yield node.lineno, module
                if module == "torch":
                    yield from ((node.lineno, f"torch.{a.name}") for a in names if a.name in ("load", "save"))
            case ast.Attribute(value=ast.Name(id="torch"), attr="load" | "save" as verb):
                yield node.lineno, f"torch.{verb}"
            case ast.keyword(arg="allow_pickle", value=value):
                if not (isinstance(value, ast.Constant) and value.value is False):
                    yield node.lineno, "allow_pickle"


def pickling(files: Iterable[Path]) -> list[str]:
    """Every use of pickle in Python files, as `name:line: what`."""
    texts = ((file, file.read_text(encoding="utf-8")) for file in files)
    trees = ((file, ast.parse(text, filename=str(file))) for file, text in texts if SUSPECT.search(text))
    return [f"{file.name}:{line}: {what}" for file, tree in trees for line, what in pickles(tree)]


def test_no_file_says_where_it_was_made(repository: Path) -> None:
    files = tracked_files(repository)
    assert Path(__file__) in files
    assert forbidden_words(files) == []


def test_nothing_is_pickled(repository: Path) -> None:
    files = set((repository / "src").rglob("*.py"))
    # These talk over pipes to processes that they start themselves: no file is read, and nobody else can write.
    pipes = (
        "api/worker.py",
        "api/workers.py",
        "sweep/child.py",
        "training/worker_process.py",
        "web/processes/process.py",
    )
    own_pipes = {repository / "src/porism" / name for name in pipes}
    assert own_pipes < files
    assert pickling(files - own_pipes) == []


# The words below are put together in braces, so that this file itself stays clean.
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"read /{'root'}/data.txt", "notes.md:2: a machine's path"),
        (f"open('/{'home'}/me/data.txt')", "notes.md:2: a machine's path"),
        (f"cd /{'work'}/here", "notes.md:2: a machine's path"),
        (f"fetched from https://{'pypi'}.org/simple", "notes.md:2: a registry's host"),
        (f"from {'files.pythonhosted'}.org", "notes.md:2: a registry's host"),
    ],
)
def test_a_forbidden_word_is_found(plant: Plant, text: str, complaint: str) -> None:
    (found,) = forbidden_words(plant({"notes.md": f"fine\n{text}"}).iterdir())
    assert found.startswith(complaint)


@pytest.mark.parametrize("text", ["https://example.org/home/page", f"./{'work'}/notes", "the root/leaf", "PyPI"])
def test_an_innocent_word_passes(plant: Plant, text: str) -> None:
    assert forbidden_words(plant({"notes.md": text}).iterdir()) == []


@pytest.mark.parametrize("name", ["utils.py", "util.py", "helpers.py", "misc.py", "common.py"])
def test_a_drawer_is_found(plant: Plant, name: str) -> None:
    assert forbidden_words(plant({name: ""}).iterdir()) == [f"{name}: a name that explains nothing"]


def test_a_binary_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff" + f"/{'root'}/".encode())
    assert forbidden_words(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import pickle", "pickle"),
        ("def late():\n    from joblib import dump", "joblib"),
        ("import torch\ntorch.load('x')", "torch.load"),
        ("import torch\nwrite = torch.save", "torch.save"),
        ("from torch import save", "torch.save"),
        ("numpy.load('x', allow_pickle=True)", "allow_pickle"),
        ("numpy.load('x', allow_pickle=trust)", "allow_pickle"),
    ],
)
def test_a_pickle_is_found(plant: Plant, code: str, what: str) -> None:
    assert pickling(plant({"store.py": code}).iterdir()) == [f"store.py:{code.count(chr(10)) + 1}: {what}"]


def test_what_is_no_pickle_passes(plant: Plant) -> None:
    code = "import json\nfrom safetensors.torch import save_file\nnumpy.load('x', allow_pickle=False)\njson.load(file)"
    assert pickling(plant({"store.py": code}).iterdir()) == []
