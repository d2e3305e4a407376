"""Recipe fields of 0.1 under the names of 0.2: how recipe.toml, events and results of older runs are read.

>>> convert("language", {"hidden": 200, "keep": 0.9, "patience": 2})
{'hidden_size': 200, 'dropout': 0.1, 'patience': 3}
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from porism.errors import Advice, RecipeError, advise
from porism.errors import fields as new_fields

Fields = Mapping[str, Any]
EVERY = "check_val_every_n_epoch"


def _same(value: Any, fields: Fields) -> Any:
    return value


def _rest(value: float, fields: Fields) -> float:
    """The probability to drop, of that to keep. Rounded, so that 0.9 becomes 0.1 and 1 - 0.1 is 0.9 again."""
    return round(1 - value, 12)


def _not(value: bool | str, fields: Fields) -> bool:
    return value not in (True, "true")


def _named(**names: str) -> Callable[[str, Fields], str]:
    return lambda value, fields: names.get(value, value)


def _unless_twice(value: int, fields: Fields) -> int | None:
    """A width, or None where it is twice the hidden one."""
    return None if value == 2 * fields["hidden"] else value


class Renamed(NamedTuple):
    """What a field of 0.1 is now. `also`: further fields that it decided."""

    name: str
    value: Callable[[Any, Fields], Any] = _same
    also: tuple[str, ...] = ()


_EVERY_TASK = {
    "about": Renamed("description"),
    # 0.1 stopped one epoch later than its number.
    "patience": Renamed("patience", lambda value, fields: value + 1),
    "select": Renamed("restore_best_weights", lambda value, fields: value == "best"),
    "batch": Renamed("batch_size"),
    "clip": Renamed("max_grad_norm"),
    "schedule": Renamed("lr_scheduler"),
    "warmup": Renamed("warmup_steps"),
}

_PASSES = {
    "epochs": Renamed("epochs", lambda value, fields: value * fields.get("passes", 1)),
    "passes": Renamed(EVERY, also=("epochs",)),
}

RENAMED: dict[str, dict[str, Renamed]] = {
    "language": {
        **_EVERY_TASK,
        "activation": Renamed("nonlinearity"),
        "embedding": Renamed("embedding_dim"),
        "hidden": Renamed("hidden_size"),
        "layers": Renamed("num_layers"),
        "steps": Renamed("seq_len"),
        "keep": Renamed("dropout", _rest),
        "locked": Renamed("variational_dropout"),
        "keep_words": Renamed("embedding_dropout", _rest),
        "heads": Renamed("num_heads"),
        "feed_forward": Renamed(
            "dim_feedforward", lambda value, fields: _unless_twice(value * fields["hidden"], fields)
        ),
        "window": Renamed("window_size"),
        "keep_recurrent": Renamed("weight_dropout", _rest),
        "start": Renamed("weight_init", _named(glorot="xavier_uniform")),
        "tied": Renamed("tie_weights"),
    },
    "images": {
        **_EVERY_TASK,
        "hidden": Renamed("hidden_size"),
        "layers": Renamed("num_layers"),
        "corners": Renamed("directions"),
        "activation": Renamed("nonlinearity"),
        "patch": Renamed("patch_size"),
        "keep": Renamed("dropout", _rest),
        "smoothing": Renamed("label_smoothing"),
        "shift": Renamed("translate"),
        "turn": Renamed("degrees"),
        "zoom": Renamed("scale"),
        "flip": Renamed("horizontal_flip"),
        "test": Renamed("test_subset"),
        "size": Renamed("image_size"),
    },
    "speech": {
        **_EVERY_TASK,
        **_PASSES,
        "longest": Renamed("max_target_length"),
        "hidden": Renamed("hidden_size", also=("dim_feedforward", "decoder_dim_feedforward")),
        "heads": Renamed("num_heads"),
        "blocks": Renamed("num_layers"),
        "mlp": Renamed("dim_feedforward", _unless_twice, also=("decoder_dim_feedforward",)),
        "decoder_mlp": Renamed("decoder_dim_feedforward", _unless_twice),
        "keep": Renamed("dropout", _rest),
        "smoothing": Renamed("label_smoothing"),
        "padded_loss": Renamed("ignore_padding", _not),
        "ctc": Renamed("ctc_weight"),
        "forget": Renamed("word_dropout"),
        "guide": Renamed("guided_attention_weight"),
        "frequency_masks": Renamed("num_freq_mask"),
        "frequency_mask": Renamed("freq_mask_width"),
        "time_masks": Renamed("num_time_mask"),
        "time_mask": Renamed("time_mask_width_ratio"),
        "speed": Renamed("speed_perturb"),
        "buckets": Renamed("num_buckets"),
        "beam": Renamed("beam_size"),
        "ctc_search": Renamed("decode_ctc_weight"),
        "bonus": Renamed("length_bonus"),
    },
    "graphs": {
        **_EVERY_TASK,
        **_PASSES,
        "normalisation": Renamed("normalization", _named(symmetric="sym", row="rw")),
        "hidden": Renamed("hidden_size"),
        "layers": Renamed("num_layers"),
        "keep": Renamed("dropout", _rest),
        "keep_input": Renamed("input_dropout", _rest),
        "hops": Renamed("power_iterations"),
        "restart": Renamed("teleport_probability"),
        "copies": Renamed("num_augmentations"),
        "agreement": Renamed("consistency_weight"),
        "temperature": Renamed("sharpening_temperature"),
        "row_normalised": Renamed("normalize_features"),
        "first_decay": Renamed("first_layer_weight_decay"),
        "fan": Renamed("num_neighbors", lambda value, fields: value or None),
        "split": Renamed("split", _named(given="public")),
    },
    "words": {
        **_EVERY_TASK,
        "width": Renamed("vector_size"),
        "negatives": Renamed("negative"),
        "least_count": Renamed("min_count"),
        "lower": Renamed("lowercase"),
        "held_out": Renamed("validation_split"),
        "memory": Renamed("max_memory_mib"),
        "judgements": Renamed("evaluation_data"),
    },
}


def renamed(task: str) -> dict[str, Renamed]:
    """What the fields of a task's recipe in 0.1 are now."""
    return RENAMED.get(task, _EVERY_TASK)


def convert(task: str, old: Fields) -> dict[str, Any]:
    """All fields of a recipe of 0.1 in the words of 0.2. What is none is left out."""
    if task == "speech" and "mlp" in old:
        # The decoder was as wide inside as the encoder unless set otherwise.
        old = {**old, "decoder_mlp": old.get("decoder_mlp", old["mlp"])}
    names, new = renamed(task), {}
    for key, value in old.items():
        change = names.get(key, Renamed(key))
        if (converted := change.value(value, old)) is not None:
            new[change.name] = converted
    if task == "speech" and old.get("padded_loss"):
        # The published protocol, which cut the references, too.
        new["scoring"] = "published"
    return new


KNOWN_DATA = {
    "language": ("manual", "synthetic", "ptb", "wikitext-2"),
    "graphs": ("karate", "partition", "cora", "citeseer"),
    "words": ("manual", "ptb", "wikitext-2"),
}
"""The data that 0.1 knew by name, where own data is read in another way today."""


def reading_of_0_1(task: str, source: str | None) -> dict[str, Any]:
    """The fields by which a run on own data reads it as 0.1 did.

    >>> reading_of_0_1("language", "book.txt")
    {'tokenizer': 'whitespace'}
    """
    own = task in KNOWN_DATA and source is not None and source not in KNOWN_DATA[task]
    at_white_space = {"tokenizer": "whitespace"}
    read = {"language": at_white_space, "words": at_white_space, "graphs": {"features": "given"}}
    return read[task] if own else {}


def convert_overrides(task: str, overrides: Iterable[str], fields: Fields) -> list[str]:
    """What was set by `--set` in 0.1, as it is set now. fields: the run's, converted.

    >>> convert_overrides("graphs", ["passes=5"], {"epochs": 100, "check_val_every_n_epoch": 5})
    ['check_val_every_n_epoch=5', 'epochs=100']
    """
    names = renamed(task)
    changes = (names.get(key, Renamed(key)) for key in (text.partition("=")[0] for text in overrides))
    return [assignment(name, fields.get(name)) for name in dict.fromkeys(n for c in changes for n in (c.name, *c.also))]


def convert_lengths(old: Fields, epochs: int, patience: int) -> dict[str, int]:
    """The lengths of a run of 0.1 in its own words, so that its file still has the rest as it was written."""
    passes = old.get("passes", 1)
    if epochs % passes:
        raise RecipeError(
            f"epochs={epochs} cannot be: the run is validated after {passes} epochs each.",
            advise("Use {}.", new_fields(epochs=-(-epochs // passes) * passes)),
        )
    return {"epochs": epochs // passes, "patience": patience - 1}


def convert_epochs(counted: Fields, every: int) -> dict[str, Any]:
    """Events and results of 0.1 number validations as epochs; later ones say how many epochs lie between two."""
    if every == 1 or EVERY in counted:
        return dict(counted)
    numbers = {key: counted[key] for key in ("epoch", "epochs", "best_epoch") if isinstance(counted.get(key), int)}
    return {**counted, **{key: number * every for key, number in numbers.items()}}


def refuse_old(task: str, key: str, value: Any, fields: Fields) -> None:
    """Refuse a field of 0.1 by what it is now. fields: the recipe's."""
    if (change := renamed(task).get(key)) is None:
        return
    known = {old: fields[new.name] for old, new in renamed(task).items() if new.name in fields}
    try:
        now = change.value(value, known)
    except TypeError:
        raise RecipeError(f"{key} is now {change.name}") from None
    raise RecipeError(
        f"{key} is now {change.name}:", Advice(as_option(change.name, now), new_fields(**{change.name: now}).python)
    )


def assignment(name: str, value: Any) -> str:
    """The text that sets a field."""
    return f"{name}={'none' if value is None else value if isinstance(value, str) else json.dumps(value)}"


def as_option(name: str, value: Any) -> str:
    """The option that sets a field.

    >>> as_option("batch_size", 3), as_option("tie_weights", False)
    ('--batch-size 3', '--no-tie-weights')
    """
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    return f"--{option} {assignment(name, value).partition('=')[2]}"
