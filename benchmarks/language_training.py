"""How much faster does Porism train a sigmoid Elman language model than the plain PyTorch loop, at the same quality?

    python benchmarks/language_training.py --data ptb/                     both rows, two threads, one epoch
    python benchmarks/language_training.py --data ptb/ --rows table-02 --steps 100

Peer: the loop a competent user writes with nn.Embedding, nn.Linear, F.cross_entropy and torch.optim.Adam in fp32: the
same model, start, batch, dropout and optimizer. The two take turns within one run, some steps each, so that the
machine's noise meets both alike; the rate is the median over turns. Porism's side is its own training loop with all it
does.
"""

import json
import math
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
import tyro
from torch import Tensor, nn
from torch.nn import functional

from porism.runs.recipe import override
from porism.tasks.language.data import Windows, rows
from porism.tasks.language.model.recurrent import EVALUATION_STEPS
from porism.tasks.language.recipes import RECIPES, LanguageRecipe
from porism.tasks.language.task import EVALUATION_ROWS, Language
from porism.training.device import hardware, versions
from porism.training.progress import NoProgress
from porism.training.session import begin

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

    def __init__(self, task: Language, start: nn.Module) -> None:
        recipe = task.recipe
        self.task, self.hidden = task, recipe.hidden_size
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
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=recipe.learning_rate)

    def steps(self) -> Iterator[int]:
        """Train, yielding the tokens of each step."""
        state = torch.zeros(self.task.recipe.batch_size, self.hidden)
        for tokens, targets in self.task.batches(1, 1):
            logits, state = self.model(tokens, state.detach())
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
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
    """Hears of every step of Porism's loop, and after each turn lets the plain loop take the same number."""

    plain: Iterator[int]
    most: int | None
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    units: int = 0
    done: int = 0
    since: float = field(default_factory=time.perf_counter)

    def step(self, units: int) -> None:
        self.units += units
        self.done += 1
        if self.done % TURN:
            return
        self.ours.append(self.units / (time.perf_counter() - self.since))
        start = time.perf_counter()
        tokens = sum(next(self.plain, 0) for _ in range(TURN))
        self.theirs.append(tokens / (time.perf_counter() - start))
        if self.most is not None and self.done >= self.most:
            raise StopIteration
        self.units, self.since = 0, time.perf_counter()


def measure(recipe: LanguageRecipe, data: str, most: int | None) -> dict[str, object]:
    """One recipe, both sides."""
    with tempfile.TemporaryDirectory() as folder:
        training = begin(Language, recipe, Path(folder) / "run", source=data, device="cpu", seed=1)
        task = training.task
        assert isinstance(task, Language)
        plain = PlainLoop(task, training.model)
        turns = Turns(plain.steps(), most)
        quality: dict[str, float] = {}
        try:
            training.fit(turns)
        except StopIteration:
            pass
        else:
            for _ in turns.plain:
                pass
            theirs, ours = plain.valid_perplexity(), training.position.best
            assert ours is not None
            quality = {"valid_perplexity": ours, "plain_valid_perplexity": theirs, "perplexity_ratio": ours / theirs}
    ours_rate, plain_rate = statistics.median(turns.ours[1:]), statistics.median(turns.theirs[1:])
    return {
        "recipe": recipe.name,
        "precision": training.run.facts.precision,
        "tokens_per_second": round(ours_rate),
        "plain_tokens_per_second": round(plain_rate),
        "ratio": round(ours_rate / plain_rate, 2),
        "turns": len(turns.ours),
        **quality,
    }


def main(
    data: str,
    rows: tuple[str, ...] = ("table-02", "table-12"),
    threads: int = 2,
    steps: int | None = None,
    precision: str = "auto",
    out: Path | None = None,
) -> None:
    """Measure, print and keep.

    data: Penn Treebank, or any other text.
    steps: stop after so many steps, for a quick look without the comparison of quality.
    out: where to keep the result as JSON.
    """
    torch.set_num_threads(threads)
    results = [measure(override(RECIPES[row], ["epochs=1", f"precision={precision}"]), data, steps) for row in rows]
    for result in results:
        print(json.dumps(result))
    if out is not None:
        machine = {"hardware": hardware(torch.device("cpu")), "versions": versions(), "machine": platform.machine()}
        out.write_text(json.dumps({**machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
