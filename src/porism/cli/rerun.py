"""porism check claims --rerun: make a kept result anew."""

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from porism.errors import ClaimError, RecipeError, nearest

if TYPE_CHECKING:
    from rich.console import Console

    from porism.claims.claim import Empirical
    from porism.claims.kept.experiments import KeptExperiment
    from porism.claims.kept.result import KeptResult


def rerun(name: str, out: Path | None, json: bool) -> int:
    """Run what decides a claim, write the result to `out`, or tell how it differs from the one that is kept.

    name: a claim's id, or the name of a kept result.
    """
    from porism.claims.kept.result import encode_kept, read_kept
    from porism.cli.output import console_for, print_json, tell
    from porism.files import write_atomically

    experiment, claims = _found(name)
    if out is not None and out.suffix != ".json":
        raise RecipeError(
            f"--out with --rerun is a kept result, a file .json, got {out}. Choose {experiment.name}.json."
        )
    console = console_for(json, patient=True)
    tell(console, f"{experiment.name}: {experiment.command}")
    result, kept = _made(experiment, json), read_kept(experiment.name)
    rulings = {claim.id: claim.rule(result) for claim in claims if claim.rule}
    for number, ruling in rulings.items():
        tell(console, f"{number}: {_word(ruling.answer)}. {ruling.evidence}")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, encode_kept(result))
        tell(console, f"written to {out}")
    elif kept is None:
        tell(console, f"there is no kept result {experiment.name} to compare with: write this one with --out")
    else:
        _tell_difference(kept, result, console)
    if json:
        print_json(
            {
                "result": experiment.name,
                "answers": {number: ruling.answer for number, ruling in rulings.items()},
                "out": None if out is None else str(out),
            }
        )
    return 0


def _found(name: str) -> "tuple[KeptExperiment, list[Empirical]]":
    """What makes the result, and the claims that it decides."""
    from porism.claims.claim import Empirical
    from porism.claims.kept.experiments import EXPERIMENTS
    from porism.claims.ledger import all_claims, select

    empirical = [claim for claim in all_claims().values() if isinstance(claim, Empirical)]
    if name not in EXPERIMENTS:
        known = [*all_claims(), *EXPERIMENTS]
        if name not in known and not any(claim.id.startswith(name) for claim in empirical):
            raise RecipeError(f"there is no claim and no kept result {name!r}. {nearest(name, known)}")
        chosen = [claim for claim in select(all_claims(), number=name) if isinstance(claim, Empirical)]
        results = [claim.kept for claim in chosen if claim.kept]
        if not chosen:
            raise ClaimError(f"claim {name} is decided by computation: porism check claims --id {name}.")
        if not results:
            raise ClaimError(f"claim {name}: no run decides it. {chosen[0].reason}")
        name = results[0]
    return EXPERIMENTS[name], [claim for claim in empirical if claim.kept == name]


def _made(experiment: "KeptExperiment", json: bool) -> "KeptResult":
    from porism.claims.kept.experiments import kept_of_runs
    from porism.claims.kept.result import KeptResult
    from porism.cli.compare import CompareCommand
    from porism.training.device import choose_device, hardware, versions

    if experiment.timed is not None:
        machine = hardware(choose_device("auto"))
        software = {name: str(version) for name, version in versions().items()}
        return KeptResult(experiment.name, experiment.command, "", machine, software, tuple(experiment.timed()))
    folders: list[Path] = []
    for number, comparison in enumerate(experiment.comparisons):
        # Runs that are there are kept: what was interrupted goes on where it stopped.
        folder = Path("runs") / f"kept-{experiment.name}" / f"{number}"
        CompareCommand(
            task=comparison.task,
            recipes=list(comparison.recipes),
            set=list(comparison.assignments),
            data=comparison.data or None,
            seeds=str(comparison.seeds),
            seed=comparison.first_seed,
            out=folder,
            resume=True,
        ).run()
        folders += sorted(path.parent for path in folder.glob("*/metrics.json"))
    return kept_of_runs(experiment, folders)


def _tell_difference(kept: "KeptResult", result: "KeptResult", console: "Console") -> None:
    from rich.table import Table

    shown = Table("settings", "number", "kept", "now")
    for settings in {str(run.settings): run.settings for run in kept.runs}.values():
        before, now = kept.chosen(settings), result.chosen(settings)
        for name in before[0].numbers:
            values: list[Any] = [[run.numbers[name] for run in runs if name in run.numbers] for runs in (before, now)]
            means = [f"{fmean(some):.5g} ({len(some)})" if some else "-" for some in values]
            shown.add_row(", ".join(f"{key}={value}" for key, value in settings.items()), name, *means)
    console.print(shown)


def _word(answer: bool | None) -> str:
    return {True: "holds", False: "does not hold", None: "not decided"}[answer]
