"""The predict worker: what trained models answer, and their attention weights."""

import base64
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from porism.errors import DataError
from porism.report import numbers
from porism.tasks.graphs.task import Graphs
from porism.tasks.language.data.tokenizer import Tokenizer
from porism.tasks.language.data.vocabulary import Vocabulary
from porism.tasks.language.predict import AutoregressiveModel, generate, seed_of
from porism.tasks.language.task import Language
from porism.training.loop import answering
from porism.training.task import Carry, Prediction
from porism.web.checkpoints import PREVIOUS
from porism.web.processes.models import LoadedRun, loaded
from porism.web.processes.patterns import patterns
from porism.web.processes.process import JobStep, serve


def predict(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    """A run's answer to one input, in the form that its task has."""
    step.progress(0, None, "reading the model")
    run = loaded(payload["path"], payload["checkpoint"])
    step.check()
    task, options = payload["task"], dict(payload["options"])
    with answering(run.model):
        if isinstance(run.task, Language):
            found = _continued(run, run.task, payload["text"], options, payload["seed"], step)
        elif isinstance(run.task, Graphs):
            found = [_node(run, run.task, payload["text"])]
        elif payload["form"] == "image" and run.folder.fields.get("model") == "complete":
            return _completed(run, payload, options)
        else:
            found = run.task.predict(run.model, [payload["file"] or payload["text"]], options)
    return {**_answer(task, found), "note": _note(run, found, payload), "command": _command(payload)}


def _continued(
    run: LoadedRun, task: Language, prompt: str, options: dict[str, Any], seed: int, step: JobStep
) -> list[Prediction]:
    """Continuations of a text, sent word by word."""
    samples, most = int(options.pop("num_return_sequences", 1)), int(options.get("max_new_tokens", 24))
    found = []
    for sample in range(samples):
        stream = TextStream(step, task.tokenizer, prompt, sample, most * sample, most * samples)
        model = WatchedModel(run.model, task.vocabulary, step, stream)
        own = seed_of(seed, 0, sample)
        found.append(generate(model, task.vocabulary, prompt, tokenizer=task.tokenizer, seed=own, **options))
    return found


class TextStream:
    """Sends a continuation as it grows, each part as the tokenizer joins it to the text before.

    done, most: words of the samples before, and how many all samples may have together.
    """

    def __init__(self, step: JobStep, tokenizer: Tokenizer, prompt: str, sample: int, done: int, most: int) -> None:
        self._step, self._tokenizer, self._prompt = step, tokenizer, prompt
        self._sample, self._done, self._most = sample, done, most
        self._words: list[str] = []
        self._sent = len(tokenizer.continued(prompt, []))

    def add(self, word: str) -> None:
        self._words.append(word)
        text = self._tokenizer.continued(self._prompt, self._words)
        self._step.part(text=text[self._sent :], sample=self._sample)
        self._sent = len(text)
        self._step.progress(self._done + len(self._words), self._most, "words")


class WatchedModel:
    """A language model that tells of every word it is fed back, and stops when the job is cancelled."""

    def __init__(self, model: nn.Module, vocabulary: Vocabulary, step: JobStep, stream: TextStream) -> None:
        self._model: Any = model
        self._vocabulary, self._step, self._stream = vocabulary, step, stream
        self._is_prompt = True
        self.training = bool(self._model.training)

    def start(self, batch: int) -> Carry:
        own: AutoregressiveModel = self._model
        return own.start(batch)

    def logits(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        if not self._is_prompt:
            (word,) = self._vocabulary.decode([int(tokens[-1, 0])])
            self._stream.add(word)
        self._is_prompt = False
        self._step.check()
        own: AutoregressiveModel = self._model
        return own.logits(tokens, carry)

    def parameters(self) -> Iterator[nn.Parameter]:
        own: AutoregressiveModel = self._model
        return own.parameters()

    def train(self, mode: bool = True) -> object:
        return self._model.train(mode)


def _node(run: LoadedRun, task: Graphs, text: str) -> Prediction:
    """A node of the run's own graph. A path is none: no file is read because a request names it."""
    found = task.label_own_node(run.model, text)
    if found is None:
        raise DataError(f"{text[:60]!r} is no node of {task.data.name}. Its nodes are numbered from 0 on.")
    return found


def _completed(run: LoadedRun, payload: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A picture whose lower rows the model has drawn."""
    with tempfile.TemporaryDirectory(prefix="porism-picture-") as folder, answering(run.model):
        out = Path(folder) / "completed.png"
        chosen = {**options, "out": str(out), "seed": payload["seed"]}
        found = run.task.predict(run.model, [payload["file"]], chosen)
        picture = f"data:image/png;base64,{base64.b64encode(out.read_bytes()).decode()}"
    notes = [note for note in found[0].notes if str(out) not in note]
    rows = options.get("rows")
    note = "; ".join(
        [found[0].output, *([f"completed from its first {rows} rows"] if rows is not None else []), *notes]
    )
    return {"picture": picture, "note": f"{note}; {_of(run, payload)}", "command": _command(payload)}


def _answer(task: str, found: list[Prediction]) -> dict[str, Any]:
    """Predictions in the form that the page draws."""
    first = found[0]
    if task == "language":
        return {"text": first.text, "samples": [one.text for one in found], "details": dict(first.details)}
    if (probs := first.details.get("probabilities")) is not None and isinstance(probs, Mapping):
        ranked = sorted(probs.items(), key=lambda pair: -pair[1])
        return {"classes": [{"label": label, "probability": prob} for label, prob in ranked]}
    if (near := first.details.get("neighbours")) is not None:
        return {"neighbours": [{"word": one["word"], "similarity": one["cosine"]} for one in near]}
    if (output := first.details.get("output")) is not None:
        rows = output if output and isinstance(output[0], list) else [output]
        return {"columns": [f"output {index + 1}" for index in range(len(rows[0]))], "rows": rows, "text": first.output}
    return {"text": first.output}


def _note(run: LoadedRun, found: list[Prediction], payload: dict[str, Any]) -> str:
    """How an answer came about, in one line."""
    parts = [note for one in found for note in one.notes]
    details = found[0].details
    if "stopped" in details:
        ended = "stopped at the end of a line, after " if details["stopped"] == "end of line" else ""
        parts.append(f"{ended}{numbers.counted(details['words'], 'word')}")
    return "; ".join([*dict.fromkeys(parts), _of(run, payload)])


def _of(run: LoadedRun, payload: dict[str, Any]) -> str:
    seeded = f"seed {payload['seed']}, " if payload["task"] in ("language", "images") else ""
    which = "checkpoint before the best," if payload["checkpoint"] == PREVIOUS else "best checkpoint"
    return "; ".join([f"{seeded}{which} of epoch {run.epoch}", *run.notes])


def _command(payload: dict[str, Any]) -> str | None:
    """The same in a terminal, where the best checkpoint answers."""
    if payload["checkpoint"] == PREVIOUS:
        return None
    flags = [part for name, value in payload["options"].items() for part in (f"--{name.replace('_', '-')}", str(value))]
    flags += ["--seed", str(payload["seed"])] if payload["task"] == "language" else []
    given = payload["text"] if payload["file"] is None else "FILE"
    return shlex.join(["porism", "predict", payload["path"], given, *flags])


def main() -> int:
    return serve({"predict": predict, "patterns": patterns})
