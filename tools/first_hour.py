"""A stranger's first hour: the wheel in a new environment, every line of the README in an empty folder, then a script
with a module of its own that trains, loads, predicts and compares. Each is timed.

make first-hour                                            # builds the wheel and does all of it
python tools/first_hour.py dist/porism-*.whl --only cost   # the lines that have this word in them
python tools/first_hour.py --environment .venv --python    # installed already; Python alone, which needs no extras

Ends with 1 where a line fails, where Python warns, or where all took more than ten minutes. Left out are the lines
that the README itself names as long or as fetching data, and those of `LEFT_OUT`.

A machine that others use too makes the clock run longer, so CPU seconds within the limit are enough as well. They count
only with one thread: several that wait for each other on busy cores do so without rest, `porism train language` for
307 CPU seconds instead of 59. So on such a machine:

OMP_NUM_THREADS=1 make first-hour
"""

import argparse
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LIMIT = 600.0
"""Seconds of all lines together, on two cores."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(porism [a-z][^`]*)`")
LONG = "What takes longer, or fetches data first:"
"""What the README says above the lines that are not for the first hour."""
LEFT_OUT = {
    "pip install": "done before, of the wheel",
    "make": "of a clone, and not of the wheel",
    "porism serve": "runs until it is stopped; tests/web has it",
}
"""Lines by their first words, and why they are not run here."""


class Line(NamedTuple):
    """What is typed, and what runs it."""

    shown: str
    words: list[str]


class Took(NamedTuple):
    """Seconds by the clock and of the CPU."""

    clock: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.clock:6.1f} s by the clock, {self.cpu:6.1f} CPU s"


def shell_lines(readme: str) -> list[str]:
    """Commands of the README in its order, each once, without those that it names as long.

    >>> shell_lines("```sh\\nporism runs  # all\\n```\\nSay `porism runs` or `porism recipes`.\\n")
    ['porism runs', 'porism recipes']
    """
    found: list[str] = []
    before = 0
    for block in BLOCK.finditer(readme):
        between = readme[before : block.start()]
        found += INLINE.findall(between)
        before = block.end()
        if block[1] == "sh" and LONG not in between:
            found += [
                shlex.join(words) for line in block[2].splitlines() if (words := shlex.split(line, comments=True))
            ]
    found += INLINE.findall(readme[before:])
    return list(dict.fromkeys(shlex.join(shlex.split(line)) for line in found))


def python_blocks(readme: str) -> list[str]:
    return [block[2] for block in BLOCK.finditer(readme) if block[1] == "python"]


def own_data(folder: Path) -> None:
    """What the README calls yours: texts, of which this project's pages are some, and reviews with scores."""
    (folder / "my-texts").mkdir()
    files = [file for file in (ROOT / "docs").glob("*.md") if file.name != "ledger.md"]  # as long as all the others
    files += (ROOT / "src").rglob("README.md")
    pages = {"-".join(file.relative_to(ROOT).with_suffix("").parts): file.read_text(encoding="utf-8") for file in files}
    for name, text in sorted(pages.items()):
        (folder / f"my-texts/{name}.txt").write_text(text, encoding="utf-8")
    (folder / "my-text.txt").write_text("\n".join(text for _, text in sorted(pages.items())), encoding="utf-8")
    scores = {"awful": 1, "poor": 2, "fair": 3, "good": 4, "superb": 5}
    things = ("lamp", "chair", "kettle", "radio", "coat", "desk", "watch", "song", "room", "pen")
    times = ("today", "last week", "in May", "a year ago", "twice", "for my sister")
    rows = [
        f'"I bought the {thing} {when}, and it is {word}.",{scores[word]}'
        for thing, when, word in product(things, times, scores)
    ]
    (folder / "reviews.csv").write_text("\n".join(["text,score", *rows, ""]), encoding="utf-8")


def lines(environment: Path, folder: Path, python_alone: bool) -> Iterator[Line]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    python = str(environment / "bin/python")
    for number, block in enumerate(python_blocks(readme), 1):
        (folder / f"block_{number}.py").write_text(block, encoding="utf-8")
        yield Line(f"README.md, Python {number}", [python, "-W", "error", f"block_{number}.py"])
    if not python_alone:
        for shown in shell_lines(readme):
            yield Line(shown, [str(environment / "bin/porism"), *shlex.split(shown)[1:]])
    (folder / "own_module.py").write_text(
        (ROOT / "examples/own_module.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    yield Line("a script with a module of its own", [python, "-W", "error", "own_module.py"])


def left_out(shown: str) -> str | None:
    return next((why for words, why in LEFT_OUT.items() if shown.startswith(words)), None)


def timed(words: Sequence[str], folder: Path, log: Path) -> tuple[int, Took]:
    """Runs a command in a folder; what it prints goes to a file."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    # Only what is installed may answer, and nothing that an earlier hour left in the cache.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PORISM"))}
    with log.open("w") as printed:
        done = subprocess.run(
            words,
            cwd=folder,
            env=environment | {"XDG_CACHE_HOME": str(folder.parent / "cache")},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            check=False,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, Took(time.monotonic() - began, cpu)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?", type=Path, help="is installed into a new environment, with all extras")
    parser.add_argument("--environment", type=Path, help="take this one, in which porism is installed")
    parser.add_argument("--python", action="store_true", help="what the README shows in Python, and the script")
    parser.add_argument("--only", metavar="WORD", default="", help="the lines that have this word in them")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder in which all of it is left")
    given = parser.parse_args(arguments)
    if (given.wheel is None) == (given.environment is None):
        parser.error("expected a wheel or --environment, and not both")
    with tempfile.TemporaryDirectory() as scratch:
        folder = (given.keep or Path(scratch)).absolute()
        for place in ("", "here", "printed"):
            (folder / place).mkdir(exist_ok=place == "" and given.keep is None)
        own_data(folder / "here")
        return hour(given, folder)


def hour(given: argparse.Namespace, folder: Path) -> int:
    """Every line, told as it ends; 0 where all is well."""
    failed: list[str] = []
    total = Took(0.0, 0.0)

    def run(line: Line, log: Path) -> None:
        nonlocal total
        code, took = timed(line.words, folder / "here", log)
        total = Took(total.clock + took.clock, total.cpu + took.cpu)
        print(f"{took}  {line.shown}", flush=True)
        if code != 0:
            failed.append(line.shown)
            print(f"exit {code}: {log.read_text(errors='replace')[-2000:]}", flush=True)

    if given.wheel is not None:
        pip = [str(folder / "env/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        wheel = f"{given.wheel.absolute()}[all]"
        run(Line("python -m venv", [sys.executable, "-m", "venv", str(folder / "env")]), folder / "printed/venv.txt")
        run(
            Line('pip install "WHEEL[all]"', [*pip, "-c", str(ROOT / "constraints.txt"), wheel]),
            folder / "printed/pip.txt",
        )
    environment = (folder / "env") if given.wheel is not None else given.environment.absolute()
    for number, line in enumerate(lines(environment, folder / "here", given.python), 1):
        if given.only not in line.shown:
            continue
        if why := left_out(line.shown):
            print(f"left out, {why}: {line.shown}")
        else:
            run(line, folder / f"printed/{number:02}.txt")
    print(f"{total}  in all")
    if failed:
        print(f"failed: {'; '.join(failed)}")
    if late := min(total) > LIMIT:
        print(f"more than {LIMIT:.0f} s")
    return 1 if failed or late else 0


if __name__ == "__main__":
    sys.exit(main())
