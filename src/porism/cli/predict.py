"""porism predict: let a trained model answer."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from porism.cli.options import Assignments, Json, optional
from porism.errors import RecipeError

OPTIONS = (
    *("max_new_tokens", "temperature", "top_k", "top_p", "num_return_sequences", "seed"),
    *("topn", "export", "search", "beam_size", "ctc_weight", "length_bonus", "rows", "picture"),
)
"""Those that are handed to the task."""
OWN_NAMES = {"picture": "out"}
"""Where the task has another name: `out` is the run's folder elsewhere."""
EXAMPLES = {
    "language": '"a function is"',
    "images": "picture.png",
    "graphs": "0",
    "speech": "talk.wav",
    "words": "function",
    "sentiment": '"I love it"',
    "supervised": "0.5,1.0",
}
FILES = {
    "images": (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"),
    "speech": (".wav", ".flac", ".ogg", ".opus", ".mp3", ".sph"),
}
"""Tasks whose inputs are files, and how the names of these end."""


@dataclass(kw_only=True)
class PredictCommand:
    """Let a run's best model answer. What it takes depends on the task of the run:

    language: beginnings of texts, which it continues
    $ porism predict runs/language-elman "a function is" "the object"
    $ porism predict runs/language-elman "if" --temperature 0.7 --top-k 40 --max-new-tokens 20
    $ porism predict runs/language-elman - < beginnings.txt      a line each

    images: files of pictures, and folders of them, which it classifies; recipe complete goes on with a picture
    $ porism predict runs/images-grid-4 three.png pictures/
    $ porism predict runs/images-complete three.png --picture whole.png --rows 4

    graphs: nodes of the run's graph by name or number, or a new graph, all of whose nodes it labels
    $ porism predict runs/graphs-gcn 8 my-graph/

    words: words, whose most similar ones it lists
    $ porism predict runs/words-small function --topn 5
    $ porism predict runs/words-small --analogy class instance function
    $ porism predict runs/words-small --export vectors.bin       all vectors as word2vec's text (.txt) or binary (.bin)

    speech: recordings (WAV, FLAC, OGG, MP3), and folders of them, which it transcribes
    $ porism predict runs/speech-joint talk.mp3 --beam-size 8 --ctc-weight 0.3

    sentiment: texts, which it classifies as negative, neutral or positive
    $ porism predict runs/sentiment-attention "I love it"

    supervised: the numbers of an example, with commas between them
    $ porism predict runs/supervised-mlp 0.5,1.0
    """

    folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder that porism train printed."""
    inputs: Annotated[Positional[list[str]], arg(metavar="INPUT...")]
    """What to answer, by the run's task: see above. - reads them from standard input, one a line."""
    max_new_tokens: Annotated[int | None, optional("N", int)] = None
    """Language: how many words or other tokens to write at most."""
    temperature: Annotated[float | None, optional("X", float)] = None
    """Language: below 1 the likelier words are drawn more often, 0 takes the likeliest."""
    top_k: Annotated[int | None, optional("N", int)] = None
    """Language: draw from the N likeliest."""
    top_p: Annotated[float | None, optional("X", float)] = None
    """Language: draw from the likeliest that together have this probability."""
    num_return_sequences: Annotated[int | None, optional("N", int)] = None
    """Language: how many continuations of each text."""
    seed: Annotated[int | None, optional("N", int)] = None
    """Language and images-complete: what is drawn."""
    topn: Annotated[int | None, optional("N", int)] = None
    """Words: how many neighbours."""
    export: Annotated[str | None, optional("FILE", str)] = None
    """Words: write all vectors to a file."""
    analogy: Annotated[bool, optional()] = False
    """Words: the first is to the second as the third is to what?"""
    search: Annotated[str | None, optional("greedy|ctc|beam", str)] = None
    """Speech: how the transcript is searched for. Left out: as the recipe says."""
    beam_size: Annotated[int | None, optional("N", int)] = None
    """Speech: hypotheses of a beam search."""
    ctc_weight: Annotated[float | None, optional("X", float)] = None
    """Speech: weight of CTC's score in a beam search, beside the decoder's."""
    length_bonus: Annotated[float | None, optional("X", float)] = None
    """Speech: added in a beam search for every character, against transcripts that end too early."""
    rows: Annotated[int | None, optional("N", int)] = None
    """images-complete: how many rows of the picture are kept. Left out: half."""
    picture: Annotated[str | None, optional("FILE", str)] = None
    """images-complete: write the completed picture to a file."""
    set: Assignments = field(default_factory=list)
    """An option of the above as OPTION=VALUE, as 0.1 had them: length=20."""
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
        run = RunFolder.open(self.folder)
        inputs = [one for given in self.inputs for one in _expanded(given, run.facts.task)]
        if not inputs and not options.keys() & {"export", "out"}:
            example = EXAMPLES.get(run.facts.task, "INPUT")
            raise RecipeError(f"what is there to answer? Write for instance: porism predict {self.folder} {example}")
        console = console_for(self.json)
        saved = best_checkpoint(run, ConsoleProgress(console))
        task = restore_task(find(run.facts.task), run, saved)
        model = trained_model(task, saved, choose_device(self.device))
        samples = task.predict(model, inputs, options)
        for sample in samples:
            tell(console, sample.text)
            for note in sample.notes:
                tell(console, f"  ({note})")
        if self.json:
            print_json({"run": str(run.path), "predictions": [dataclasses.asdict(sample) for sample in samples]})
        return 0

    def _options(self) -> dict[str, Any]:
        from porism.runs.recipe import option_of, plain_value

        options: dict[str, Any] = {"analogy": True} if self.analogy else {}
        for name in OPTIONS:
            if (given := getattr(self, name)) is not None:
                options[OWN_NAMES.get(name, name)] = _checked(option_of(name), given)
        for assignment in self.set:
            key, equals, value = assignment.partition("=")
            if not equals:
                raise RecipeError(f"--set takes option=value, got {assignment!r}. Write for instance --set length=20.")
            if key in options:
                raise RecipeError(f"{key} is set twice, also by --set {assignment}. Give it once.")
            options[key] = _checked(f"--set {assignment}", plain_value(value))
        return options


def _checked(given: str, value: Any) -> Any:
    from porism.runs.recipe import LARGEST

    if isinstance(value, int) and abs(value) > LARGEST:
        raise RecipeError(f"{given}: a whole number has at most 64 bits. Choose a smaller one.")
    return value


def _expanded(given: str, task: str) -> list[str]:
    """An input, the lines of standard input for `-`, or the files of a folder for tasks that read files."""
    if given == "-":
        return [line for line in (raw.rstrip("\r\n") for raw in sys.stdin) if line.strip()]
    if task not in FILES or not Path(given).is_dir():
        return [given]
    files = sorted(path for path in Path(given).iterdir() if path.suffix.lower() in FILES[task])
    if not files:
        raise RecipeError(f"{given}: no files here that {task} reads: {', '.join(FILES[task])}. Name another folder.")
    return [str(path) for path in files]
