"""What do models that nobody here wrote cost? Formulas for those of transformers and PyTorch Geometric, and a 7B Llama.

    python benchmarks/real_models.py                              all, some minutes; writes results/real_models.json
    python benchmarks/real_models.py --models llama-7b gcnconv --out result.json

Peer: the count itself. A formula is found from counts at small sizes, confirmed at sizes held out, and then held
against a count at the sizes of a model that people use. Leaves with 1 where that differs, an operation has no formula,
or the model of 7 billion parameters takes a minute or 4 GB. Each model gets a process of its own, so that time and
memory are its own: the seconds are those of one core, without imports.
"""

import json
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import tyro

from porism.costing.cost import Cost
from porism.costing.fitting.basis import symbol
from porism.costing.module_row import KINDS
from porism.errors import PorismError
from porism.training.device import hardware, versions
from sources import checksums

MEASURES = ("costing/counting", "costing/fitting")
RESULT = Path(__file__).parent / "results" / "real_models.json"
LARGE = "llama-7b"
MOST_SECONDS = 60
MOST_BYTES = 4 * 10**9
TITLES = {
    "parameters": "parameters",
    "flops": "forward FLOPs",
    "backward_flops": "backward FLOPs",
    "activation_bytes": "bytes kept for the backward pass",
    "elementwise": "elementwise, forward",
}


def measure(name: str, threads: int) -> dict[str, Any]:
    """One model: its formulas, what they cost to find, and whether a count at the published sizes agrees."""
    import transformers

    from real_model_cases import CASES

    transformers.logging.set_verbosity_error()  # it warns of every small vocabulary
    torch.set_num_threads(threads)
    case = CASES[name]
    start, clock = time.process_time(), time.perf_counter()
    derived = case.derive()
    seconds, wall = time.process_time() - start, time.perf_counter() - clock
    formulas = {kind: derived.rows[0].formula(kind, derived.conventions) for kind in KINDS}
    formulas["elementwise"] = derived.rows[0].fitted["elementwise"].formula
    return {
        "model": name,
        "class": derived.name,
        "letters": case.meanings(derived.letters),
        "formulas": {kind: None if formula is None else str(formula) for kind, formula in formulas.items()},
        "verdict": derived.verdict,
        "uncounted": list(derived.uncounted),
        "stays_a_number": case.stays_a_number,
        "published": dict(case.published),
        **compare(derived, dict(case.published)),
        "seconds": round(seconds, 1),
        "wall_seconds": round(wall, 1),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def compare(derived: Cost, sizes: dict[str, int]) -> dict[str, dict[str, int]]:
    """What the formulas say of some sizes, and what is counted there."""
    counted = derived.target.quantities(sizes)
    letters = {symbol(letter): size for letter, size in sizes.items()}
    return {
        "predicted": {kind: int(derived.formula(kind).subs(letters)) for kind in KINDS},
        "counted": {kind: counted[f"{kind} "] for kind in KINDS},
    }


def failures(result: dict[str, Any]) -> list[str]:
    """What is not as it should be, in words."""
    if "refused" in result:
        return [result["refused"]]
    found = [f"{name} was not counted" for name in result["uncounted"]]
    found += [
        f"{kind} is {result['counted'][kind]:,} at the published sizes, {result['predicted'][kind]:,} by its formula"
        for kind in KINDS
        if result["counted"][kind] != result["predicted"][kind]
    ]
    if result["model"] == LARGE and (result["seconds"] >= MOST_SECONDS or result["peak_bytes"] >= MOST_BYTES):
        found.append(f"it took {result['seconds']} s and {result['peak_bytes'] / 1e9:.2f} GB")
    return found


def markdown(results: dict[str, Any]) -> str:
    """A section for each model: its letters, its formulas, where they were confirmed, what stays a number."""
    packages = ", ".join(f"{name} {results['versions'][name]}" for name in ("torch", "transformers", "torch_geometric"))
    lines = [f"Found on {results['hardware']['cpu']} with {packages}."]
    for result in results["results"]:
        if "refused" in result:
            lines += ["", f"**{result['model']}**: {result['refused']}"]
            continue
        letters = ", ".join(f"{letter} {meaning}" for letter, meaning in result["letters"].items())
        at = ", ".join(f"{letter}={size}" for letter, size in result["published"].items())
        flops = result["counted"]["flops"]
        same = "the same" if result["counted"] == result["predicted"] else "something else"
        lines += ["", f"**{result['model']}**: {letters}.", "", "| | |", "|---|---|"]
        lines += [
            f"| {title} | {f'`{formula}`' if (formula := result['formulas'][kind]) else 'no formula'} |"
            for kind, title in TITLES.items()
        ]
        lines += [
            "",
            f"- Confirmed: {result['verdict']}.",
            f"- A count at {at} gives {same}: {result['counted']['parameters']:,} parameters, "
            f"{flops / 1e9:,.4g} GFLOPs forward.",
            f"- Stays a number: {result['stays_a_number']}",
            f"- Found in {result['seconds']:.1f} s of one core with {result['peak_bytes'] / 1e9:.2f} GB.",
        ]
    return "\n".join(lines)


def main(models: tuple[str, ...] = (), threads: int = 2, out: Path = RESULT) -> None:
    """Derive, print and keep.

    models: some of them only.
    out: where to keep the result as JSON.
    """
    from real_model_cases import CASES

    if unknown := [name for name in models if name not in CASES]:
        sys.exit(f"There is no model {unknown[0]!r}. Choose from {', '.join(CASES)}.")
    results = []
    for name in models or CASES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            try:
                results.append(process.submit(measure, name, threads).result())
            except PorismError as error:
                results.append({"model": name, "refused": str(error)})
        print(json.dumps(results[-1]), flush=True)
    packages = {name: version(name) for name in ("transformers", "torch_geometric")}
    machine = {"hardware": hardware(torch.device("cpu")), "versions": versions() | packages}
    machine["sources"] = checksums(MEASURES, "cpu")
    out.write_text(json.dumps({**machine, "results": results}, indent=1) + "\n")
    wrong = [f"{result['model']}: {text}" for result in results for text in failures(result)]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    tyro.cli(main)
