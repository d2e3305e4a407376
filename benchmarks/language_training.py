"""How much faster does Porism train a sigmoid Elman language model than the plain PyTorch loop, at the same quality?

    python benchmarks/language_training.py --data ptb/                     all rows, types and loops, two threads
    python benchmarks/language_training.py --data ptb/ --rows table-02 --steps 60
    python benchmarks/language_training.py --data ptb/ --quality           one epoch each, and what it reaches

Peers: the loop a competent user writes with nn.Embedding, nn.Linear, F.cross_entropy and fused Adam, as it stands and
with its step under torch.compile; the same model, start, batch, dropout and optimizer. In fp32 on both sides, then in
bf16 on both (theirs under autocast) where the CPU has matrix units for it, as Porism takes it by itself. They take
turns within one run, some steps each; the rate is the median over turns. Porism's side is its own training loop
with all it does.
"""

import math
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from torch import Tensor, nn
from torch.nn import functional

from kept import Kept, machine, result_of
from porism.runs.recipe import override
from porism.tasks.language.data import Windows, rows
from porism.tasks.language.model.recurrent import EVALUATION_STEPS
from porism.tasks.language.recipes import RECIPES
from porism.tasks.language.task import EVALUATION_ROWS, Language
from porism.training.device import cpu_has_amx
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest
from porism.training.session import begin
from turns import spread, times_faster

MEASURES = (
    "layers/embedding.py",
    "layers/readout",
    "layers/recurrent/elman",
    "layers/recurrent/kernels",
    "layers/reused_memory.py",
    "tasks/language/model/recurrent.py",
    "training/loop.py",
    "training/optimizer.py",
    "training/step.py",
)
TURN = 10
"""Steps of one side before the other takes over."""


class PlainModel(nn.Module):
    """The model as a competent user writes it."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.input = nn.Linear(embedding, hidden)
        self.recurrent = nn.Linear(hidden, hidden, bias=False)
        self.output = nn.Linear(hidden, vocabulary)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        inputs = self.input(self.dropout(self.embedding(tokens)))  # T B H
        states = []
        for x in inputs:
            state = torch.sigmoid(x + self.recurrent(state))
            states.append(state)
        return self.output(self.dropout(torch.stack(states))), state


class PlainLoop:
    """One epoch of the plain loop, a step at a time."""

    def __init__(self, task: Language, start: nn.Module, precision: str, compiled: bool) -> None:
        recipe = task.recipe
        self.task, self.hidden, self.bf16 = task, recipe.hidden_size, precision == "bf16"
        self.model = PlainModel(len(task.vocabulary), recipe.embedding_dim, recipe.hidden_size, recipe.dropout)
        # The same start for both.
        ours = dict(start.named_parameters())
        names = {
            "embedding.weight": "embedding.weight",
            "input.weight": "recurrent.weight_ih_l0",
            "input.bias": "recurrent.bias_ih_l0",
            "recurrent.weight": "recurrent.weight_hh_l0",
            "output.weight": "readout.weight",
            "output.bias": "readout.bias",
        }
        self.model.load_state_dict({theirs: ours[name].detach().clone() for theirs, name in names.items()})
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=recipe.learning_rate, fused=True)
        self.loss = torch.compile(self._loss, dynamic=False) if compiled else self._loss

    def _loss(self, tokens: Tensor, targets: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            logits, state = self.model(tokens, state)
            return functional.cross_entropy(logits.flatten(0, 1), targets.flatten()), state

    def steps(self) -> Iterator[int]:
        """Train, yielding the tokens of each step."""
        state = torch.zeros(self.task.recipe.batch_size, self.hidden)
        for tokens, targets in self.task.batches(1, 1):
            loss, state = self.loss(tokens, targets, state.detach().float())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            yield targets.numel()

    @torch.inference_mode()
    def valid_perplexity(self) -> float:
        """The same clean evaluation."""
        self.model.eval()
        state, nats, count = torch.zeros(EVALUATION_ROWS, self.hidden), 0.0, 0
        for tokens, targets in Windows(rows(self.task.corpus.streams["valid"], EVALUATION_ROWS), EVALUATION_STEPS):
            logits, state = self.model(tokens, state)
            nats += float(functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum"))
            count += targets.numel()
        return math.exp(nats / count)


@dataclass
class Turns(NoProgress):
    """Hears of every step of Porism's loop, and after each turn lets the plain loops take the same number."""

    plain: dict[str, Iterator[int]]
    most: int | None
    seconds_a_token: dict[str, list[float]]
    units: int = 0
    done: int = 0
    since: float = field(default_factory=time.perf_counter)

    def step(self, units: int) -> None:
        self.units += units
        self.done += 1
        if self.done % TURN:
            return
        self.seconds_a_token["porism"].append((time.perf_counter() - self.since) / self.units)
        for name, steps in self.plain.items():
            start = time.perf_counter()
            tokens = sum(next(steps, 0) for _ in range(TURN))
            self.seconds_a_token[name].append((time.perf_counter() - start) / tokens)
        if self.most is not None and self.done >= self.most:
            raise StopIteration
        self.units, self.since = 0, time.perf_counter()


def measured(row: str, precision: str, data: str, most: int | None) -> dict[str, Any]:
    """One recipe in one type, all sides. The first turn warms up."""
    recipe = override(RECIPES[row], ["epochs=1", f"precision={precision}"])
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as folder:
        training = begin(TrainingRequest(Language, recipe, source=data, device="cpu", seed=1), Path(folder) / "run")
        task = training.task
        assert isinstance(task, Language)
        loops = {
            name: PlainLoop(task, training.model, precision, compiled=name == "compiled")
            for name in ("plain", "compiled")
        }
        turns = Turns(
            {name: loop.steps() for name, loop in loops.items()}, most, {name: [] for name in ("porism", *loops)}
        )
        quality: dict[str, float] = {}
        try:
            training.fit(turns)
        except StopIteration:
            pass
        else:
            for steps in turns.plain.values():
                deque(steps, maxlen=0)
            assert training.position.best is not None
            quality = {"porism": training.position.best}
            quality |= {name: loop.valid_perplexity() for name, loop in loops.items()}
    times = {name: taken[1:] for name, taken in turns.seconds_a_token.items()}
    best = min(loops, key=lambda name: statistics.median(times[name]))
    return {
        "recipe": row,
        "precision": training.run.facts.precision,
        "tokens_per_second": {name: spread([1 / taken for taken in found]) for name, found in times.items()},
        "best_peer": best,
        "times_faster": times_faster(times["porism"], times[best]),
        "valid_perplexity": quality,
    }


def place() -> Path:
    """A CPU of x86 with units for bf16 (AMX) is a kind of its own: there Porism trains in bf16 by itself."""
    return result_of("language_training_amx" if cpu_has_amx() else "language_training")


def main(
    data: str,
    rows: tuple[str, ...] = ("table-02", "table-12"),
    precisions: tuple[Literal["fp32", "bf16"], ...] | None = None,
    threads: int = 2,
    steps: int = 150,
    quality: bool = False,
    resume: bool = False,
    out: Path | None = None,
) -> None:
    """Measure, print and keep.

    data: Penn Treebank, or any other text.
    precisions: of the products on both sides; fp32, and bf16 where the CPU has units for it (elsewhere it is emulated).
    steps: stop after so many steps of each side.
    quality: go on to the end of the epoch, and compare what is reached; some minutes a row and type.
    resume: keep the parts that the result has, and measure the others.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    most = None if quality else steps
    settings = {"threads": threads, "steps": most, "turn": TURN, "optimizer": "Adam, fused"}
    made_on = machine(torch.device("cpu"))
    made_on["hardware"]["bf16_units"] = cpu_has_amx()
    kept = Kept(out or place(), made_on, settings, resume, MEASURES)
    for row, precision in product(rows, precisions or (("fp32", "bf16") if cpu_has_amx() else ("fp32",))):
        kept.part(f"{row}, {precision}", partial(measured, row, precision, data, most))


if __name__ == "__main__":
    tyro.cli(main)
