"""What is counted: a module, a function or a factory of modules that can be called at any sizes of its letters."""

import copy
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)

from porism.costing.counting import inputs as specs
from porism.costing.counting.count import Count, Tally, count_call
from porism.costing.counting.fake import ShapeMode
from porism.errors import DeviceError, PorismError, ShapeError

NEEDS_NUMBERS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    NotImplementedError,
)
"""What torch raises where shapes alone do not decide what happens."""
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""What is called, with its arguments."""
LARGEST_REAL = 2**31
"""Bytes of parameters up to which a module that needs numbers is given them."""


class Target:
    """A target with its inputs.

    >>> target = Target(lambda D, H: nn.Linear(D, H), ("B D",))
    >>> target.letters
    ('B', 'D', 'H')
    >>> target.count({"B": 2, "D": 3, "H": 5}).flops
    60

    It runs on fake tensors of torch: they choose the kernels that the CPU would run and hold no numbers. A target that
    needs numbers to know what to do is run on real ones, and `needs_numbers` says why.

    A mapping among the inputs whose keys are arguments of what is called gives them by name; `kwargs` are passed on as
    they are. `training` puts modules in training or evaluation mode, None leaves them as they are.
    """

    def __init__(
        self,
        target: Any,
        inputs: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        dtype: torch.dtype | None = None,
        device: str = "cpu",
        training: bool | None = None,
    ):
        self.target = _made_of_class(getattr(target, "_orig_mod", target))
        self.inputs = specs.parse(tuple(inputs))
        specs.check(self.inputs)
        self.kwargs = dict(kwargs or {})
        self.dtype = dtype
        self.device = _checked(device)
        self.training = training
        self.factory = _factory_letters(self.target)
        self.letters = tuple(dict.fromkeys([*specs.letters_of(self.inputs), *self.factory]))
        self.kinds = {"": getattr(self.target, "__name__", type(self.target).__name__)}
        self.uncounted: dict[str, int] = {}
        self.ahead: set[str] = set()
        self.needs_numbers = ""
        self._asked = False
        self._known: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
        self._mode = ShapeMode(allow_non_fake_inputs=True)
        self._hollow = self._emptied(self.target) if isinstance(self.target, nn.Module) else self.target

    @property
    def name(self) -> str:
        return self.kinds[""]

    def count(self, sizes: Mapping[str, int]) -> Count:
        """What one call at given sizes does."""
        return self._counted(sizes)[0]

    def quantities(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Every kind of cost of every submodule, as "kind path", from one call at given sizes."""
        key = tuple(sorted(sizes.items()))
        if key not in self._known:
            self._known[key] = self._quantities(sizes)
        return self._known[key]

    def _quantities(self, sizes: Mapping[str, int]) -> dict[str, int]:
        counted, called = self._counted(sizes)
        modules: dict[str, Any] = dict(called.named_modules()) if isinstance(called, nn.Module) else {"": None}
        if modules[""] is not None:
            # A model of more layers has more paths: listed are those that it has at every size.
            known = self.kinds if self._known else modules
            self.kinds = {path: type(module).__name__ for path, module in modules.items() if path in known}
        tallies = {
            "flops": _by_module(counted.forward),
            "backward_flops": _by_module(counted.backward),
            "causal": _by_module(counted.causal_forward),
            "causal_backward_flops": _by_module(counted.causal_backward),
            "elementwise": _by_module(counted.elementwise_forward),
            "elementwise_backward_flops": _by_module(counted.elementwise_backward),
            "activation_bytes": _by_module({path: {"": size} for path, size in counted.saved.items()}),
        }
        quantities = {}
        for path, module in modules.items():
            for kind, size in _parameters(module).items():
                quantities[f"{kind} {path}"] = size
            for kind, by_module in tallies.items():
                quantities[f"{kind} {path}"] = by_module.get(path, 0)
        return quantities

    def refusal(self, sizes: Mapping[str, int]) -> PorismError | None:
        """Why the target does not run at these sizes; None where it does."""
        try:
            self.quantities(sizes)
        except PorismError as error:
            return error
        return None

    def call(self, sizes: Mapping[str, int], device: torch.device) -> Call:
        """The target at given sizes with its arguments, for real, on a device."""
        target = copy.deepcopy(self.target) if isinstance(self.target, nn.Module) else self.target
        with torch.device(device):
            called, args, kwargs = self._made(sizes, target)
        if isinstance(called, nn.Module):
            weightless = any(parameter.is_meta for parameter in called.parameters())
            called = called.to_empty(device=device) if weightless else called.to(device)
        return called, _moved(args, device), _moved(kwargs, device)

    def hollow_call(self, sizes: Mapping[str, int]) -> Call:
        """The target at given sizes with its arguments, all of them fake."""
        with self._mode, self._placed():
            return self._made(sizes, self._hollow)

    def _counted(self, sizes: Mapping[str, int]) -> tuple[Count, Any]:
        try:
            counted, called = self._run(sizes)
        except PorismError as error:
            if not isinstance(error.__cause__, NEEDS_NUMBERS) or not self._take_numbers(first_line(error.__cause__)):
                raise
            return self._counted(sizes)
        if counted.uncounted and not self._asked:
            # What cannot be counted by shapes alone, a sparse product, may be by numbers.
            self._asked = True
            if self._take_numbers(f"no way to count {', '.join(counted.uncounted)}"):
                with_numbers, _ = self._run(sizes)
                if len(with_numbers.uncounted) < len(counted.uncounted):
                    return self._counted(sizes)
                self.needs_numbers = ""
        self.uncounted.update(counted.uncounted)
        self.ahead |= counted.ahead
        return counted, called

    def _run(self, sizes: Mapping[str, int]) -> tuple[Count, Any]:
        stage: AbstractContextManager[Any] = nullcontext() if self.needs_numbers else self._mode
        with _quietly(), stage, self._placed():
            called, args, kwargs = self._made(sizes, self.target if self.needs_numbers else self._hollow)
            return count_call(called, args, kwargs, kernels=False), called

    def _placed(self) -> AbstractContextManager[Any]:
        """Where tensors are made that nobody gave a device."""
        return nullcontext() if self.device.type == "cpu" else self.device

    def _made(self, sizes: Mapping[str, int], target: Any) -> Call:
        """The target at given sizes with its arguments, made where the caller stands."""
        try:
            called = self._produced(target, sizes) if self.factory else target
            if isinstance(called, nn.Module) and self.dtype is not None:
                called = self._converted(called, self.dtype)
            if isinstance(called, nn.Module) and self.training is not None:
                called.train(self.training)
            args, named = _by_name(called, specs.make(self.inputs, sizes, self.dtype or dtype_of(called)))
            if twice := [name for name in named if name in self.kwargs]:
                raise ShapeError(f"cost: {self.name} is given {twice[0]} among its inputs and in kwargs. Give it once.")
            kwargs = named | self.kwargs
            if self.device.type != "cpu":
                args, kwargs = _moved(args, self.device), _moved(kwargs, self.device)
            return called, args, kwargs
        except PorismError:
            raise
        except Exception as error:  # a factory is code that nobody here wrote, so it may raise anything
            at = ", ".join(f"{letter}={size}" for letter, size in sizes.items())
            raise ShapeError(f"cost: {self.name} cannot be made at {at}: {first_line(error)}.") from error

    def _produced(self, factory: Any, sizes: Mapping[str, int]) -> Any:
        """What a factory makes at given sizes.

        One that reads the weights it draws, as `nn.init.trunc_normal_` does, cannot draw fake ones: it makes its
        module on `meta`, where torch draws none.
        """
        letters = {letter: sizes[letter] for letter in self.factory}
        try:
            return factory(**letters)
        except NEEDS_NUMBERS:
            if self.needs_numbers:
                raise
        with unset_fake_temporarily(), torch.device("meta"):
            weightless = factory(**letters)
        return self._emptied(weightless)

    def try_numbers(self, sizes: Mapping[str, int], refusal: PorismError) -> bool:
        """Does it run on real tensors where it did not on fake ones? If so, it does from here on."""
        return self._take_numbers(first_line(refusal.__cause__ or refusal)) and self.refusal(sizes) is None

    def _take_numbers(self, reason: str) -> bool:
        """From here on run on real tensors, if there are weights, and if they are few enough to run again and again."""
        if self.needs_numbers:
            return False
        if isinstance(self.target, nn.Module):
            weights = list(self.target.parameters())
            if any(weight.is_meta for weight in weights) or sum(weight.nbytes for weight in weights) > LARGEST_REAL:
                return False
            self.target = copy.deepcopy(self.target).to(self.device)
        self.needs_numbers = reason
        return True

    def _converted(self, module: nn.Module, dtype: torch.dtype) -> nn.Module:
        """The module in another number format. Torch cannot put other weights in the place of fake ones."""
        if any(isinstance(weight, FakeTensor) for weight in module.parameters()):
            return self._emptied(module, dtype)
        return module.to(dtype)

    def _emptied(self, module: nn.Module, dtype: torch.dtype | None = None) -> nn.Module:
        """The same module without its weights: copied, each tensor replaced by a fake one of its shape."""
        empty: dict[int, Any] = {}
        with self._mode:
            for tensor in _tensors(module):
                kind = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
                hollow = torch.empty_strided(tensor.shape, tensor.stride(), dtype=kind, device=self.device)
                if isinstance(tensor, nn.Parameter):
                    hollow = nn.Parameter(hollow, tensor.requires_grad)
                empty[id(tensor)] = hollow
        return copy.deepcopy(module, empty)


@contextmanager
def _quietly() -> Iterator[None]:
    """Torch writes a page for every size that does not fit; here such a size is an answer."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.layout == torch.strided:
            yield tensor


def _made_of_class(target: Any) -> Any:
    """A class of modules that needs no arguments stands for its module."""
    if not (isinstance(target, type) and issubclass(target, nn.Module)) or _factory_letters(target):
        return target
    try:
        return target()
    except TypeError as error:
        raise ShapeError(
            f"cost: {target.__name__} cannot be made without arguments: {error}. "
            "Give a module, or a function of letters that makes one."
        ) from error


def _by_name(called: Any, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs by order and by name: a mapping whose keys are arguments of what is called names them."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    for value in inputs:
        if isinstance(value, Mapping) and _takes(called, value):
            named.update(value)
        else:
            args.append(value)
    return tuple(args), named


def _takes(called: Any, names: Mapping[Any, Any]) -> bool:
    """Are these names of arguments? A function that takes only named arguments takes any."""
    try:
        arguments = inspect.signature(called.forward if isinstance(called, nn.Module) else called).parameters
    except (TypeError, ValueError):
        return False
    if set(names) <= set(arguments):
        return True
    kinds = [argument.kind for argument in arguments.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.POSITIONAL_OR_KEYWORD not in kinds


def _checked(device: str) -> torch.device:
    """A device that can be counted on."""
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise DeviceError(f"cost: {device!r} is no device: {first_line(error)}. Use cpu or cuda.") from None
    if found.type not in ("cpu", "cuda") or (found.type == "cuda" and not torch.cuda.is_available()):
        raise DeviceError(f"cost: device {device} is not there to count on. Use cpu, or cuda where torch sees a GPU.")
    return found


def _factory_letters(target: Any) -> tuple[str, ...]:
    """The letters a factory of modules takes; none for a module or a function of tensors."""
    if isinstance(target, nn.Module):
        return ()
    try:
        names = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return ()
    letters = [name for name in names if len(name) == 1 and name.isupper()]
    if letters and len(letters) < len(names):
        raise ShapeError(
            f"cost: {getattr(target, '__name__', target)} takes {', '.join(names)}: letters and other things. "
            "Wrap it in a function whose arguments are all letters."
        )
    return tuple(letters)


def _by_module(tally: Tally) -> dict[str, int]:
    """The sum of a tally over each module and all below it."""
    sums: dict[str, int] = {}
    for path, operators in tally.items():
        number = sum(operators.values())
        parts = path.split(".") if path else []
        for depth in range(len(parts) + 1):
            above = ".".join(parts[:depth])
            sums[above] = sums.get(above, 0) + number
    return sums


def _parameters(module: nn.Module | None) -> dict[str, int]:
    parameters = [] if module is None else list(module.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return {
        "parameters": sum(parameter.numel() for parameter in parameters),
        "parameter_bytes": sum(parameter.nbytes for parameter in parameters),
        "gradient_bytes": sum(parameter.nbytes for parameter in trained),
        "trained_tensors": len(trained),
    }


def dtype_of(called: Any) -> torch.dtype:
    """That of the module's first weights, so that its inputs fit them."""
    if isinstance(called, nn.Module):
        for parameter in called.parameters():
            if parameter.dtype.is_floating_point:
                return parameter.dtype
    return torch.get_default_dtype()


def _moved(nest: Any, device: torch.device) -> Any:
    """A nest of arguments with its tensors on a device, leaves still leaves."""
    if isinstance(nest, Tensor):
        return nest.detach().to(device).requires_grad_(nest.requires_grad)
    if isinstance(nest, dict):
        return {key: _moved(part, device) for key, part in nest.items()}
    if isinstance(nest, tuple | list):
        return type(nest)(_moved(part, device) for part in nest)
    return nest


def first_line(error: BaseException) -> str:
    """An error in one line: its kind and the first line of what it says."""
    line = next(iter(str(error).strip().splitlines()), "").rstrip(".:")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
