"""porism.cost: names of layers, recipes, files and folders become modules here; the rest is in `porism.costing`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
from torch import nn

from porism.costing.cost import Cost
from porism.costing.counting.conventions import DEFAULT_CONVENTIONS, Conventions
from porism.costing.derive import Input, derive
from porism.costing.given_numbers import whole_sizes
from porism.costing.subject import CostSubject
from porism.errors import Advice, MissingExtra, PorismError, RecipeError, nearest
from porism.runs.recipe import Recipe
from porism.training.own_code import why_not
from porism.training.own_model import imported
from porism.training.recipe_cost import recipe_cost

NAMED_SIZES = Advice('for instance --input "B T D".', 'for instance "B T D".')


def cost(
    target: nn.Module | Callable[..., Any] | str,
    *inputs: Input | Mapping[str, Input],
    kwargs: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: str = "cpu",
    training: bool | None = None,
    outputs: str | int | Sequence[str | int] | None = None,
    multiples: Mapping[str, int] | None = None,
    largest: Mapping[str, int] | None = None,
    macs: bool = False,
    causal: Literal["full", "half"] = "full",
    elementwise: bool = False,
) -> Cost:
    """What a module, a function or a factory of modules costs, as formulas in the letters of its inputs.

    >>> cost(nn.Linear(64, 10), "B T D").flops
    1280*B*T
    >>> cost(lambda D, H: nn.LSTM(D, H), "T B D").flops
    8*B*H*T*(D + H)
    >>> cost("elman").parameters
    H*(D + H + 1)

    target: a module, a function, a function of letters that makes a module, or a name: of a layer ("lstm"), of a recipe
        ("language/elman"), of something in a file or package ("f.py:Net", "package.module:factory"), of a folder with a
        model of transformers ("hf:FOLDER").
    inputs: a text names the sizes of a tensor, "B T D" or "B T : int < V"; a function of letters makes any other input;
        tensors are passed on as they are. A mapping gives inputs by name. A letter that the module itself has fixed
        becomes its number. Layers, recipes and folders bring their own inputs.
    kwargs: passed on as they are, strings too.
    dtype, training: put the module there first; None leaves its dtype and its mode.
    device: whose kernels are counted, "cpu" or "cuda"; those of a GPU are followed where there is none, too.
    outputs: what the backward pass starts from, by key, attribute or place in the result, or as an attribute of the
        module: "loss", 0, ["logits", "router.loss"]. None takes all tensors of the result that need a gradient.
    multiples: for letters that something must divide: {"D": 8} asks of D only multiples of 8, and the formula holds for
        those.
    largest: for letters that are counted up to a size only, since more would take long or is not allowed: {"L": 6}.
    macs: count multiply-adds, not two operations for each.
    causal: "half" counts half of what a kernel masks causally.
    elementwise: count one operation for each element of elementwise work, too.

    Nothing is allocated: all runs on torch's fake tensors, except where the code reads numbers.
    """
    return cost_of(
        resolve(target, inputs) if isinstance(target, str) else NamedTarget(target, inputs),
        kwargs=kwargs,
        dtype=dtype,
        device=device,
        training=training,
        outputs=outputs,
        multiples=multiples,
        largest=largest,
        conventions=Conventions(1 if macs else 2, causal, elementwise),
    )


@dataclass(frozen=True)
class NamedTarget(CostSubject):
    """What a name stands for: what is counted, and of a recipe the recipe."""

    name: str = ""
    recipe: Recipe | None = None
    drawing: Callable[[Mapping[str, int]], str] | None = None
    """Pictures at sizes, where there is something to draw."""
    curves: Callable[[Mapping[str, int]], tuple[str, Mapping[str, Any]]] | None = None
    """A title and formulas in T by name, where several go into one picture."""
    about: str = ""
    """What sets a variant apart."""
    variants: tuple["NamedTarget", ...] = ()
    """Other forms of it, to be shown beside it."""


def cost_of(
    named: NamedTarget,
    *,
    multiples: Mapping[str, int] | None = None,
    largest: Mapping[str, int] | None = None,
    conventions: Conventions = DEFAULT_CONVENTIONS,
    kwargs: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: str = "cpu",
    training: bool | None = None,
    outputs: str | int | Sequence[str | int] | None = None,
) -> Cost:
    """The cost of what a name stands for, under that name and with the sizes that go without saying."""
    multiples = {**named.multiples, **whole_sizes("multiples", multiples)}
    largest = {**named.largest, **whole_sizes("largest", largest)}
    as_it_runs = not kwargs and dtype is None and device == "cpu" and training is None and outputs is None
    if named.recipe is not None and as_it_runs:
        subject = replace(named, multiples=multiples, largest=largest)
        found = replace(recipe_cost(named.recipe, subject), conventions=conventions)
    else:
        found = derive(
            named.target,
            *named.inputs,
            kwargs=kwargs,
            dtype=dtype,
            device=device,
            training=training,
            outputs=outputs,
            multiples=multiples,
            largest=largest,
            fixed=named.fixed,
            conventions=conventions,
        )
    sizes = {letter: size for letter, size in named.sizes.items() if letter in found.letters}
    return replace(found, name=named.name or found.name, sizes=sizes)


def resolve(name: str, inputs: Sequence[Any] = (), arguments: str = "") -> NamedTarget:
    """What a name stands for. `arguments` are whole numbers, with commas between, that a factory is called with.

    >>> resolve("elman").inputs
    ('T B D',)
    >>> "H" in resolve("language/elman").sizes
    True
    >>> resolve("torch.nn:Linear", ["B T D"], "64, 10").target
    Linear(in_features=64, out_features=10, bias=True)
    """
    from porism.layers.cases import LAYERS
    from porism.tasks import TASKS
    from porism.tasks import find as find_task

    if name.startswith("hf:") and not arguments:
        return _from_folder(name, inputs)
    if ":" in name:
        found = _brought(name)
        if not inputs:
            raise RecipeError(f"cost: what goes into {name}? Name its sizes,", NAMED_SIZES)
        made = _made(name.rpartition(":")[2], found, arguments) if arguments else found
        return NamedTarget(made, tuple(inputs), name=name)
    if inputs or arguments:
        given = Advice("cost: --input and --with", "cost: inputs")
        own = f"are for package.module:factory, and {name} has its own."
        raise RecipeError("", Advice(*(f"{words} {own}" for words in given)))
    if name in LAYERS:
        place = _cost_of(name)
        target, own_inputs = place.subject()
        return NamedTarget(
            target,
            own_inputs,
            multiples=getattr(place, "MULTIPLES", {}),
            largest=getattr(place, "LARGEST", {}),
            name=name,
            drawing=getattr(place, "drawing", None),
            curves=getattr(place, "curves", None),
            variants=_variants(place),
        )
    if (variant := _known_variants().get(name)) is not None:
        return variant
    tasks = {task: find_task(task) for task in TASKS}
    recipes = {f"{task}/{recipe}": (found, recipe) for task, found in tasks.items() for recipe in found.recipes}
    if name in recipes:
        task, recipe_name = recipes[name]
        recipe = task.recipes[recipe_name]
        subject = CostSubject.of(task.subject(recipe))
        known = {entry.name: getattr(subject, entry.name) for entry in fields(CostSubject)}
        return NamedTarget(**known, name=name, recipe=recipe)
    raise RecipeError(
        f"cost: there is no layer and no recipe {name!r}. {nearest(name, [*LAYERS, *recipes])} "
        "For a module of yours write package.module:factory."
    )


def _variants(place: ModuleType) -> tuple[NamedTarget, ...]:
    """Other forms of a layer, by names of their own."""
    found: dict[str, tuple[str, Any, tuple[Any, ...]]] = getattr(place, "variants", dict)()
    return tuple(NamedTarget(target, inputs, name=name, about=about) for name, (about, target, inputs) in found.items())


def _known_variants() -> dict[str, NamedTarget]:
    from porism.layers.cases import LAYERS

    return {variant.name: variant for layer in LAYERS for variant in _variants(_cost_of(layer))}


def drawable() -> list[str]:
    """The layers that can be drawn."""
    from porism.layers.cases import LAYERS

    return [layer for layer in LAYERS if hasattr(_cost_of(layer), "drawing")]


def _cost_of(layer: str) -> ModuleType:
    from porism.layers.cases import LAYERS

    return import_module(f"{LAYERS[layer]}.cost")


def _brought(text: str) -> Any:
    """The module or factory a user names."""
    try:
        return imported(text)
    except PorismError as error:
        raise PorismError(f"cost: {error}") from error


def _made(name: str, found: Any, arguments: str) -> Any:
    """What a factory makes of numbers."""
    try:
        return found(*(int(word) for word in arguments.split(",")))
    except (TypeError, ValueError) as error:
        raise PorismError(f"cost: {name}({arguments}) cannot be made: {error}.") from error
    except SystemExit as error:
        raise PorismError(f"cost: {name}({arguments}) cannot be made: {why_not(error)}") from error


def _from_folder(name: str, inputs: Sequence[Any]) -> NamedTarget:
    """The model that a folder's config.json describes, on `meta`: its weights are not read."""
    folder = name.removeprefix("hf:")
    if not (Path(folder) / "config.json").is_file():
        raise RecipeError(f"cost: {folder} has no config.json. Name the folder of a model of transformers.")
    try:
        import transformers
    except ImportError:
        raise MissingExtra(
            'models of a folder need transformers, which is not installed: pip install "porism[text]"'
        ) from None
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, next(iter(config.architectures or ()), ""), None)
        with torch.device("meta"):
            model = transformers.AutoModel.from_config(config) if kind is None else kind(config)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise RecipeError(f"cost: the model of {folder} cannot be made: {reason}") from error
    vocabulary = getattr(config.get_text_config(), "vocab_size", None)
    if not inputs and vocabulary is None:
        raise RecipeError(f"cost: what goes into {name}? Name its sizes,", NAMED_SIZES)
    return NamedTarget(model, tuple(inputs) or ({"input_ids": f"B T : int < {vocabulary}"},), name=name)


def read_inputs(texts: Sequence[str]) -> list[Any]:
    """The inputs of a module as texts give their sizes: `B T D` by order, `name=B T D` by name.

    >>> read_inputs(["T B D", "lengths=B"])
    ['T B D', {'lengths': 'B'}]
    """
    named: dict[str, str] = {}
    in_order: list[Any] = []
    for text in texts:
        name, equals, shape = text.partition("=")
        if equals and name.strip().isidentifier():
            named[name.strip()] = shape.strip()
        else:
            in_order.append(text)
    return [*in_order, named] if named else in_order
