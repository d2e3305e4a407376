"""What the documents say can be done: every command parses, every link leads somewhere."""

import contextlib
import functools
import io
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from tests.house.conftest import Plant

from porism.cli import main
from porism.cli.verbs import VERBS
from porism.tasks import TASKS, find

FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PROMPT = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?(?:python3? -m )?(?=(?:porism|make)\b)")
# Taken out of the words before the verb sees them, so not every verb lists them.
EVERYWHERE = {"--debug", "--quiet"}
SHELL_ENDS = {"|", "||", "&&", ";", ">", ">>", "<", "&"}

Help = Callable[[str], str | None]
"""The help text of a verb, of a verb with a task, or of the program for the empty string; None where there is none."""


def commands(text: str, program: str) -> Iterator[list[str]]:
    """The words after a program's name, for each command in the code of a Markdown text.

    >>> list(commands("Try `porism train language --set hidden_size=8`.", "porism"))
    [['train', 'language', '--set', 'hidden_size=8']]
    """
    blocks = [block.replace("\\\n", " ") for block in FENCE.findall(text)]
    lines = [line for block in blocks for line in block.splitlines()] + INLINE.findall(FENCE.sub("", text))
    for line in lines:
        bare = PROMPT.sub("", line.strip())
        if bare.split(maxsplit=1)[:1] != [program] or bare == program:
            continue
        words = shlex.split(bare, comments=True)[1:]
        ends = [i for i, word in enumerate(words) if word in SHELL_ENDS]
        yield words[: ends[0]] if ends else words


def unknown_commands(text: str, help_of: Help, targets: Iterable[str]) -> list[str]:
    """The `porism` commands of a text with a verb or a flag that the program lacks, and `make` targets that are not."""
    complaints = []
    for words in commands(text, "porism"):
        verb = "" if words[0].startswith("-") else words[0]
        if verb.isupper():  # a placeholder, as in `porism VERB --help`
            continue
        known = help_of(verb)
        if known is None:
            complaints.append(f"porism {verb}: no such verb")
            continue
        if len(words) > 1 and words[1] in TASKS:  # where fields of its recipes are options
            known += help_of(f"{verb} {words[1]}") or ""
        flags = {found[0] for word in words if (found := re.match(r"--?[a-z][\w-]*", word.strip("[]()")))}
        spoken = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", known))
        complaints += [f"porism {verb}: no flag {flag}" for flag in sorted(flags - spoken - EVERYWHERE)]
    for words in commands(text, "make"):
        goals = [word for word in words if "=" not in word and not word.startswith("-")]
        complaints += [f"make {goal}: no such target" for goal in goals if goal not in targets]
    return complaints


def broken_links(root: Path, pages: Iterable[Path]) -> list[str]:
    """Links from a page to a file that is not there, as `page: link`. Links to the web are not followed."""
    complaints = []
    for page in pages:
        for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            target = link.split("#")[0]
            if target and "://" not in link and not link.startswith("mailto:") and not (page.parent / target).exists():
                complaints.append(f"{page.relative_to(root)}: {link}")
    return complaints


def anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page.

    >>> anchors("## What does it cost?")
    {'what-does-it-cost'}
    """
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def lost_anchors(root: Path, pages: Iterable[Path]) -> list[str]:
    """Links to a heading that its page has not, as `page: link`."""
    complaints = []
    for page in pages:
        for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            file, mark, heading = link.partition("#")
            target = page.parent / file if file else page
            known = mark and "://" not in link and target.suffix == ".md" and target.exists()
            if known and heading not in anchors(target.read_text(encoding="utf-8")):
                complaints.append(f"{page.relative_to(root)}: {link}")
    return complaints


def make_targets(makefile: str) -> set[str]:
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def documents(root: Path) -> list[Path]:
    """The pages for people: at the root, in the folders for readers, and beside the code."""
    below = (page for folder in ("docs", "examples", "benchmarks", "src") for page in (root / folder).rglob("*.md"))
    return sorted([*root.glob("*.md"), *below])


@pytest.fixture
def help_of(monkeypatch: pytest.MonkeyPatch) -> Help:
    """Asks the program itself."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    @functools.cache
    def ask(verb: str) -> str | None:
        if verb.partition(" ")[0] not in ("", *VERBS):
            return None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                code = main([*verb.split(), "--help"])
            except SystemExit as leaving:
                code = int(leaving.code or 0)
        return printed.getvalue() if code == 0 else None

    return ask


def test_every_command_in_the_documents_parses(repository: Path, help_of: Help) -> None:
    targets = make_targets((repository / "Makefile").read_text(encoding="utf-8"))
    pages = {page: page.read_text(encoding="utf-8") for page in documents(repository)}
    assert any(words for text in pages.values() for words in commands(text, "porism"))
    complaints = {page.name: unknown_commands(text, help_of, targets) for page, text in pages.items()}
    assert {page: found for page, found in complaints.items() if found} == {}


def test_runs_that_the_documents_lengthen_can_be_lengthened(repository: Path) -> None:
    """By a schedule the learning rates so far came from the number of epochs."""
    lengthened = []
    for page in documents(repository):
        for words in commands(page.read_text(encoding="utf-8"), "porism"):
            if "--resume" in words and "--epochs" in words:
                task, _, recipe = Path(words[words.index("--resume") + 1]).name.partition("-")
                lengthened.append(find(task).recipes[recipe].lr_scheduler)
    assert lengthened
    assert set(lengthened) == {"constant"}


def test_every_link_leads_to_a_file(repository: Path) -> None:
    assert broken_links(repository, documents(repository)) == []


def test_every_link_to_a_heading_leads_to_one(repository: Path) -> None:
    assert lost_anchors(repository, documents(repository)) == []


TRAIN_HELP = "usage: porism train [-h] [--set K=V] [--json] TASK"


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("```\nporism train language --set hidden_size=8 --json --debug\n```", []),
        (
            "```sh\n$ porism train language \\\n  --sett hidden=8  # --no-matter\n```",
            ["porism train: no flag --sett"],
        ),
        ("Say `porism tran language`.", ["porism tran: no such verb"]),
        ("Say `python -m porism tran`.", ["porism tran: no such verb"]),
        ("Say `porism train TASK [--se K=V]`.", ["porism train: no flag --se"]),
        ("`porism train language | grep --color x`", []),
        ("`porism VERB --anything`, `porism`, `porism.cost(model)`, porism tran", []),
        ("`porism --versoin`", ["porism : no flag --versoin"]),
        ("`make test`, `make PYTHON=python3.12 rum`", ["make rum: no such target"]),
    ],
)
def test_an_unknown_command_is_found(text: str, complaints: list[str]) -> None:
    known = {"": "usage: porism [-h] [--version]", "train": TRAIN_HELP}
    assert unknown_commands(text, known.get, {"test"}) == complaints


def test_a_broken_link_is_found(plant: Plant) -> None:
    page = "[a](there.md#part) [b](gone.md) [c](https://example.org/x) [d](#here) ```\n[e](gone too)\n```"
    root = plant({"docs/page.md": page, "docs/there.md": "[up](../docs/page.md)"})
    assert broken_links(root, documents(root)) == ["docs/page.md: gone.md"]


def test_a_link_to_a_lost_heading_is_found(plant: Plant) -> None:
    page = "# Here\n[a](there.md#what-is-it) [b](there.md#gone) [c](#here) [d](#lost) [e](https://example.org/x#y)"
    root = plant({"docs/page.md": page, "docs/there.md": "## What is it?\n```\n# gone\n```"})
    assert lost_anchors(root, documents(root)) == ["docs/page.md: there.md#gone", "docs/page.md: #lost"]
