"""porism predict: let a trained model answer."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from porism.cli.options import Assignments, Json, optional
from porism.errors import RecipeError


@dataclass(kw_only=True)
class PredictCommand:
    """Let a run's best model answer. A language model continues each text, an image model names what a picture shows,
    word vectors list the words nearest to each, a speech model transcribes a recording, a sentiment model
    classifies texts as negative, neutral or positive.

    $ porism predict runs/language-elman "a function is" "the object"
    $ porism predict runs/language-elman "if" --set temperature=0.7 --set top_k=40 --set length=20
    $ porism predict runs/images-grid-4 three.png
    $ porism predict runs/words-small function --set count=5
    $ porism predict runs/words-small --analogy class instance function
    $ porism predict runs/words-small --set out=vectors.bin      all vectors as word2vec's text (.txt) or binary (.bin)
    $ porism predict runs/speech-joint talk.mp3 --set beam=8
    $ porism predict runs/sentiment-attention "I love it"
    """

    folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder that porism train printed."""
    inputs: Annotated[Positional[list[str]], arg(metavar="INPUT...")]
    """What to answer: for a language model the beginnings of texts, for an image model files of pictures, for
    word vectors words, for a speech model recordings (WAV, FLAC, OGG, MP3), for a sentiment model texts."""
    set: Assignments = field(default_factory=list)
    """An option of the task; for language: length, temperature, top_k, top_p, seed; for completed images: out, rows,
    seed; for words: count, out; for speech: search, beam, length."""
    analogy: Annotated[bool, optional()] = False
    """For words: the first is to the second as the third is to what?"""
    device: Annotated[str, arg(metavar="auto|cpu|cuda")] = "cpu"
    """Where to compute."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        import dataclasses

        from porism.cli.output import console_for, print_json, tell
        from porism.runs.run import RunFolder
        from porism.tasks import find
        from porism.training.device import choose_device
        from porism.training.progress import ConsoleProgress
        from porism.training.session import best_checkpoint, restore_task, trained_model

        options = self._options()
        if not self.inputs and "out" not in options:
            raise RecipeError('what is there to answer? Write porism predict RUN INPUT..., for instance "the object".')
        console = console_for(self.json)
        run = RunFolder.open(self.folder)
        saved = best_checkpoint(run, ConsoleProgress(console))
        task = restore_task(find(run.facts.task), run, saved)
        model = trained_model(task, saved, choose_device(self.device))
        samples = task.predict(model, self.inputs, options)
        for sample in samples:
            tell(console, f"{sample.prompt} {sample.output}".strip())
            for note in sample.notes:
                tell(console, f"  ({note})")
        if self.json:
            print_json({"run": str(run.path), "predictions": [dataclasses.asdict(sample) for sample in samples]})
        return 0

    def _options(self) -> dict[str, Any]:
        from porism.runs.recipe import LARGEST, plain_value

        options: dict[str, Any] = {"analogy": True} if self.analogy else {}
        for assignment in self.set:
            key, equals, value = assignment.partition("=")
            if not equals:
                raise RecipeError(f"--set takes option=value, got {assignment!r}. Write for instance --set length=20.")
            options[key] = plain_value(value)
            if isinstance(options[key], int) and abs(options[key]) > LARGEST:
                raise RecipeError(f"--set {key}={value}: a whole number has at most 64 bits. Choose a smaller one.")
        return options
