"""From a picture to its classes, or to its completion."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from porism.errors import DataError, RecipeError, nearest
from porism.tasks.blocks.classification import likeliest
from porism.tasks.images.data.image_files import write_picture
from porism.tasks.images.data.image_set import ImageSet, Shape
from porism.tasks.images.data.prediction_inputs import Given
from porism.tasks.images.metric import evaluate_pixels
from porism.tasks.images.model.base import logits_of
from porism.tasks.images.model.pixel_rnn import PixelRNN, complete, quantise
from porism.tasks.images.recipes import ImagesRecipe
from porism.training.limits import check_seed
from porism.training.task import Prediction

COMPLETING_OPTIONS = {"out": str, "rows": int, "seed": int}


@torch.no_grad()
def classify(model: nn.Module, given: Given, classes: Sequence[str], recipe: ImagesRecipe) -> Prediction:
    """The classes a picture is likeliest of; the details have the probabilities of all."""
    path, pixels, notes = given
    device = next(model.parameters()).device
    probs = model(pixels[None].to(device).float() / recipe.divisor)[0].double().softmax(0).cpu()
    by_class = dict(zip(classes, probs.tolist(), strict=True))
    # The first is its name in every task, the second its name in 0.1.
    details = {"class": classes[int(probs.argmax())], "probabilities": by_class, "chances": by_class}
    return Prediction(path, likeliest(probs, classes), notes, details)


@torch.no_grad()
def complete_picture(
    model: PixelRNN,
    given: Given,
    shape: Shape,
    recipe: ImagesRecipe,
    *,
    out: str | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> Prediction:
    """Bits per dimension of a picture, and with `out` the file in which it is completed from its first `rows` rows."""
    path, pixels, notes = given
    levels = quantise(pixels[None], recipe.levels).to(next(model.parameters()).device)
    log_probs = model(levels).double().log_softmax(2)  # 1 C levels Y X
    bits = float(-log_probs.gather(2, levels[:, :, None]).mean() / torch.log(torch.tensor(2.0)))
    rows = shape.rows // 2 if rows is None else rows
    if not 0 <= rows <= shape.rows:
        raise RecipeError(f"completing an image: rows is {rows}, expected 0 to {shape.rows}, the rows that are given.")
    if out is None:
        notes = (*notes, "write the picture with its lower half completed by --picture FILE.png (in Python out=)")
    else:
        made = complete(model, levels, rows, seed)[0].cpu()
        write_picture(Path(out).expanduser(), (made * 255 / (recipe.levels - 1)).round().to(torch.uint8))
        notes = (*notes, f"completed from its first {rows} rows: {out}")
    return Prediction(path, f"{bits:.3f} bits per dimension", notes, {"bits_per_dimension": bits})


def show_classes(model: nn.Module, images: ImageSet, recipe: ImagesRecipe, count: int = 5) -> list[Prediction]:
    """The likeliest classes of the first test images."""
    pixels, labels = (part[:count] for part in images.splits[images.shown])
    probs = logits_of(model, pixels, recipe).softmax(1)
    return [
        Prediction(f"{images.shown} image {index}: {images.classes[label]}", likeliest(probs[index], images.classes))
        for index, label in enumerate(labels.tolist())
    ]


def show_pixels(model: nn.Module, images: ImageSet, recipe: ImagesRecipe, count: int = 5) -> list[Prediction]:
    """Bits per dimension of the first test images."""
    test = images.splits[images.shown]
    return [
        Prediction(
            f"{images.shown} image {index}: {images.classes[int(test.labels[index])]}",
            f"{evaluate_pixels(model, test.images[index : index + 1], recipe):.3f} bits per dimension",
        )
        for index in range(min(count, len(test.labels)))
    ]


def check_options(options: Mapping[str, Any], completing: bool, inputs: int) -> None:
    """Refuse unknown options and those of the wrong type."""
    known = COMPLETING_OPTIONS if completing else {}
    for key, value in options.items():
        if key not in known:
            there = nearest(key, list(known)) if known else "It takes none."
            raise RecipeError(
                f"{'completing' if completing else 'classifying'} an image has no option {key!r}. {there}"
            )
        if not isinstance(value, known[key]):
            expected = "a file's name" if known[key] is str else "a whole number"
            raise RecipeError(f"completing an image: {key} takes {expected}, got {value!r}.")
    check_seed(options.get("seed", 0))
    if "out" in options and inputs > 1:
        raise DataError(f"completing an image: one file is written, and {inputs} pictures came. Give one at a time.")
