"""How a run's model can be tried in the page: what it takes, and the options that a request may set.

Only these options pass from a request to a task: some of the others write files.
"""

from typing import Any

from porism.runs.record import RunRecord

Option = dict[str, Any]


def number(name: str, label: str, default: float, least: float, most: float, step: float = 1) -> Option:
    return {
        "name": name,
        "label": label,
        "type": "number",
        "default": default,
        "min": least,
        "max": most,
        "step": step,
    }


LANGUAGE = (
    number("temperature", "Temperature", 0.8, 0, 5, 0.1),
    number("max_new_tokens", "Words", 24, 1, 5000),
    number("num_return_sequences", "Samples", 1, 1, 8),
)
SPEECH = (
    {
        "name": "search",
        "label": "Search",
        "type": "select",
        "default": "",
        "choices": ["", "greedy", "ctc", "beam"],
    },
    number("beam_size", "Beam size", 8, 1, 32),
)
COMPLETE = (number("rows", "Rows kept", 4, 0, 512),)
WORDS = (number("topn", "Neighbours", 10, 1, 100),)


def try_form(record: RunRecord) -> dict[str, Any] | None:
    """The form for a run's model; None for a task that is not known here."""
    match record.facts.task:
        case "language":
            return _form("text", "Go on with a text", "a function is", *LANGUAGE)
        case "sentiment":
            return _form("text", "Classify a text", "I love it")
        case "images" if record.fields.get("model") == "complete":
            return _form("image", "Complete half a picture", "", *COMPLETE)
        case "images":
            drawn = record.facts.source in (None, "digits", "mnist")
            return _form("digit" if drawn else "image", "Draw a digit" if drawn else "Classify a picture", "")
        case "speech":
            return _form("sound", "Transcribe a recording", "", *SPEECH)
        case "words":
            return _form("word", "Find the neighbours of a word", "function", *WORDS)
        case "graphs":
            return _form("node", "Label a node of the graph", "0")
        case "supervised":
            return _form("fields", "Answer to numbers", "0.5,1.0")
    return None


def _form(kind: str, label: str, example: str, *options: Option) -> dict[str, Any]:
    return {"kind": kind, "label": label, "input": example, "options": list(options)}
