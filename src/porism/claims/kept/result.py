"""A kept result: the numbers of some runs with the command, the seeds and the versions that made them, as JSON.

>>> table = read_kept("language-table")
>>> table.number({"recipe": "table-12"}, "test.perplexity")
[138.2...]
"""

import json
import math
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

import msgspec

from porism.errors import ClaimError
from porism.files import read_bytes

SUFFIX = ".json"
Setting = str | int | float


class KeptRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run.

    settings: what sets it apart from the others, such as {"recipe": "table-02", "learning_rate": 0.01}.
    seed: None where nothing was drawn, as for a time.
    numbers: what came out, such as {"test.perplexity": 157.0, "epochs": 17}.
    """

    settings: dict[str, Setting]
    seed: int | None
    numbers: dict[str, float]

    def has(self, settings: Mapping[str, Setting]) -> bool:
        return all(self.settings.get(name) == value for name, value in settings.items())


class KeptResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs of one command on one machine.

    command: what made it, or what would make it anew.
    data: what was trained on, by the name of `porism data list`; empty for a time.
    hardware, versions: of the machine, as metrics.json has them.
    """

    name: str
    command: str
    data: str
    hardware: dict[str, str | int | float | None]
    versions: dict[str, str]
    runs: tuple[KeptRun, ...]

    def chosen(self, settings: Mapping[str, Setting]) -> list[KeptRun]:
        """The runs with these settings, in the order of their seeds."""
        return sorted((run for run in self.runs if run.has(settings)), key=lambda run: run.seed or 0)

    def number(self, settings: Mapping[str, Setting], name: str) -> list[float]:
        """A number of every run with these settings, in the order of their seeds; ClaimError where one has it not."""
        runs = self.chosen(settings)
        if missing := [run for run in runs if name not in run.numbers]:
            raise ClaimError(f"kept result {self.name}: the run {missing[0].settings} has no {name}. Make it anew.")
        return [run.numbers[name] for run in runs]

    def values(self, setting: str) -> list[Setting]:
        """Every value of a setting, in the order of the runs."""
        return list(dict.fromkeys(run.settings[setting] for run in self.runs if setting in run.settings))

    @property
    def seeds(self) -> int:
        """How many seeds the setting with the most runs has."""
        return max(self._runs_of_each())

    @property
    def fewest_seeds(self) -> int:
        return min(self._runs_of_each())

    def _runs_of_each(self) -> list[int]:
        return [sum(other.settings == run.settings for other in self.runs) for run in self.runs]


def decode_kept(content: bytes, place: str) -> KeptResult:
    """A kept result from JSON, checked: some runs, none twice, and every number finite."""
    try:
        result = msgspec.json.decode(content, type=KeptResult)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClaimError(
            f"{place}: not a kept result: {error}. Make it anew with porism check claims --rerun."
        ) from None
    if not result.runs:
        raise ClaimError(f"{place}: holds no run. Make it anew with porism check claims --rerun.")
    seen: set[str] = set()
    for run in result.runs:
        key = json.dumps([sorted(run.settings.items()), run.seed])
        if key in seen:
            raise ClaimError(f"{place}: has the run {run.settings} of seed {run.seed} twice. Keep one of them.")
        seen.add(key)
        if wrong := [name for name, number in run.numbers.items() if not math.isfinite(number)]:
            raise ClaimError(f"{place}: {wrong[0]} of {run.settings} is no finite number. Leave it out.")
    return result


def encode_kept(result: KeptResult) -> bytes:
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


def kept_results() -> Iterator[str]:
    """The names of all results in the package."""
    for file in sorted(resources.files("porism.claims.kept").joinpath("results").iterdir(), key=lambda file: file.name):
        if file.name.endswith(SUFFIX):
            yield file.name.removesuffix(SUFFIX)


def read_kept(name: str, folder: Path | None = None) -> KeptResult | None:
    """The kept result of a name, from the package or from a folder of one's own; None where there is none."""
    if folder is not None:
        path = folder / f"{name}{SUFFIX}"
        return decode_kept(read_bytes(path), str(path)) if path.is_file() else None
    file = resources.files("porism.claims.kept").joinpath("results", f"{name}{SUFFIX}")
    return decode_kept(file.read_bytes(), f"kept result {name}") if file.is_file() else None
