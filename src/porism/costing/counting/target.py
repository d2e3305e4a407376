"""What is counted: a module, a function or a factory of modules that can be called at any sizes of its letters."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from math import prod
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.nn.parameter import is_lazy

from porism.costing.counting import inputs as specs
from porism.costing.counting.arguments import by_name, moved
from porism.costing.counting.comparison import difference
from porism.costing.counting.copies import emptied, fresh, with_own_weights
from porism.costing.counting.count import Count, count_call
from porism.costing.counting.factory import factory_letters, made_of_class, takes_nothing
from porism.costing.counting.fake import ShapeMode
from porism.costing.counting.gpu.follow import gpu_followed
from porism.costing.counting.listening import about_to_count
from porism.costing.counting.outputs import ChosenOutputs, Outputs
from porism.costing.counting.recorder import TooManyOperators, at_most
from porism.costing.counting.size_conditions import SizeCondition, observed_sizes
from porism.costing.counting.staging import not_traced, quietly
from porism.costing.counting.tallies import quantities_of
from porism.costing.counting.workspace import TooLargeToRun
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
Sizes = tuple[tuple[str, int], ...]
LARGEST_REAL = 2**31
"""Bytes of parameters up to which a module that needs numbers is given them."""
LARGEST_INPUTS = 2**28
"""Bytes of real inputs that are made to count at some sizes."""
LARGEST_COMPARED = 2**28
"""Bytes of parameters, and of what autograd keeps, up to which a run on fake tensors is held against a real one."""
SIZES_DRAWN = 4
"""How many sizes are counted with other numbers too while a formula is looked for."""
MOST_FLOPS_COMPARED = 2 * 10**10
PER_RUN = ("flops", "backward_flops", "elementwise", "elementwise_backward_flops", "activation_bytes")
"""What a loop does more of at every turn."""
DRAWS: tuple[specs.Draw, ...] = (0, 1, "zeros", "ones")
"""The numbers that real inputs hold in turn: where the cost is not the same for all, it depends on the data."""
SUMS_BY_INDEX = frozenset({"index_add", "scatter_add", "scatter_reduce"})
LONGEST_REASON = 160
"""Characters of an error's first line that are shown."""
MOST_OPERATORS_ANSWERED = 10_000
"""Operators after which a run is given up whose conditions on the data are answered: it may never end."""


class Target:
    """A target with its inputs.

    >>> target = Target(lambda D, H: nn.Linear(D, H), ("B D",))
    >>> target.letters
    ('B', 'D', 'H')
    >>> target.count({"B": 2, "D": 3, "H": 5}).flops
    60

    It runs on fake tensors of torch: they choose the kernels that the CPU would run and hold no numbers. A target that
    needs numbers to know what to do, or does something else on real tensors (`compare` finds out), is run on real ones,
    and `needs_numbers` says why. Every count has a copy of the module of its own.

    A mapping among the inputs whose keys are arguments of what is called gives them by name; `kwargs` are passed on as
    they are. `training` puts modules in training or evaluation mode, None leaves them as they are. `outputs` names what
    the backward pass starts from.
    """

    def __init__(
        self,
        target: Any,
        inputs: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        dtype: torch.dtype | None = None,
        device: str = "cpu",
        training: bool | None = None,
        outputs: str | int | Sequence[str | int] | None = None,
    ):
        self.target = made_of_class(getattr(target, "_orig_mod", target))
        self.inputs = specs.parse(tuple(inputs))
        specs.check(self.inputs)
        self.kwargs = dict(kwargs or {})
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise ShapeError(f"cost: dtype is {dtype!r}, expected one of torch's, such as torch.bfloat16, or None.")
        self.dtype = dtype
        self.kernels = known_device(device)
        """The device whose kernels are counted."""
        self.follows_gpu = self.kernels.type == "cuda" and not torch.cuda.is_available()
        self.device = torch.device("cpu") if self.follows_gpu else self.kernels
        self.training = training
        self.outputs = _chosen(outputs)
        """What the backward pass starts from; None for all outputs."""
        self.ends = 0
        self.summed: set[str] = set()
        """Operators that add rows up by an index which are no messages along edges."""
        self.factory = factory_letters(self.target)
        self._is_factory = bool(self.factory) or takes_nothing(self.target)
        self.letters = tuple(dict.fromkeys([*specs.letters_of(self.inputs), *self.factory]))
        self.kinds = {"": getattr(self.target, "__name__", type(self.target).__name__)}
        self.uncounted: dict[str, int] = {}
        self.ahead: set[str] = set()
        self.unsearched: set[str] = set()
        self.aside: set[str] = set()
        self.unmeasured: set[str] = set()
        """Operators that keep memory of a size that is not known here."""
        self.needs_numbers = ""
        self.reads_numbers = False
        self.has_complex = False
        self.uncompared = ""
        self.is_endless = False
        """Whether a run goes on as long as some condition on the data holds, or does not."""
        self.varying: set[str] = set()
        """Quantities that depend on the numbers that go in, not on sizes alone."""
        self.in_pages: set[str] = set()
        """Bytes that a kernel keeps in whole pages of memory: no polynomial of sizes."""
        self.refuses_some = False
        self._asked = False
        self._known: dict[Sizes, list[dict[str, int]]] = {}
        self._drawn: set[Sizes] = set()
        self._latest: tuple[Sizes, Count] | None = None
        self._hollow = self._emptied(self.target) if isinstance(self.target, nn.Module) else self.target
        if any(isinstance(module, torch.jit.ScriptModule) for module in _modules(self.target)):
            self._take_numbers("torch.jit holds its weights where none can be put in their place")
            if self.follows_gpu:
                raise DeviceError(
                    f"cost: {self.name} is a module of torch.jit and runs on a GPU only where there is one."
                )

    @cached_property
    def _mode(self) -> ShapeMode:
        # Torch loads its compiler to make one: seconds that formulas which were derived before do without.
        return ShapeMode(allow_non_fake_inputs=True)

    @property
    def name(self) -> str:
        return self.kinds[""]

    def count(self, sizes: Mapping[str, int]) -> Count:
        """What one call at given sizes does."""
        return self._counted(sizes)[0]

    def quantities(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Every kind of cost of every submodule, as "kind path", from one call at given sizes."""
        key = _key(sizes)
        if key not in self._known:
            # Where numbers are looked at, a few sizes show whether they make a difference.
            if len(self._known) < SIZES_DRAWN:
                self.draws(sizes)
            else:
                self._known[key] = [self._first(sizes)]
        return self._known[key][0]

    def _first(self, sizes: Mapping[str, int]) -> dict[str, int]:
        about_to_count()
        try:
            return self._quantities(*self._counted(sizes))
        except (TooManyOperators, TooLargeToRun):
            raise
        except PorismError:
            self.refuses_some = True
            raise

    def draws(self, sizes: Mapping[str, int]) -> list[dict[str, int]]:
        """The same for each of the numbers that real inputs hold in turn; a single one where no number is looked at."""
        key = _key(sizes)
        if key not in self._drawn:
            found = self._known[key] if key in self._known else [self._first(sizes)]
            if (self.needs_numbers and self.reads_numbers) or self._mode.reads_inputs:
                for draw in DRAWS[1:]:
                    with suppress(PorismError):  # a matrix of zeros has no inverse
                        found.append(self._quantities(*self._run(sizes, draw)))
                for holds in (True, False):
                    found += self._answered(sizes, holds)
            self._known[key] = found
            self._drawn.add(key)
            changing = (name for name, size in found[0].items() if any(x.get(name, size) != size for x in found))
            self.varying.update(changing)
            if self.is_endless:
                self.varying.update(name for name, size in found[0].items() if size and name.split()[0] in PER_RUN)
        return self._known[key]

    def _answered(self, sizes: Mapping[str, int], holds: bool) -> list[dict[str, int]]:
        """The same where all conditions on the data hold, or none; nothing where the code cannot go that way."""
        try:
            with at_most(MOST_OPERATORS_ANSWERED):
                return [self._quantities(*self._run(sizes, conditions=holds))]
        except TooManyOperators:
            self.is_endless = True
        except PorismError:
            pass  # a check of its inputs that does not hold, say
        return []

    def compare(self) -> None:
        """Hold the smallest run on fake tensors against a real one: where they differ, count on real tensors."""
        sizes = min((dict(key) for key in self._known), key=lambda sizes: prod(sizes.values()), default=None)
        if self.needs_numbers or sizes is None:
            return
        if self.follows_gpu:
            self.uncompared = "torch sees no GPU"
            return
        fake = self._latest[1] if self._latest and self._latest[0] == _key(sizes) else self.count(sizes)
        weights = fake.parameters.bytes + fake.parameters.frozen_bytes
        if max(weights, fake.saved_bytes) > LARGEST_COMPARED or fake.flops + fake.backward_flops > MOST_FLOPS_COMPARED:
            self.uncompared = "it is too large to be run"
            return
        if not self.has_weights:
            self.uncompared = "its weights are on meta"
            return
        self.needs_numbers = "another count"
        try:
            real, _ = self._run(sizes)
        except PorismError as error:
            self.needs_numbers = ""
            self.uncompared = f"a run on real tensors raised {first_line(error.__cause__ or error)}"
            return
        self.needs_numbers = difference(fake, real)
        if self.needs_numbers:
            self._known.clear()
            self._drawn.clear()
            self.unmeasured.clear()

    def _quantities(self, counted: Count, called: Any) -> dict[str, int]:
        modules: dict[str, Any] = dict(called.named_modules()) if isinstance(called, nn.Module) else {"": None}
        if modules[""] is not None:
            # A model of more layers has more paths: listed are those that it has at every size.
            known = self.kinds if self._known else modules
            self.kinds = {path: type(module).__name__ for path, module in modules.items() if path in known}
        for path, operators in counted.forward.items():
            if "mkldnn_rnn_layer" in operators:
                parts = path.split(".")
                self.in_pages.update(f"activation_bytes {'.'.join(parts[:depth])}" for depth in range(len(parts) + 1))
        return quantities_of(counted, modules)

    def refusal(self, sizes: Mapping[str, int]) -> PorismError | None:
        """Why the target does not run at these sizes; None where it does."""
        try:
            self.quantities(sizes)
        except PorismError as error:
            return error
        return None

    def call(self, sizes: Mapping[str, int], device: torch.device) -> Call:
        """The target at given sizes with its arguments, for real, on a device."""
        target = with_own_weights(self.target) if isinstance(self.target, nn.Module) else self.target
        with torch.device(device):
            called, args, kwargs = self._made(sizes, target)
        if isinstance(called, nn.Module):
            weightless = any(parameter.is_meta for parameter in called.parameters())
            called = called.to_empty(device=device) if weightless else called.to(device)
        return called, moved(args, device), moved(kwargs, device)

    def hollow_call(self, sizes: Mapping[str, int]) -> Call:
        """The target at given sizes with its arguments, all of them fake."""
        with self.following(), self._mode, self._placed():
            return self._made(sizes, self._fresh(self._hollow), fake=True)

    def size_conditions(self, sizes: Mapping[str, int], fixed: Mapping[str, int]) -> dict[str, SizeCondition]:
        """What a run at given sizes asks of them, as far as it goes on fake tensors.

        Where it needs numbers, both answers to its conditions on them are followed.
        """
        found: dict[str, SizeCondition] = {}
        with quietly(), self.following(), self._mode, self._placed(), not_traced():
            for holds in (True, False) if self.needs_numbers else (True,):
                with observed_sizes(sizes, holds) as (observed, noted), suppress(Exception):
                    called, args, kwargs = self._made({**fixed, **observed}, self._fresh(self._hollow), fake=True)
                    Outputs.of(called(*args, **kwargs))
                found |= noted  # also what was asked until a run raised
        return found

    def following(self) -> AbstractContextManager[Any]:
        """Inside, fake tensors stand for tensors on a GPU, where its kernels are counted and there is none."""
        return gpu_followed(self._mode) if self.follows_gpu else nullcontext()

    def _counted(self, sizes: Mapping[str, int]) -> tuple[Count, Any]:
        try:
            counted, called = self._run(sizes)
        except PorismError as error:
            if not isinstance(error.__cause__, NEEDS_NUMBERS):
                raise
            if not self._take_numbers(first_line(error.__cause__)):
                raise
            self.reads_numbers = True
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
        self.reads_numbers = self.reads_numbers or counted.reads_numbers
        self.has_complex = self.has_complex or counted.has_complex
        self.unsearched.update(counted.unsearched)
        self.aside.update(counted.aside)
        self.ends = max(self.ends, counted.ends)
        for operators in counted.elementwise_forward.values():
            self.summed |= SUMS_BY_INDEX & {name.removesuffix("_") for name in operators}
        if not self.needs_numbers:
            self.unmeasured.update(counted.unmeasured)
        self._latest = _key(sizes), counted
        return counted, called

    def _run(self, sizes: Mapping[str, int], draw: specs.Draw = 0, conditions: bool | None = None) -> tuple[Count, Any]:
        if self.needs_numbers:
            return self._run_for_real(sizes, draw, conditions)
        with quietly(), self.following(), self._mode, self._placed(), not_traced():
            called, args, kwargs = self._made(sizes, self._fresh(self._hollow), draw, fake=True)
            counted = count_call(called, args, kwargs, kernels=False, conditions=conditions, outputs=self.outputs)
            return counted, called

    def _run_for_real(self, sizes: Mapping[str, int], draw: specs.Draw, conditions: bool | None) -> tuple[Count, Any]:
        if (needed := specs.nbytes(self.inputs, sizes, self.dtype or torch.float32)) > LARGEST_INPUTS:
            raise ShapeError(f"cost: {self.name} needs real inputs, and here they would take {needed:,} bytes.")
        with quietly(), self._placed(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about random numbers do not concern the user
            torch.manual_seed(DRAWS.index(draw))
            called, args, kwargs = self._made(sizes, self._fresh(self.target), draw)
            counted = count_call(called, args, kwargs, kernels=False, conditions=conditions, outputs=self.outputs)
            return counted, called

    def _fresh(self, target: Any) -> Any:
        """What is called, with a state of its own."""
        if isinstance(target, nn.Module):
            return fresh(target)
        if isinstance(target, MethodType) and isinstance(target.__self__, nn.Module):
            return MethodType(target.__func__, fresh(target.__self__))
        return target

    def _placed(self) -> AbstractContextManager[Any]:
        """Where tensors are made that nobody gave a device."""
        return nullcontext() if self.device.type == "cpu" else self.device

    def _made(self, sizes: Mapping[str, int], target: Any, draw: specs.Draw = 0, *, fake: bool = False) -> Call:
        """The target at given sizes with its arguments, made where the caller stands."""
        try:
            called = self._produced(target, sizes) if self._is_factory else target
            if isinstance(called, nn.Module) and any(map(is_lazy, (*called.parameters(), *called.buffers()))):
                called = self._materialised(called, sizes)
            if isinstance(called, nn.Module) and self.dtype is not None:
                called = self._converted(called, self.dtype)
            if isinstance(called, nn.Module) and self.training is not None:
                called.train(self.training)
            inputs = specs.make(self.inputs, sizes, self.dtype or dtype_of(called), draw, fake=fake)
            args, named = by_name(called, inputs)
            if twice := [name for name in named if name in self.kwargs]:
                raise ShapeError(f"cost: {self.name} is given {twice[0]} among its inputs and in kwargs. Give it once.")
            kwargs = named | self.kwargs
            if self.device.type != "cpu":
                args, kwargs = moved(args, self.device), moved(kwargs, self.device)
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

    def _materialised(self, module: nn.Module, sizes: Mapping[str, int]) -> nn.Module:
        """A lazy module with the weights that these sizes give it: it is called once, on meta where all is fake."""
        device = self.device if self.needs_numbers else torch.device("meta")
        with unset_fake_temporarily(), torch.no_grad(), torch.device(device):
            module = with_own_weights(module).to(device)
            args, kwargs = by_name(module, specs.make(self.inputs, sizes, self.dtype or torch.float32))
            module(*args, **kwargs, **self.kwargs)
        return module if self.needs_numbers else self._emptied(module)

    def try_numbers(self, sizes: Mapping[str, int], refusal: PorismError) -> bool:
        """Does it run on real tensors where it did not on fake ones? If so, it does from here on."""
        return self._take_numbers(first_line(refusal.__cause__ or refusal)) and self.refusal(sizes) is None

    def _take_numbers(self, reason: str) -> bool:
        """From here on run on real tensors, if there are weights, and if they are few enough to run again and again."""
        if self.needs_numbers or self.follows_gpu or not self.has_weights:
            return False
        if isinstance(self.target, nn.Module):
            self.target = with_own_weights(self.target).to(self.device)
        self.needs_numbers = reason
        return True

    @property
    def has_weights(self) -> bool:
        """Whether there are weights, if there should be, and few enough to run with again and again."""
        # A module's parameters are those of all modules below it too, so each counts once.
        weights = {weight for module in _modules(self.target) for weight in module.parameters() if not is_lazy(weight)}
        return not any(weight.is_meta for weight in weights) and sum(weight.nbytes for weight in weights) < LARGEST_REAL

    def _converted(self, module: nn.Module, dtype: torch.dtype) -> nn.Module:
        """The module in another number format. Torch cannot put other weights in the place of fake ones."""
        if any(isinstance(weight, FakeTensor) for weight in module.parameters()):
            return self._emptied(module, dtype)
        return with_own_weights(module).to(dtype)

    def _emptied(self, module: nn.Module, dtype: torch.dtype | None = None) -> nn.Module:
        return emptied(module, self._mode, self.device, dtype)


def _key(sizes: Mapping[str, int]) -> Sizes:
    return tuple(sorted(sizes.items()))


def _chosen(outputs: str | int | Sequence[str | int] | None) -> ChosenOutputs | None:
    if outputs is None:
        return None
    return ChosenOutputs((outputs,) if isinstance(outputs, str | int) else tuple(outputs))


def _modules(target: Any) -> list[nn.Module]:
    """The module that a target is or that a method belongs to, with those below it."""
    owner = getattr(target, "__self__", target)
    return list(owner.modules()) if isinstance(owner, nn.Module) else []


def known_device(device: str | torch.device) -> torch.device:
    """A device that can be counted on."""
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise DeviceError(f"cost: {device!r} is no device: {first_line(error)}. Use cpu or cuda.") from None
    if found.type not in ("cpu", "cuda"):
        raise DeviceError(f"cost: the kernels of {device} are not known here. Use cpu or cuda.")
    return found


def dtype_of(called: Any) -> torch.dtype:
    """That of the module's first weights, so that its inputs fit them."""
    if isinstance(called, nn.Module):
        for parameter in called.parameters():
            if parameter.dtype.is_floating_point:
                return parameter.dtype
    return torch.get_default_dtype()


def first_line(error: BaseException) -> str:
    """An error in one line: its kind and the first line of what it says."""
    line = next(iter(str(error).strip().splitlines()), "").partition("Hint: ")[0].rstrip(".: ")
    line = line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
