"""What one call of an operator asks of the device: work of some kind, at some sizes.

>>> left, right = torch.empty(32, 64), torch.empty(64, 128)
>>> work(torch.ops.aten.mm.default, (left, right), {}, left @ right, flops=2 * 32 * 64 * 128, moved=57_344)
(KernelWork(kind='product_nn', sizes=(32, 64, 128), amount=524288),)

The kinds are those whose speed is worth measuring apart: two kinds differ where a device takes different times for the
same sizes. What has no kind of its own is taken to move its bytes and no more.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.costing.counting.arguments import tensors_in
from porism.costing.counting.operators import FILLED, RANDOM, base_name, is_elementwise, named_arguments


class KernelWork(NamedTuple):
    """An amount of work of one kind: flops, elements or bytes, whichever the kind is measured in."""

    kind: str
    sizes: tuple[int, ...]
    amount: int


class Kernel(NamedTuple):
    """One call of an operator that did work, in the pass and for the module it ran in.

    `calls` is the number of operators that the host called for it: this one, and the views and allocations since the
    kernel before it.
    """

    direction: str
    path: str
    name: str
    flops: int
    elements: int
    bytes: int
    work: tuple[KernelWork, ...]
    calls: int


class Call(NamedTuple):
    """What a call got and gave."""

    named: Mapping[str, Any]
    args: tuple[Any, ...]
    out: Any
    flops: int
    moved: int


def work(operator: Any, args: Any, kwargs: Any, out: Any, flops: int, moved: int) -> tuple[KernelWork, ...]:
    """The work of a call: that of its kind, or the moving of its bytes."""
    name = base_name(operator)
    describe = _KINDS.get(name)
    if describe is None:
        return (_moving("arithmetic" if is_elementwise(operator) else "copy", args, out, moved),)
    return describe(Call(named_arguments(operator, args, kwargs), args, out, flops, moved))


def _moving(kind: str, args: Any, out: Any, moved: int) -> KernelWork:
    tensors = [leaf for leaf in tensors_in((args, out)) if leaf.layout == torch.strided]
    orders = {_order(tensor) for tensor in tensors if tensor.dim() > 1}
    return KernelWork("copy_strided" if len(orders - {()}) > 1 else kind, (moved,), moved)


def _order(tensor: Tensor) -> tuple[int, ...]:
    """The dimensions as they lie in memory, the widest step first; those of no step or one element are nowhere."""
    steps = [(-stride, dim) for dim, stride in enumerate(tensor.stride(), -tensor.dim()) if stride]
    return tuple(dim for _, dim in sorted(steps) if tensor.shape[dim] > 1)


def _layout(left: Tensor, right: Tensor) -> str:
    """Which factor lies transposed in memory, the left or the right one; both is as rare as it is like the right."""
    left_turned, right_turned = (factor.stride(-2) == 1 and factor.stride(-1) > 1 for factor in (left, right))
    return "nt" if right_turned else "tn" if left_turned else "nn"


def _product(left: Tensor, right: Tensor, flops: int) -> tuple[KernelWork, ...]:
    if left.layout != torch.strided or right.layout != torch.strided:
        # A row picked and added for each element that is stored.
        width = right.shape[-1]
        return (KernelWork("gather", (flops // (2 * width), width), flops // 2 * left.itemsize),)
    M, K, N = *left.shape[-2:], right.shape[-1]
    if left.dim() == 3 and len(left) > 1:
        return (KernelWork(f"batched_{_layout(left, right)}", (len(left), M, K, N), flops),)
    return (KernelWork(f"product_{_layout(left, right)}", (M, K, N), flops),)


def _matrix_vector(matrix: Tensor, flops: int) -> tuple[KernelWork, ...]:
    return (KernelWork("product_nn", (*matrix.shape, 1), flops),)


def _convolution(
    x: Tensor, weight: Tensor, out: Tensor, groups: int, flops: int, backward: str
) -> tuple[KernelWork, ...]:
    points = out.shape[0] * prod(out.shape[2:])
    if groups > 1 and weight.shape[1] == 1:
        return (KernelWork(f"depthwise{backward}", (points, weight.shape[0]), flops),)
    return (KernelWork(f"convolution{backward}", (points, weight.shape[1], weight.shape[0] // groups), flops),)


def _convolution_forward(call: Call) -> tuple[KernelWork, ...]:
    named = call.named
    return _convolution(named["input"], named["weight"], call.out, named["groups"], call.flops, "")


def _convolution_backward(call: Call) -> tuple[KernelWork, ...]:
    named = call.named
    x, weight, gradient = named["input"], named["weight"], named["grad_output"]
    return _convolution(x, weight, gradient, named["groups"], call.flops, "_backward")


def _attention(backward: str) -> Callable[[Call], tuple[KernelWork, ...]]:
    def describe(call: Call) -> tuple[KernelWork, ...]:
        query, key = call.named["query"], call.named["key"]
        needed = call.flops // 2 if call.named.get("is_causal") else call.flops
        sizes = (prod(query.shape[:-2]), key.shape[-2], query.shape[-1])
        return (KernelWork(f"attention{backward}", sizes, needed),)

    return describe


def _recurrence(backward: str) -> Callable[[Call], tuple[KernelWork, ...]]:
    """Steps that wait for each other, and the products with the inputs of all steps at once.

    The matrices of a layer and direction come in pairs: (gates H, D) meets the inputs, (gates H, H) the state.
    """

    def describe(call: Call) -> tuple[KernelWork, ...]:
        weights = call.named.get("weight") or [call.args[1], call.args[2]]
        matrices = [weight for weight in weights if weight.dim() == 2]
        T, B = _steps_and_rows(call)
        steps, inputs = [], []
        for entering, feeding_back in zip(matrices[::2], matrices[1::2], strict=True):
            rows, D = entering.shape
            H = feeding_back.shape[1]
            steps.append(KernelWork(f"recurrence{backward}", (rows // H, T, B, H), 2 * T * B * rows * H))
            flops = 2 * T * B * rows * D
            if backward:
                inputs.append(KernelWork("product_nn", (T * B, rows, D), flops))
                inputs.append(KernelWork("product_tn", (rows, T * B, D), flops))
            else:
                inputs.append(KernelWork("product_nt", (T * B, D, rows), flops))
        return (*steps, *inputs)

    return describe


def _steps_and_rows(call: Call) -> tuple[int, int]:
    x, batch_sizes = call.args[0], call.named.get("batch_sizes")
    if batch_sizes:  # packed: all tokens in one dimension
        return len(batch_sizes), -(-len(x) // len(batch_sizes))
    # The CPU's kernel is handed the time first whatever batch_first is.
    time_second = call.named.get("batch_first") and "weight" in call.named
    return (x.shape[1], x.shape[0]) if time_second else (x.shape[0], x.shape[1])


def _rows(kind: str, place: int = 0) -> Callable[[Call], tuple[KernelWork, ...]]:
    """Work on rows, each as long as the tensor's last size: norms and softmaxes. `place` is that of the tensor."""

    def describe(call: Call) -> tuple[KernelWork, ...]:
        x = call.args[place]
        width = x.shape[-1] if x.dim() else 1
        return (KernelWork(kind, (max(1, x.numel() // max(1, width)), width), x.numel()),)

    return describe


def _pointwise(name: str) -> Callable[[Call], tuple[KernelWork, ...]]:
    def describe(call: Call) -> tuple[KernelWork, ...]:
        out = call.out[0] if isinstance(call.out, tuple | list) else call.out
        return (KernelWork(name, (out.numel(),), out.numel()),)

    return describe


def _sum(call: Call) -> tuple[KernelWork, ...]:
    """Down the columns, as the gradient of a bias is summed; along the rows it reads its bytes and is done."""
    x, dims = call.args[0], call.named.get("dim") or []
    if x.dim() < 2 or not dims or x.dim() - 1 in [dim % x.dim() for dim in dims]:
        return (_moving("arithmetic", call.args, call.out, call.moved),)
    return (KernelWork("column_sum", (x.numel() // x.shape[-1], x.shape[-1]), x.numel()),)


def _gather(call: Call) -> tuple[KernelWork, ...]:
    """Rows picked from a table."""
    width = call.out.shape[-1] if call.out.dim() > 1 else 1
    return (KernelWork("gather", (max(1, call.out.numel() // max(1, width)), width), call.moved),)


def _scatter(kind: str, argument: str) -> Callable[[Call], tuple[KernelWork, ...]]:
    """Rows added into a table, which may have to be made first."""

    def describe(call: Call) -> tuple[KernelWork, ...]:
        rows = call.named[argument]
        width = rows.shape[-1] if rows.dim() > 1 else 1
        added = 3 * rows.numel() * rows.itemsize
        adding = KernelWork(kind, (max(1, rows.numel() // max(1, width)), width), added)
        return adding, KernelWork("fill", (call.moved,), max(0, call.moved - added))

    return describe


def _fill(call: Call) -> tuple[KernelWork, ...]:
    return (KernelWork("fill", (call.moved,), call.moved),)


POINTWISE_KINDS = (
    *("exp", "log", "tanh", "sigmoid", "erf", "gelu", "gelu_backward", "silu", "silu_backward", "sqrt", "rsqrt", "pow"),
    *("sin", "cos", "softplus", "elu", "tanh_backward", "sigmoid_backward"),
)
"""Operators that compute more for an element than a device does while it moves one, or may."""

MEMORY_KINDS = (
    *("copy", "copy_strided", "arithmetic", "fill", "gather", "scatter", "embedding_backward", "column_sum"),
    *("norm", "norm_backward"),
)
"""Kinds that do so little with a number that a device could do it while the next one comes."""

_FORWARD_ATTENTION = (
    *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention"),
    *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"),
)

_KINDS: dict[str, Callable[[Call], tuple[KernelWork, ...]]] = {
    **dict.fromkeys(("mm", "bmm"), lambda call: _product(call.args[0], call.args[1], call.flops)),
    **dict.fromkeys(
        ("addmm", "baddbmm", "_addmm_activation"), lambda call: _product(call.args[1], call.args[2], call.flops)
    ),
    "mv": lambda call: _matrix_vector(call.args[0], call.flops),
    "addmv": lambda call: _matrix_vector(call.args[1], call.flops),
    "convolution": _convolution_forward,
    "convolution_backward": _convolution_backward,
    **dict.fromkeys(_FORWARD_ATTENTION, _attention("")),
    **dict.fromkeys((f"{name}_backward" for name in _FORWARD_ATTENTION), _attention("_backward")),
    **dict.fromkeys(("mkldnn_rnn_layer", "_cudnn_rnn"), _recurrence("")),
    **dict.fromkeys(("mkldnn_rnn_layer_backward", "_cudnn_rnn_backward"), _recurrence("_backward")),
    **dict.fromkeys(("native_layer_norm", "_fused_rms_norm", "native_group_norm"), _rows("norm")),
    **dict.fromkeys(
        ("native_layer_norm_backward", "_fused_rms_norm_backward", "native_group_norm_backward"), _rows("norm_backward")
    ),
    **dict.fromkeys(("_softmax", "_log_softmax", "_safe_softmax", "softmax", "log_softmax"), _rows("softmax")),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), _rows("softmax_backward")),
    **{name: _pointwise(name) for name in POINTWISE_KINDS},
    **dict.fromkeys(RANDOM | {"native_dropout"}, _pointwise("random")),
    "sum": _sum,
    **dict.fromkeys(("embedding", "index_select", "gather", "index"), _gather),
    "embedding_dense_backward": _scatter("embedding_backward", "grad_output"),
    "index_add": _scatter("scatter", "source"),
    "scatter_add": _scatter("scatter", "src"),
    "index_put": _scatter("scatter", "values"),
    "_index_put_impl": _scatter("scatter", "values"),
    **dict.fromkeys(FILLED - RANDOM, _fill),
}
