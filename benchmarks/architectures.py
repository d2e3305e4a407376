"""Is what cost says of architectures that nobody here wrote right, or labelled? Models of transformers.

    python benchmarks/architectures.py            all that results/architectures.json lacks
    python benchmarks/architectures.py --models bert gpt2 --out result.json

Each is made without weights as its configuration class gives it, its formulas are found from small sizes, and what
`.at` says of two texts of 128, 1,024 and 4,096 words is held against a count of a fresh model on torch's own fake
tensors, or on those of cost where the model looks at its words, which torch's have not. Bytes are held against hooks on
real tensors too, for models of two layers whose weights take less than a gigabyte. Leaves with 1 where a number without
a label is wrong. Each model gets a process of its own, and so many seconds of one core, a minute by default.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from porism import cost
from porism.costing.cost import Cost
from porism.costing.counting.count import Count, count
from porism.costing.counting.outputs import Outputs
from porism.costing.counting.saved import storages_of
from porism.costing.counting.staging import not_traced
from porism.costing.counting.target import NEEDS_NUMBERS, Target
from porism.errors import PorismError
from porism.training.device import hardware, versions
from sources import checksums

MEASURES = ("costing/counting", "costing/fitting")
RESULT = Path(__file__).parent / "results" / "architectures.json"
BATCH = 2
LENGTHS = (128, 1024, 4096)
KINDS = ("parameters", "flops", "backward_flops", "activation_bytes")
LAYERS = (
    "num_hidden_layers",
    "n_layer",
    "num_layers",
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
)
MOST_REAL_BYTES = 10**9
REAL_LENGTHS = (24, 96)
TOO_LONG = "took longer than it was given"

MODELS = (
    "albert",
    "apertus",
    "arcee",
    "bert",
    "bert-generation",
    "bigbird_pegasus",
    "biogpt",
    "bitnet",
    "bloom",
    "camembert",
    "codegen",
    "cohere",
    "ctrl",
    "data2vec-text",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "exaone4",
    "falcon",
    "flaubert",
    "fnet",
    "gemma",
    "gemma2",
    "glm",
    "glm4",
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox",
    "gpt_neox_japanese",
    "gptj",
    "granite",
    "helium",
    "ibert",
    "led",
    "llama",
    "longformer",
    "m2m_100",
    "mamba",
    "marian",
    "mbart",
    "megatron-bert",
    "mistral",
    "modernbert",
    "mpnet",
    "mpt",
    "mvp",
    "nystromformer",
    "olmo",
    "olmo2",
    "opt",
    "persimmon",
    "phi",
    "phi3",
    "plbart",
    "qwen2",
    "qwen3",
    "rembert",
    "roberta",
    "roformer",
    "smollm3",
    "splinter",
    "squeezebert",
    "stablelm",
    "starcoder2",
    "t5",
    "xglm",
    "xlm",
    "xlnet",
    "yoso",
)


def made(name: str, layers: int | None = None) -> nn.Module:
    """A model of an architecture as its configuration class gives it, or with fewer layers."""
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(name)
    if layers is not None:
        for field in LAYERS:
            if isinstance(getattr(config, field, None), int):
                setattr(config, field, layers)
        if isinstance(vars(config).get("layer_types"), list):
            config.layer_types = config.layer_types[:layers]
    model: nn.Module = AutoModel.from_config(config)
    return model.eval()  # layers that are dropped at random have no cost of their own


def words(model: nn.Module) -> int:
    """How many words the model knows."""
    config: Any = model.config
    return int(config.get_text_config().vocab_size)


def arguments(model: nn.Module, make: Any) -> dict[str, Any]:
    names = ["input_ids"]
    if getattr(model.config, "is_encoder_decoder", False):
        names.append("decoder_input_ids")
    return {name: make() for name in names}


def measure(name: str) -> dict[str, Any]:
    """One architecture: what cost says of each length, how it is known, and what a fresh count says."""
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    start = time.process_time()
    with torch.device("meta"):
        model = made(name)
    result: dict[str, Any] = {"model": name, "class": type(model).__name__}
    try:
        found = cost(model, arguments(model, lambda: f"B T : int < {words(model)}"))
    except PorismError as error:
        return {**result, "refused": str(error), "seconds": round(time.process_time() - start, 1)}
    result["verdict"] = found.verdict
    result["lengths"] = {str(T): held(found, name, T) for T in LENGTHS}
    return {**result, "seconds": round(time.process_time() - start, 1)}


def held(found: Cost, name: str, T: int) -> dict[str, Any]:
    """What cost says of a text of T words beside a fresh count; `counted` is None where no run is possible."""
    said = dict(found.at(B=BATCH, T=T).items())
    try:
        real: Count | None = counted_anew(name, T)
        why = ""
    except PorismError as error:
        real, why = None, str(error)
    return {
        "said": {kind: said[kind].value for kind in KINDS},
        "labels": {kind: said[kind].label for kind in KINDS},
        "counted": None if real is None else numbers_of(real),
        "why": why,
    }


def counted_anew(name: str, T: int) -> Count:
    """What a fresh model does on a text of T words."""
    with FakeTensorMode(allow_non_fake_inputs=True), not_traced():
        model = made(name)
        try:
            # One tensor for each argument: a tensor given twice would be kept once.
            return count(model, **arguments(model, lambda: torch.zeros(BATCH, T, dtype=torch.long)))
        except PorismError as error:
            if not isinstance(error.__cause__, NEEDS_NUMBERS):
                raise
    with torch.device("meta"):
        model = made(name)
    target = Target(model, (arguments(model, lambda: f"B T : int < {words(model)}"),))
    return target.count({"B": BATCH, "T": T})


def numbers_of(real: Count) -> dict[str, int]:
    parameters = real.parameters.count + real.parameters.frozen_count
    return dict(zip(KINDS, (parameters, real.flops, real.backward_flops, real.saved_bytes), strict=True))


def hooks(name: str) -> dict[str, Any] | None:
    """Bytes that two layers keep, as cost says and as hooks on real tensors see; None where the model is too large."""
    torch.set_num_threads(1)
    with torch.device("meta"):
        weights = sum(weight.nbytes for weight in made(name, layers=2).parameters())
    if weights > MOST_REAL_BYTES:
        return None
    model = made(name, layers=2)
    found = cost(model, arguments(model, lambda: f"B T : int < {words(model)}"))
    rows = {}
    for T in REAL_LENGTHS:
        quantity = found.at(B=2, T=T).activation_bytes
        real = really_kept(model, **arguments(model, lambda T=T: torch.randint(2, words(model), (2, T))))
        rows[str(T)] = {
            "said": quantity.value,
            "low": quantity.low,
            "high": quantity.high,
            "label": quantity.label,
            "kept": real,
        }
    return rows


def really_kept(model: nn.Module, *inputs: Tensor, **named: Tensor) -> int:
    kept: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept.update({storage._cdata: storage for storage in storages_of(tensor)})
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = Outputs.of(model(*inputs, **named))
    owned = {storage._cdata for weight in model.parameters() for storage in storages_of(weight)}
    assert output.tensors
    return sum(storage.nbytes() for address, storage in kept.items() if address not in owned)


def class_of(result: dict[str, Any]) -> str:
    """exact, labelled, refused, or wrong: of all numbers at all lengths the one that is known least.

    A length at which the model itself does not run has no number, which is right.
    """
    if "refused" in result:
        return "refused"
    labelled = False
    for row in result["lengths"].values():
        for kind in KINDS:
            label, said = row["labels"][kind], row["said"][kind]
            if label == "unknown" and row["counted"] is None:
                continue
            if label not in ("by formula", "counted"):
                labelled = True
            elif row["counted"] is None or said != row["counted"][kind]:
                return "wrong"
            labelled |= label != "by formula"
    return "labelled" if labelled else "exact"


def hooks_agree(rows: dict[str, Any]) -> bool:
    """Whether what hooks saw is what was said, or inside of what was said."""
    for row in rows.values():
        if row["label"] == "range":
            agrees = row["low"] <= row["kept"] <= row["high"]
        elif row["label"] in ("unknown", "extrapolated"):
            agrees = True
        else:
            agrees = row["said"] == row["kept"]
        if not agrees:
            return False
    return True


def markdown(results: dict[str, Any]) -> list[str]:
    """Totals, then a row a model."""
    rows = results["results"]
    totals = Counter(class_of(row) for row in rows)
    held_by_hooks = [row for row in rows if row.get("hooks")]
    agreeing = sum(hooks_agree(row["hooks"]) for row in held_by_hooks)
    lines = [
        f"On one core of {results['hardware']['cpu']}, transformers {results['versions']['transformers']}, torch "
        f"{results['versions']['torch']}. Of {len(rows)} "
        f"architectures: {totals['exact']} exact, {totals['labelled']} labelled, {totals['refused']} refused, "
        f"{totals['wrong']} wrong without a label. Bytes held against hooks on real tensors: {agreeing} of "
        f"{len(held_by_hooks)} agree.",
        "",
        f"| architecture | answer | {' | '.join(f'GFLOPs at T={T:,}' for T in LENGTHS)} | bytes by hooks | s |",
        f"|---|---|{'---:|' * len(LENGTHS)}---|---:|",
    ]
    for row in rows:
        cells = [_cell(row.get("lengths", {}).get(str(T))) for T in LENGTHS]
        seen = "" if not row.get("hooks") else "the same" if hooks_agree(row["hooks"]) else "differ"
        answer = class_of(row) + (f": {row['refused'][:90]}" if "refused" in row else "")
        lines.append(f"| {row['model']} | {answer} | {' | '.join(cells)} | {seen} | {row['seconds']} |")
    return lines


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    said, label = row["said"]["flops"], row["labels"]["flops"]
    if said is None:
        return "does not run" if row["counted"] is None else label
    return f"{said / 1e9:,.4g}" + ("" if label == "by formula" else f" ({label})")


def alone(name: str, part: str, seconds: int) -> dict[str, Any]:
    """One part of one model in a process of its own, which is ended when it has used its seconds of a core."""
    code = f"import json, architectures; print(json.dumps(architectures.{part}({name!r})))"
    limit = (seconds, seconds + 5)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
        check=False,
    )
    if done.returncode == 0:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer
    if done.returncode < 0:
        return {"model": name, "refused": f"{TOO_LONG}: {seconds} s", "seconds": seconds}
    last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
    return {"model": name, "refused": last, "seconds": 0.0}


def main(models: tuple[str, ...] = (), seconds: int = 60, out: Path = RESULT, hooked: int = 20) -> None:
    """Try, print and keep after every model; those that are kept already are left as they are.

    models: some of them only, anew.
    seconds: of one core for each model.
    hooked: how many models are held against hooks.
    """
    if unknown := [name for name in models if name not in MODELS]:
        sys.exit(f"There is no architecture {unknown[0]!r} here. Choose from {', '.join(MODELS)}.")
    before = json.loads(out.read_text()) if out.exists() else {"results": []}
    kept = {row["model"]: row for row in before["results"]}
    measured = models or tuple(name for name in MODELS if name not in kept)
    machine = {
        "hardware": hardware(torch.device("cpu")),
        "versions": versions() | {"transformers": version("transformers")},
        # As long as models stay as they are, all are of the code that these were measured with.
        "sources": checksums(MEASURES, "cpu") if {*kept} <= {*measured} else before["sources"],
    }
    for name in measured:
        row = alone(name, "measure", seconds)
        if sum(bool(other.get("hooks")) for other in kept.values()) < hooked:
            seen = alone(name, "hooks", seconds)
            if seen and "refused" not in seen:
                row["hooks"] = seen
        kept[name] = row
        print(json.dumps(row), flush=True)
        ordered = [kept[name] for name in MODELS if name in kept]
        out.write_text(json.dumps({**machine, "results": ordered}, indent=1) + "\n")
    wrong = [name for name, row in kept.items() if class_of(row) == "wrong" or not hooks_agree(row.get("hooks", {}))]
    if wrong:
        sys.exit(f"Wrong without a label: {', '.join(wrong)}")


if __name__ == "__main__":
    tyro.cli(main)
