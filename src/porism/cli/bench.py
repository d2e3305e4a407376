"""porism bench: measure against others."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from porism.cli.options import Json, optional
from porism.errors import PorismError

# Inside an installed package, and beside it in a checkout.
FOLDERS = (Path(__file__).parents[1] / "benchmarks", Path(__file__).parents[3] / "benchmarks")


@dataclass(kw_only=True)
class BenchCommand:
    """List the benchmarks, or run one. Arguments after its name are passed on to it, --help too.

    The result is kept as runs/benchmarks/NAME.json, or where the benchmark's own --out says.

    $ porism bench
    $ porism bench counters --json
    $ porism bench language_training --data ptb/ --out result.json
    """

    name: Annotated[Positional[str | None], optional("NAME [ARGUMENT ...]", str)] = None
    """The benchmark to run, and its own arguments. Left out: all are listed, each with its question."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    @staticmethod
    def divide(words: list[str]) -> tuple[list[str], list[str]]:
        """Our words and the benchmark's, which begin after its name; --json is ours wherever it stands.

        >>> BenchCommand.divide(["counters", "--out", "result.json", "--json"])
        (['counters', '--json'], ['--out', 'result.json'])
        """
        others = [word for word in words if word != "--json"]
        names = [place for place, word in enumerate(others) if not word.startswith("-")]
        end = names[0] + 1 if names else len(others)
        return others[:end] + ["--json"] * ("--json" in words), others[end:]

    def run(self, arguments: list[str]) -> int:
        from rich.table import Table

        from porism.cli.output import console_for, print_json

        if self.name is not None:
            return self._measure(self.name, arguments)
        questions = {name: _question(script) for name, script in _benchmarks().items()}
        shown = Table("benchmark", "question")
        for name, question in questions.items():
            shown.add_row(name, question)
        console_for(self.json).print(shown)
        if self.json:
            print_json({"benchmarks": [{"name": name, "question": text} for name, text in questions.items()]})
        return 0

    def _measure(self, name: str, arguments: list[str]) -> int:
        import json
        import subprocess
        import sys

        from porism.cli.output import console_for, print_json, tell
        from porism.errors import nearest

        known = _benchmarks()
        script = known.get(name.replace("-", "_"))
        if script is None:
            raise PorismError(f"bench: there is no benchmark {name!r}. {nearest(name, list(known))}")
        arguments, out = _with_out(script.stem, arguments)
        if not {"-h", "--help"} & set(arguments):
            out.parent.mkdir(parents=True, exist_ok=True)
        before = _written_at(out)
        # The number of the stream, not sys.stderr: the benchmark is a program of its own.
        stdout = sys.__stderr__.fileno() if self.json and sys.__stderr__ else None
        code = subprocess.run([sys.executable, str(script), *arguments], stdout=stdout, check=False).returncode
        if _written_at(out) != before:  # what an earlier run left is not this one's result
            tell(console_for(self.json), f"result: {out}")
            if self.json:
                print_json(json.loads(out.read_text()))
        return code


def _written_at(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.is_file() else None


def _with_out(name: str, arguments: list[str]) -> tuple[list[str], Path]:
    """The benchmark's arguments, and where they have it keep its result."""
    for place, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        if flag == "--out" and (equals or arguments[place + 1 :]):
            return arguments, Path(value or arguments[place + 1])
    out = Path("runs/benchmarks") / f"{name}.json"
    return [*arguments, "--out", str(out)], out


def _benchmarks() -> dict[str, Path]:
    """Every script that measures, by name: its `main` keeps a result in the file `out`."""
    folder = next((folder for folder in FOLDERS if folder.is_dir()), None)
    if folder is None:
        raise PorismError(f"bench: the benchmarks are not there: neither {FOLDERS[0]} nor {FOLDERS[1]} is a folder.")
    return {script.stem: script for script in sorted(folder.glob("*.py")) if _keeps_a_result(script)}


def _keeps_a_result(script: Path) -> bool:
    functions = [node for node in ast.parse(script.read_text()).body if isinstance(node, ast.FunctionDef)]
    return any("out" in [each.arg for each in function.args.args] for function in functions if function.name == "main")


def _question(script: Path) -> str:
    """The first line of its docstring."""
    return next(iter((ast.get_docstring(ast.parse(script.read_text())) or "").splitlines()), "")
