"""Is what cost says of a GPU, from where there is none, what a GPU keeps? Bytes for the backward pass, by hooks.

    python benchmarks/followed_gpu.py            on a machine with a GPU; writes results/followed_gpu.json

Peer: hooks on real tensors of the GPU, with flash attention before cuDNN's, as on compute capability 8. Each module is
asked with device="cuda" in a process that sees no GPU; then a fresh one runs on the GPU at the same sizes, in training,
with the numbers that autograd keeps weighed. Leaves with 1 where a number without a label differs.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from architectures import arguments, made, really_kept, words
from porism import cost
from porism.costing.counting.inputs import TensorSpec
from porism.errors import PorismError
from porism.training.device import hardware, versions
from sources import checksums

MEASURES = ("costing/counting",)
RESULT = Path(__file__).parent / "results" / "followed_gpu.json"
SIZES: tuple[dict[str, Any], ...] = ({"B": 2, "T": 16}, {"B": 3, "T": 40}, {"B": 4, "T": 129})
MODELS = ("bert", "gpt2", "llama", "t5", "roberta", "mistral", "qwen2", "opt")
KNOWN = ("by formula", "counted")


class Attend(nn.Module):
    """torch's attention over heads, causal or not."""

    def __init__(self, heads: int, width: int, dropout: float = 0.0, is_causal: bool = False) -> None:
        super().__init__()
        self.heads, self.dropout, self.is_causal = heads, dropout, is_causal
        self.project = nn.Linear(heads * width, 3 * heads * width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        attended: Tensor = scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=self.is_causal)
        return attended.transpose(1, 2).flatten(2)


class AttendFlexibly(nn.Module):
    """FlexAttention under a causal mask of blocks, or under a changed score and no mask."""

    def __init__(self, heads: int, width: int, masked: bool = True) -> None:
        super().__init__()
        self.heads, self.masked = heads, masked
        self.project = nn.Linear(heads * width, 3 * heads * width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        if self.masked:
            T = x.shape[1]
            mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, T, T, device=x.device)
            return flex_attention(q, k, v, block_mask=mask)
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + i - j)


@dataclass(frozen=True)
class Case:
    """A module and the sizes of its inputs; more than one tensor where an encoder and a decoder read."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Any
    dtypes: Sequence[str] = ("fp32", "bf16", "autocast")


def encoder_layer(**options: Any) -> nn.Module:
    return nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, **options)


def image_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(8, 16, 3, padding=1), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(16, 32, 3, stride=2)
    )


def model_case(name: str) -> Case:
    with torch.device("meta"):
        model = made(name, layers=2)
    inputs = arguments(model, lambda: f"B T : int < {words(model)}")
    return Case(name, lambda: made(name, layers=2).train(), inputs, ("fp32", "bf16"))


def cases() -> list[Case]:
    own = [
        Case("Linear, GELU, Dropout", lambda: nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1)), "B T 64"),
        Case("LayerNorm", lambda: nn.LayerNorm(64), "B T 64"),
        Case("RMSNorm", lambda: nn.RMSNorm(64), "B T 64"),
        Case("SiLU, Softmax", lambda: nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Softmax(-1)), "B T 64"),
        Case("Conv1d, BatchNorm1d, MaxPool1d", image_net, "B 8 T"),
        Case("GroupNorm", lambda: nn.Sequential(nn.Conv1d(8, 16, 3), nn.GroupNorm(4, 16)), "B 8 T"),
        Case("RNN", lambda: nn.RNN(32, 48, 2, dropout=0.1, batch_first=True), "B T 32", ("fp32", "bf16")),
        Case("LSTM", lambda: nn.LSTM(32, 48, 2, dropout=0.1, batch_first=True), "B T 32", ("fp32", "bf16")),
        Case(
            "GRU, both ways", lambda: nn.GRU(32, 48, bidirectional=True, batch_first=True), "B T 32", ("fp32", "bf16")
        ),
        Case("attention of 64", lambda: Attend(4, 64), "B T 256"),
        Case("attention of 20", lambda: Attend(4, 20), "B T 80"),
        Case("attention of 10", lambda: Attend(4, 10), "B T 40"),
        Case("attention of 64, causal, dropout", lambda: Attend(4, 64, 0.1, True), "B T 256"),
        Case("attention of 256", lambda: Attend(2, 256), "B T 512"),
        Case("FlexAttention, causal blocks", lambda: AttendFlexibly(4, 32), "B T 128", ("fp32", "bf16")),
        Case("FlexAttention, changed score", lambda: AttendFlexibly(4, 32, False), "B T 128", ("fp32", "bf16")),
        Case("TransformerEncoderLayer", encoder_layer, "B T 64"),
        Case(
            "TransformerEncoderLayer, norm first", lambda: encoder_layer(norm_first=True, activation="gelu"), "B T 64"
        ),
        Case("Embedding, Linear", lambda: nn.Sequential(nn.Embedding(100, 32), nn.Linear(32, 100)), "B T : int < 100"),
    ]
    return own + [model_case(name) for name in MODELS]


class Autocast(nn.Module):
    """A module under autocast, as users train it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            return self.module(*inputs, **named)


def built(case: Case, dtype: str) -> nn.Module:
    module = case.build().to(torch.bfloat16 if dtype == "bf16" else torch.float32).train()
    return Autocast(module) if dtype == "autocast" else module


def hide_gpu() -> None:
    """In a process that has not looked for one yet."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


def said(name: str, dtype: str) -> dict[str, Any]:
    """What cost says, where no GPU is seen."""
    assert not torch.cuda.is_available()
    torch.set_num_threads(1)
    case = {case.name: case for case in cases()}[name]
    row: dict[str, Any] = {"module": name, "dtype": dtype}
    try:
        with torch.device("meta"):
            module = built(case, dtype)
        found = cost(module, case.inputs, device="cuda")
    except PorismError as error:
        return {**row, "refused": str(error)}
    quantities = [found.at(**sizes).activation_bytes for sizes in SIZES]
    return {**row, "said": [one.value for one in quantities], "labels": [one.label for one in quantities]}


def kept(case: Case, dtype: str, sizes: dict[str, int]) -> int:
    with torch.device("cuda"):
        module = built(case, dtype)
    texts = case.inputs if isinstance(case.inputs, dict) else {"": case.inputs}
    floats = torch.bfloat16 if dtype == "bf16" else torch.float32
    inputs = {name: TensorSpec.parse(text).make(sizes, floats, draw=1).cuda() for name, text in texts.items()}
    given = (inputs.pop(""),) if "" in inputs else ()
    return really_kept(module, *given, **inputs)


def main(processes: int = 2, out: Path = RESULT) -> None:
    """Ask, run, compare and keep.

    processes: that ask at a time.
    """
    # As torch chooses on compute capability 8, which is what costs follow: flash attention before cuDNN's.
    os.environ["TORCH_CUDNN_SDPA_DEPRIORITIZED"] = "1"
    if not torch.cuda.is_available():
        sys.exit("Needs a GPU: what it keeps is what costs are held against.")
    jobs = [(case.name, dtype) for case in cases() for dtype in case.dtypes]
    with ProcessPoolExecutor(processes, get_context("spawn"), hide_gpu) as pool:
        rows = list(pool.map(said, *zip(*jobs, strict=True)))
    by_name = {case.name: case for case in cases()}
    for row in rows:
        row["kept"] = [kept(by_name[row["module"]], row["dtype"], dict(sizes)) for sizes in SIZES]
        print(json.dumps(row), flush=True)
    machine = {"hardware": hardware(torch.device("cuda")), "versions": versions()}
    machine["sources"] = checksums(MEASURES, "cuda")
    out.write_text(json.dumps({**machine, "sizes": SIZES, "results": rows}, indent=1) + "\n")
    wrong = [f"{row['module']} {row['dtype']}" for row in rows if answer(row) == "wrong"]
    if wrong:
        sys.exit(f"Wrong without a label: {', '.join(wrong)}")


def answer(row: dict[str, Any]) -> str:
    """exact, labelled, refused or wrong: of all sizes the one that is known least."""
    if "refused" in row:
        return "refused"
    for value, label, real in zip(row["said"], row["labels"], row["kept"], strict=True):
        if label in KNOWN and value != real:
            return "wrong"
    return "exact" if all(label in KNOWN for label in row["labels"]) else "labelled"


def markdown(result: dict[str, Any]) -> list[str]:
    """Totals, then a row a module: what is said, and at how many of the sizes that is what the GPU kept."""
    rows = result["results"]
    totals = Counter(answer(row) for row in rows)
    counts = ", ".join(f"{totals[kind]} {kind}" for kind in ("exact", "labelled", "refused"))
    sizes = "; ".join(", ".join(f"{letter}={size}" for letter, size in one.items()) for one in result["sizes"])
    dtypes = tuple(dict.fromkeys(row["dtype"] for row in rows))
    found = {(row["module"], row["dtype"]): row for row in rows}
    lines = [
        f"Measured on {result['hardware']['gpu']}, torch {result['versions']['torch']}, at {sizes}. Of {len(rows)} "
        f"modules and precisions: {counts}, {totals['wrong']} wrong without a label.",
        "",
        f"| module; said, and as a share of the bytes kept | {' | '.join(dtypes)} |",
        f"|---|{'---|' * len(dtypes)}",
    ]
    modules = dict.fromkeys(row["module"] for row in rows)
    return lines + [f"| {one} | {' | '.join(_cell(found.get((one, dtype))) for dtype in dtypes)} |" for one in modules]


def _cell(row: dict[str, Any] | None) -> str:
    if row is None or "refused" in row:
        return "" if row is None else "refused"
    least, most = (
        edge(said / kept for said, kept in zip(row["said"], row["kept"], strict=True)) for edge in (min, max)
    )
    label = min(row["labels"], key=lambda one: one in KNOWN)
    return f"{label}, " + (f"{least:.3g}" if least == most else f"{least:.2g} to {most:.2g}")


if __name__ == "__main__":
    tyro.cli(main)
