"""Fake tensors at a fraction of their price: torch's own mode, with short cuts for what most calls are.

torch's FakeTensorMode serves the compiler. It hashes every call for its cache and finds shapes by decompositions in
Python: one or two milliseconds an operator, and a formula asks for thousands. Counting needs shapes, strides, dtypes,
devices and shared storages only. Products and arithmetic on contiguous tensors need no more than a rule, views and new
tensors go to torch's Meta kernels, and what came of any other call is remembered.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention, flex_attention_backward
from torch._ops import OpOverload
from torch._subclasses.fake_impls import has_meta, op_implementations_checks
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

from porism.costing.counting import known
from porism.costing.counting.workspace import workspace_bytes

aten = torch.ops.aten

_VIEWS = frozenset({aten.view.default, aten._unsafe_view.default, aten.select.int, aten.slice.Tensor})
"""Views that torch's mode treats apart for the sake of sizes that nobody knows. Here all sizes are known."""

_BY_DEVICE = frozenset({aten.native_layer_norm.default, aten.native_batch_norm.default, aten._embedding_bag.default})
"""What these give beside their output differs in shape or dtype between a CPU and a GPU."""
_MKLDNN_RNN = aten.mkldnn_rnn_layer.default
_BATCH_NORMS = frozenset({aten.native_batch_norm.default, aten._native_batch_norm_legit_no_training.default})
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
_META = torch.device("meta")
_DEVICE = torch.ops.prim.device.default

_PRODUCTS = frozenset(
    {aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default, aten.addmm_.default}
    | {aten.baddbmm_.default, aten.mm.out, aten.bmm.out, aten.addmm.out, aten.baddbmm.out}
)

_SHAPED_LIKE_INPUT = frozenset({aten._softmax_backward_data.default, aten._log_softmax_backward_data.default})
"""Not pointwise, and yet they give a tensor of the shape that goes in."""
_NAMESPACES = ("aten", "porism")
"""Of operators whose answers are new tensors or, where torch says so, views."""

Signature = tuple[Any, ...]
"""All that decides what comes of a call."""


class _New(NamedTuple):
    """A new tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class _Given(NamedTuple):
    """That tensor of the call, as operators return that write into one."""

    place: int


Answer = _New | _Given | tuple[_New | _Given, ...]
"""What comes of a call."""


class ShapeMode(FakeTensorMode):
    """FakeTensorMode, quicker.

    >>> with ShapeMode():
    ...     product = torch.empty(4, 50) @ torch.empty(50, 100)
    >>> product.shape, product.device
    (torch.Size([4, 100]), device(type='cpu'))

    Whatever is not plain is left to torch: sparse tensors, tensors whose numbers are known, operators that depend on
    numbers or change the shape of a tensor they are given, operators of other packages; and every call that
    raises, so that the error is what it would be.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.stands_for_gpu = False
        """Whether its tensors, which C++ takes for ones on a CPU, stand for tensors on a GPU that is not there."""
        self.reads_inputs = False
        """Whether code asked for numbers that follow from those that went in."""
        self.is_dispatching = False
        self._answers: dict[Signature, Answer] = {}
        self._dtypes: dict[Signature, torch.dtype] = {}
        self._attributes: dict[torch.device, dict[str, Any]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "ShapeMode":
        # Every fake tensor knows its mode: a copied layer would bring a copy of all that is remembered here.
        return self

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here, and the guard against it would load the compiler.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE and type(args[0]) is FakeTensor:
            # As torch answers it, after a look into its cache: read more often than all else.
            return _META if args[0].fake_mode.in_kernel_invocation else args[0].fake_device
        kwargs = kwargs or {}
        if not self.stands_for_gpu:
            return self._dispatched(func, types, args, kwargs)
        if kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda":
            kwargs = {**kwargs, "device": CPU}
        outer, self.is_dispatching = self.is_dispatching, True
        try:
            return self._dispatched(func, types, args, kwargs)
        finally:
            self.is_dispatching = outer

    def _dispatched(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = _rule(func)
        if rule.reads_numbers and (answer := known.answer(func, args)) is not None:
            self.reads_inputs = self.reads_inputs or any(isinstance(x, Tensor) and known.is_drawn(x) for x in args)
            return answer
        out = self._answered(func, rule, types, args, kwargs)
        if func is _MKLDNN_RNN:
            out = (
                *out[:3],
                self._wrapped(torch.empty(workspace_bytes(args), dtype=torch.uint8, device="meta"), out[3].fake_device),
            )
        if self.stands_for_gpu and func in _BATCH_NORMS and _is_cudnn_in_evaluation(func, *args):
            # cuDNN hands out no statistics where it computes none.
            nothing = (torch.empty(0, dtype=part.dtype, device="meta") for part in out[1:3])
            out = (out[0], *(self._wrapped(part, out[0].fake_device) for part in nothing))
        if rule.is_remembered:
            known.remember(out, func, args, kwargs)
        return out

    def _answered(self, func: Any, rule: "_Rule", types: Any, args: Any, kwargs: Any) -> Any:
        if rule.is_view and not kwargs and self._has_plain_sizes(args):
            return self._by_meta_kernel(func, types, args, kwargs, args[0].fake_device)
        tensors: list[FakeTensor] = []
        signature = self._signature((*args, *kwargs.values()), tensors) if rule.is_plain else None
        if signature is None:
            return self.dispatch(func, types, args, kwargs)
        if rule.is_view:
            return self._by_meta_kernel(func, types, args, kwargs, tensors[0].fake_device)
        if rule.is_product and (made := _product(func, tensors)) is not None:
            return self._made(made, tensors)
        key = (func, torch.get_default_dtype(), *kwargs, *signature)
        answer = self._answers.get(key)
        if answer is None and rule.is_pointwise:
            answer = self._pointwise(func, args, kwargs, tensors)
        if answer is not None:
            return self._made(answer, tensors)
        if self.stands_for_gpu and func in _BY_DEVICE:
            return self._made(self._answers.setdefault(key, self._on_gpu(func, types, args, kwargs, tensors)), tensors)
        out = self._called(func, types, args, kwargs, tensors)
        answer = _described(out, tensors)
        if answer is not None:
            self._answers[key] = answer
            if rule.is_pointwise and tensors:
                self._dtypes[_kinds(func, args, kwargs)] = out.dtype
        return out

    def _is_plain(self, tensor: Tensor) -> bool:
        return (
            type(tensor) is FakeTensor
            and tensor.fake_mode is self
            and tensor.constant is None
            and tensor.layout is torch.strided
        )

    def _has_plain_sizes(self, args: Any) -> bool:
        """Whether a call has a plain tensor first and only whole numbers beside it, as most views do."""
        first, *rest = args
        if not isinstance(first, Tensor) or not self._is_plain(first):
            return False
        for value in rest:
            if type(value) is not int and (type(value) is not list or any(type(size) is not int for size in value)):
                return False
        return True

    def _signature(self, values: Any, tensors: list[FakeTensor]) -> Signature | None:
        """All about a call's arguments that counts; the tensors among them are listed. None where one is not plain."""
        parts: list[Any] = []
        for value in values:
            if isinstance(value, Tensor):
                if not self._is_plain(value):
                    return None
                assert type(value) is FakeTensor
                tensors.append(value)
                parts += (value.shape, value.stride(), value.dtype, value.fake_device)
            elif isinstance(value, list | tuple):
                inside = self._signature(value, tensors)
                if inside is None:
                    return None
                parts.append(inside)
            elif isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
                return None
            else:
                parts += (type(value), value)
        return tuple(parts)

    def _pointwise(self, func: Any, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Answer | None:
        """Arithmetic on contiguous tensors gives a contiguous one; of which dtype, an earlier call has shown."""
        if not tensors or not _on_one_device(tensors):
            return None
        dtype = self._dtypes.get(_kinds(func, args, kwargs))
        shape = None if dtype is None else _broadcast(tensors)
        if dtype is None or shape is None:
            return None
        first = tensors[0]
        if _writes_first(func):
            return _Given(0) if first.shape == shape and 0 not in first.stride() else None
        if not all(tensor.is_contiguous() for tensor in tensors):
            return None
        return _New(shape, _contiguous(shape), dtype, first.fake_device)

    def _called(self, func: Any, types: Any, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Any:
        """What comes of a call that is not known yet."""
        if _makes_tensor(func):
            device = kwargs.get("device") or (tensors[0].fake_device if tensors else torch.device("cpu"))
            on_meta = {**kwargs, "device": torch.device("meta")}
            if device.type == "cpu":
                return self._by_meta_kernel(func, types, args, on_meta, device, kwargs)
        elif _is_left_to_kernel(func) and tensors and _on_one_device(tensors):
            return self._by_meta_kernel(func, types, args, kwargs, tensors[0].fake_device)
        return self.dispatch(func, types, args, kwargs)

    def _on_gpu(self, func: Any, types: Any, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Answer:
        """What comes of a call on a GPU, as tensors that stand for those there."""
        for tensor in tensors:
            tensor.fake_device = GPU
        try:
            out: Any = self.dispatch(func, types, args, kwargs)
        finally:
            for tensor in tensors:
                tensor.fake_device = CPU
        return tuple(_New(tuple(part.shape), part.stride(), part.dtype, CPU) for part in out)

    def _by_meta_kernel(
        self, func: Any, types: Any, args: Any, kwargs: Any, device: torch.device, given: Any = None
    ) -> Any:
        try:
            with in_kernel_invocation_manager(self):
                out = func(*args, **kwargs)
        except Exception:
            return self.dispatch(func, types, args, kwargs if given is None else given)
        if isinstance(out, list | tuple):
            return type(out)(self._wrapped(part, device) for part in out)
        return self._wrapped(out, device)

    def _wrapped(self, out: Any, device: torch.device) -> Any:
        """A tensor on meta as a fake one, with the attributes that torch gave to the first on its device."""
        if not isinstance(out, Tensor) or type(out) is FakeTensor:
            return out
        known = self._attributes.get(device)
        if known is None:
            first = FakeTensor(self, out, device)
            self._attributes[device] = dict(first.__dict__)
            return first
        tensor = Tensor._make_subclass(FakeTensor, out, False, dispatch_device=True, device_for_backend_keys=device)
        if self._allow_unsafe_data_ptr_access:
            torch._C._set_warn_deprecated_on_mutable_data_ptr(tensor)
        else:
            torch._C._set_throw_on_mutable_data_ptr(tensor)
        tensor.__dict__.update(known)
        return tensor

    def _made(self, answer: Answer, tensors: list[FakeTensor]) -> Any:
        if isinstance(answer, _Given):
            return tensors[answer.place]
        if not isinstance(answer, _New):
            return tuple(self._made(part, tensors) for part in answer)
        with torch._C._DisableTorchDispatch():
            out = torch.empty_strided(answer.shape, answer.stride, dtype=answer.dtype, device="meta")
        return self._wrapped(out, answer.device)


def is_counted(x: Tensor) -> bool:
    """Whether a tensor stands for one in a run that is counted, not traced or compiled."""
    return type(x) is FakeTensor and isinstance(x.fake_mode, ShapeMode)


def _described(out: Any, tensors: list[FakeTensor]) -> Answer | None:
    """What came of a call, so that it can be made again; None where it cannot, as a view of something."""
    if type(out) is tuple:
        parts = [_one_described(part, tensors) for part in out]
        apart = {part.untyped_storage()._cdata for part in out if isinstance(part, Tensor)}
        known = [part for part in parts if part is not None]
        return tuple(known) if known and len(apart) == len(parts) == len(known) else None
    return _one_described(out, tensors)


def _one_described(out: Any, tensors: list[FakeTensor]) -> _New | _Given | None:
    if type(out) is not FakeTensor or out.constant is not None or out.layout is not torch.strided:
        return None
    for place, tensor in enumerate(tensors):
        if out is tensor:
            return _Given(place)
    storage = out.untyped_storage()
    reach = 1 + sum((size - 1) * step for size, step in zip(out.shape, out.stride(), strict=True))
    if out.storage_offset() or storage.nbytes() != (reach if out.numel() else 0) * out.itemsize:
        return None
    if any(tensor.untyped_storage()._cdata == storage._cdata for tensor in tensors):
        return None
    return _New(tuple(out.shape), out.stride(), out.dtype, out.fake_device)


def _product(func: Any, tensors: list[FakeTensor]) -> Answer | None:
    """A product of matrices, plain or batched, perhaps added to something: new, or written into a tensor."""
    if len({(tensor.dtype, tensor.fake_device) for tensor in tensors}) != 1:
        return None
    name = func._opname
    added = "add" in name
    left, right = tensors[1:3] if added else tensors[:2]
    rank = 3 if name.startswith("b") else 2
    if left.dim() != rank or right.dim() != rank or left.shape[-1] != right.shape[-2]:
        return None
    shape = (*left.shape[:-1], right.shape[-1])
    if rank == 3 and left.shape[0] != right.shape[0]:
        return None
    if added:
        summand = tensors[0].shape
        if len(summand) > rank or any(
            size not in (1, there) for size, there in zip(summand[::-1], shape[::-1], strict=False)
        ):
            return None
    if name.endswith("_"):
        return _Given(0) if tensors[0].shape == shape else None
    if func._overloadname == "out":
        return _Given(len(tensors) - 1) if tensors[-1].shape == shape else None
    return _New(shape, _contiguous(shape), left.dtype, left.fake_device)


def _is_cudnn_in_evaluation(
    func: Any, x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: Any, *_: Any
) -> bool:
    """Whether torch leaves a batch norm in evaluation mode to cuDNN."""
    given = all(part is not None for part in (weight, bias, mean, variance))
    is_trained = func is aten.native_batch_norm.default and training
    fits = x.dim() >= 3 and x.shape[0] <= 65535
    return given and not is_trained and fits and torch.bfloat16 not in (x.dtype, weight.dtype)


def _on_one_device(tensors: list[FakeTensor]) -> bool:
    return all(tensor.fake_device == tensors[0].fake_device for tensor in tensors)


def _broadcast(tensors: list[FakeTensor]) -> tuple[int, ...] | None:
    """The shape of all tensors together; None where they do not fit."""
    shape: list[int] = []  # from the last dimension on
    for tensor in tensors:
        for place, size in enumerate(reversed(tensor.shape)):
            if place == len(shape):
                shape.append(size)
            elif shape[place] == 1:
                shape[place] = size
            elif size not in (1, shape[place]):
                return None
    return tuple(reversed(shape))


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _kinds(func: Any, args: Any, kwargs: Any) -> Signature:
    """What decides the dtype of arithmetic: those of the tensors, single numbers apart, and the kinds of numbers."""

    def kind(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.dtype, value.dim() == 0
        is_number = isinstance(value, int | float | complex) and not isinstance(value, bool)
        return type(value) if is_number else value

    given = (*(kind(value) for value in args), *((name, kind(value)) for name, value in kwargs.items()))
    return (func, torch.get_default_dtype(), *given)


class _Rule(NamedTuple):
    """What is the same at every call of an operator: looked up once a call, since that hashes the operator."""

    reads_numbers: bool
    is_remembered: bool
    is_plain: bool
    is_view: bool
    is_product: bool
    is_pointwise: bool


@cache
def _rule(func: Any) -> _Rule:
    plain = _is_plain(func)
    return _Rule(
        func in known.READERS,
        known.may_be_remembered(func),
        plain,
        plain and _is_view(func),
        func in _PRODUCTS,
        plain and _is_pointwise(func),
    )


def _is_plain(func: Any) -> bool:
    """Whether what its tensors look like decides all that comes of an operator."""
    if not isinstance(func, OpOverload) or func.namespace not in _NAMESPACES or func in FakeTensorMode.lift_fns:
        return False
    unlike = (torch.Tag.inplace_view, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
    return has_meta(func) and not any(tag in func.tags for tag in unlike)


@cache
def _is_left_to_kernel(func: Any) -> bool:
    """Whether torch's mode has no rule for an operator and calls its Meta kernel too."""
    return not any(applies(func) for applies, _ in op_implementations_checks)


def _is_view(func: Any) -> bool:
    return bool(func in _VIEWS or (func.is_view and _is_left_to_kernel(func)))


@cache
def _makes_tensor(func: Any) -> bool:
    """Whether it makes a tensor on the device it is given, anew or like another one."""
    return any(argument.name == "device" and argument.kwarg_only for argument in func._schema.arguments) and (
        func._opname.endswith("_like") or func._opname.startswith("new_") or not _takes_tensors(func)
    )


@cache
def _takes_tensors(func: Any) -> bool:
    return any("Tensor" in str(argument.type) for argument in func._schema.arguments)


def _is_pointwise(func: Any) -> bool:
    if func in _SHAPED_LIKE_INPUT:
        return True
    return torch.Tag.pointwise in func.tags and len(func._schema.returns) == 1 and func._overloadname != "out"


@cache
def _writes_first(func: Any) -> bool:
    alias = func._schema.arguments[0].alias_info
    return alias is not None and alias.is_write


# Operators that carry functions look for a rule by the mode's class, and not by those it inherits from.
for _operator in (flex_attention, flex_attention_backward):
    _operator.py_impl(ShapeMode)(_operator.python_key_table[FakeTensorMode])
