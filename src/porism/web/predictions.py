"""What a request may ask of a run's model: checked here, answered by the predict worker.

No text of a request becomes a path: files come from uploads, and only options of the run's form are passed on. A run
that was trained with a module of its user's own imports that module, so it must be allowed.
"""

from collections.abc import Mapping
from typing import Any

from porism.runs.record import RunRecord
from porism.web.checkpoints import check_checkpoint
from porism.web.refusals import Refusal
from porism.web.runs import RunTable
from porism.web.settings import ServerSettings
from porism.web.try_forms import try_form
from porism.web.uploads import Uploads

FILES = {"image": "picture", "digit": "picture", "sound": "sound"}
"""Forms that take a file, and which."""
MOST_WORDS = 64
"""Of a text whose attention is shown."""
ATTENDING = ("attention", "window", "taylor", "hybrid")
"""Language models whose heads can be shown."""


def check_model(record: RunRecord, settings: ServerSettings) -> None:
    """Refuse a run whose model is a module that was not allowed."""
    named = record.facts.model
    if named is not None and named not in settings.allowed:
        raise Refusal(
            403,
            "not_allowed",
            f"this run's model is {named}, which may not be imported.",
            f"Start the server with: porism serve --allow {named}",
            field="run",
        )


def check_prediction(
    runs: RunTable,
    uploads: Uploads,
    settings: ServerSettings,
    *,
    run: str,
    text: str | None,
    upload: str | None,
    options: Mapping[str, float | int | str],
    seed: int,
    checkpoint: str | None = None,
) -> dict[str, Any]:
    """The job of a prediction, or a refusal that names the field.

    checkpoint: one by its name; left out, the best one, or the one before it where that is damaged.
    """
    path, record = runs.whole(run, "run")
    check_model(record, settings)
    if checkpoint is not None:
        check_checkpoint(record, run, checkpoint)
    form = try_form(record)
    if form is None:
        raise Refusal(422, "no_form", f"runs of {record.facts.task} cannot be tried here.", field="run")
    expected, file = FILES.get(form["kind"]), None
    if expected is None and (text is None or upload is not None):
        raise Refusal(422, "input", f"{form['label']}: give a text as input, and no upload.", field="input")
    if expected is not None:
        if upload is None or text is not None:
            raise Refusal(422, "input", f"{form['label']}: send a {expected} to /api/uploads first.", field="upload")
        found = uploads.find(upload)
        if found.kind != expected:
            raise Refusal(415, "media_type", f"{form['label']}: expected a {expected}, got a {found.kind}.")
        file = str(found.path)
    return {
        "path": str(path),
        "run": run,
        "task": record.facts.task,
        "form": form["kind"],
        "text": text,
        "file": file,
        "options": {name: _option(name, value, form["options"]) for name, value in options.items() if value != ""},
        "seed": seed,
        "checkpoint": checkpoint,
    }


def _option(name: str, value: float | int | str, known: list[dict[str, Any]]) -> float | int | str:
    """A value that the form allows."""
    option = next((option for option in known if option["name"] == name), None)
    if option is None:
        names = ", ".join(option["name"] for option in known) or "none"
        raise Refusal(422, "option", f"there is no option {name[:60]!r} here.", f"Options: {names}.", field="options")
    if option["type"] == "select":
        if value not in option["choices"]:
            choices = ", ".join(filter(None, option["choices"]))
            raise Refusal(422, "option", f"{name} is {str(value)[:60]!r}.", f"Choose from {choices}.", field="options")
        return value
    low, high = option["min"], option["max"]
    if isinstance(value, str) or not low <= value <= high or (option["step"] == 1 and value != int(value)):
        kind = "a whole number" if option["step"] == 1 else "a number"
        raise Refusal(422, "option", f"{name} takes {kind} from {low} to {high}.", field="options")
    return int(value) if option["step"] == 1 else float(value)
