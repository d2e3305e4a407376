"""Exhibits of a trained model: metrics with intervals, recordings, spectrograms, alignments, the worst errors."""

from collections.abc import Collection, Sequence

from torch import Tensor
from torch.nn import functional

from porism.runs.exhibits import AnyExhibit, Clip, Pictures, Sounds, Table
from porism.tasks.blocks.pictures import picture
from porism.tasks.speech.data.audio import write_wav
from porism.tasks.speech.data.batches import Example
from porism.tasks.speech.data.recordings import Utterance
from porism.tasks.speech.data.symbols import encode
from porism.tasks.speech.error_kinds import EDITS, edit_kinds
from porism.tasks.speech.exhibits.alignment import alignment
from porism.tasks.speech.metric import CONFIDENCE, character_errors, intervals, measure, reported_interval
from porism.tasks.speech.model.base import SpeechModel

SHOWN = 4
WORST = 12
WIDEST = 320
"""Columns of a picture: longer recordings are drawn more coarsely."""


def exhibits(
    model: SpeechModel,
    utterances: Sequence[Utterance],
    examples: Sequence[Example],
    texts: Sequence[str],
    vocabulary: Collection[str],
) -> list[AnyExhibit]:
    """Of the test split, with the model's hypothesis for each utterance and the words of the training texts."""
    longest = model.recipe.max_target_length
    references = [example.text for example in examples]
    worst = _worst(references, texts, examples)
    return [
        _metrics(references, texts, vocabulary),
        _error_kinds(references, texts),
        _sounds(utterances[:SHOWN], texts),
        Pictures(
            title="Spectrograms",
            about="Of the same recordings: time to the right, high bands above, loud ones dark.",
            pictures=[picture(_spectrogram(example.features[0]), example.text) for example in examples[:SHOWN]],
        ),
        Pictures(
            title="What the decoder attends to",
            about="A row a symbol, from the first at the top to the end of the text; a column a state of the encoder. "
            "A decoder that follows the speech draws a line from the top left to the bottom right.",
            pictures=[
                picture(_enhanced(alignment(model, example, encode(text, longest)[1:-1])), text)
                for example, text in zip(examples[:SHOWN], texts, strict=False)
            ],
        ),
        *([worst] if worst.rows else []),
    ]


def _metrics(references: Sequence[str], texts: Sequence[str], vocabulary: Collection[str]) -> Table:
    metrics, ranges = measure(references, texts, vocabulary), intervals(references, texts, vocabulary)
    ranges["cer"] = reported_interval(references, texts) or ranges["cer"]
    return Table(
        title="Metrics of the transcripts",
        about=f"On test, with the {100 * CONFIDENCE:.0f} % interval over its sentences: the bootstrap's, and Clopper "
        "and Pearson's for `exact`, the share of sentences without an error. "
        "Error rates: lower is better. Jaccard and cosine ignore the order of the characters. In-vocabulary rate: "
        "written words that are in the training texts; real-word rate: the same of the wrong words.",
        columns=["metric", "value", "from", "to"],
        rows=[[name.replace("_", " "), value, *ranges[name]] for name, value in metrics.items()],
    )


def _error_kinds(references: Sequence[str], texts: Sequence[str]) -> Table:
    """Each kind of edit: how often, and its share of all."""
    edits = [edit_kinds(reference, text) for reference, text in zip(references, texts, strict=True)]
    counts = {kind: sum(counted[kind] for counted in edits) for kind in EDITS}
    characters, errors = sum(map(len, references)), sum(counts.values())
    return Table(
        title="Kinds of errors",
        about=f"The {errors:,} edits between the {characters:,} characters of the test references and the predictions.",
        columns=["kind", "edits", "per 100 characters", "share of all"],
        rows=[
            [meaning, counts[kind], 100 * counts[kind] / max(1, characters), counts[kind] / max(1, errors)]
            for kind, meaning in EDITS.items()
        ],
    )


def _sounds(utterances: Sequence[Utterance], texts: Sequence[str]) -> Sounds:
    return Sounds(
        title="Recordings",
        about="The first of test, with reference and prediction.",
        clips=[
            Clip(
                sound=write_wav(utterance.sound()),
                caption=f"reference: {utterance.text}\nprediction: {text}",
            )
            for utterance, text in zip(utterances, texts, strict=False)
        ],
    )


def _worst(references: Sequence[str], texts: Sequence[str], examples: Sequence[Example]) -> Table:
    """The texts with the largest share of wrong characters."""
    errors = character_errors(references, texts)
    shares = [wrong / max(1, len(reference)) for wrong, reference in zip(errors, references, strict=True)]
    order = sorted((index for index, wrong in enumerate(errors) if wrong), key=lambda index: -shares[index])
    return Table(
        title="The worst errors",
        about=f"{len(order)} of {len(references)} test recordings are transcribed with an error; those with the most.",
        columns=["recording", "reference", "prediction", "CER"],
        rows=[[examples[i].name, references[i], texts[i], shares[i]] for i in order[:WORST]],
    )


def _spectrogram(features: Tensor) -> Tensor:
    """(1, C, X), the lowest band at the bottom; grey from the quietest to the loudest, of which few are cut off."""
    x = _narrow(features.T.flip(0)[None])
    low, high = x.quantile(0.02), x.quantile(0.98)
    loudness: Tensor = ((x - low) / (high - low).clamp(min=1e-6)).clamp(0, 1)
    return 1 - loudness


def _enhanced(weights: Tensor) -> Tensor:
    """(1, T, S), each row's largest weight black."""
    x = _narrow(weights[None])
    return 1 - x / x.amax(2, keepdim=True).clamp(min=1e-6)


def _narrow(image: Tensor) -> Tensor:
    """At most WIDEST columns, each the mean of those it stands for."""
    columns = min(WIDEST, image.shape[2])
    return functional.adaptive_avg_pool2d(image, (image.shape[1], columns))
