"""A module of the user's own in a task: made from what the data says, copied for each run, found again by its name."""

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from torch import nn

from porism.errors import PorismError, RecipeError
from porism.runs.run import IN_MEMORY
from porism.training.own_code import PREFIX, module_at, why_not


@dataclass(frozen=True)
class DataInfo:
    """What a model must know of its data. None where the task has no such size.

    >>> DataInfo(num_features=20, num_classes=3)
    DataInfo(vocab_size=None, num_classes=3, num_features=20, in_channels=None)
    """

    vocab_size: int | None = None
    num_classes: int | None = None
    num_features: int | None = None
    in_channels: int | None = None


Factory = Callable[[DataInfo], nn.Module] | Callable[[], nn.Module]

POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class OwnModel:
    """A module, or a class or function that makes one, of no argument or of a DataInfo.

    A module's parameters are drawn already: every run trains a copy of it. A function is called after the run's seed
    is set, so that parameters come from the seed.
    """

    made_by: nn.Module | Factory
    reference: str = IN_MEMORY
    """`package.module:name` or `file.py:name`, by which a later process finds it; IN_MEMORY where it has none."""

    @classmethod
    def of(cls, model: "nn.Module | Factory | str | OwnModel") -> "OwnModel":
        if isinstance(model, OwnModel):
            return model
        if isinstance(model, nn.Module):
            return cls(model)
        made_by = imported(model) if isinstance(model, str) else model
        if not callable(made_by):
            raise RecipeError(
                f"model is {type(made_by).__name__}, expected a torch.nn.Module or a function that makes one, such as "
                "lambda info: Net(info.num_classes)."
            )
        return cls(made_by, absolute(model) if isinstance(model, str) else _reference(model))

    @property
    def name(self) -> str:
        """What a report calls it: the class, or the function."""
        if isinstance(self.made_by, nn.Module):
            return type(self.made_by).__name__
        name = getattr(self.made_by, "__name__", type(self.made_by).__name__)
        return "own" if name == "<lambda>" else name

    @property
    def is_drawn(self) -> bool:
        """Whether its parameters are there already, the same for every seed."""
        return isinstance(self.made_by, nn.Module)

    def build(self, info: DataInfo) -> nn.Module:
        """A module to train."""
        if isinstance(self.made_by, nn.Module):
            try:
                return deepcopy(self.made_by)
            except Exception as error:
                raise RecipeError(
                    f"model {self.name} cannot be copied ({error}), and each run trains a copy. Give a function that "
                    "makes it, such as lambda info: Net()."
                ) from error
        make: Callable[..., Any] = self.made_by
        takes_info = self._takes_info()
        try:
            made = make(info) if takes_info else make()
        except SystemExit as error:
            raise RecipeError(f"model {self.name} cannot be made: {why_not(error)}") from error
        except Exception as error:
            if takes_info:
                unknown = "What is None is not known of this data; classes are known with loss='cross_entropy'."
                error.add_note(f"model {self.name} was made with {info}. {unknown}")
            raise
        if not isinstance(made, nn.Module):
            raise RecipeError(f"model {self.name} made a {type(made).__name__}, expected a torch.nn.Module.")
        return made

    def _takes_info(self) -> bool:
        """Whether it is called with what is known of the data: a class such as Net() and a plain function are not."""
        try:
            found = signature(self.made_by).parameters.values()
        except ValueError:  # some that are written in C have none
            return True
        required = [one.name for one in found if one.default is one.empty and one.kind in POSITIONAL]
        if len(required) > 1:
            raise RecipeError(
                f"model {self.name} takes {', '.join(required)}, expected no argument, or one: what is known of the "
                f"data. Give a function that makes it, such as lambda info: {self.name}(...)."
            )
        return bool(required) or any(one.name == "info" for one in found)


_FORMS = "Write file.py:Name, or package.module:Name of something that is installed."


def imported(reference: str) -> Any:
    """What `package.module:name` or `file.py:name` stands for."""
    place, _, name = reference.rpartition(":")
    if not (place and name):
        raise PorismError(f"{reference} names nothing of a file or a module. {_FORMS}")
    try:
        found: Any = module_at(place)
        for part in name.split("."):
            found = getattr(found, part)
    except FileNotFoundError as error:
        raise PorismError(f"{reference} cannot be found: {error.filename} is not there. {_FORMS}") from error
    except (ImportError, AttributeError, OSError, SyntaxError) as error:
        raise PorismError(f"{reference} cannot be found: {error}.") from error
    except (Exception, SystemExit) as error:
        raise PorismError(f"{reference}: {place} cannot be run: {why_not(error)}") from error
    return found


def absolute(reference: str) -> str:
    """The same with the whole path of a file, so that it is found from another folder."""
    place, _, name = reference.rpartition(":")
    return f"{Path(place).resolve()}:{name}" if place.endswith(".py") else reference


def _reference(factory: Factory) -> str:
    """The name of a function that another process can import; what a script or a notebook defines has none."""
    module, name = getattr(factory, "__module__", "__main__"), getattr(factory, "__qualname__", "<none>")
    if module == "__main__" or module.startswith(PREFIX) or "<" in name:
        return IN_MEMORY
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is factory else IN_MEMORY
