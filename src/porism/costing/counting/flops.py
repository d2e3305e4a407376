"""FLOP formulas that torch's own counter lacks or has wrong.

They serve without anything else of this package:

>>> import torch
>>> from torch.utils.flop_counter import FlopCounterMode
>>> from porism.costing.counting.flops import CORRECTIONS
>>> x = torch.randn(1, 2, 5, 8)                                   # B A T D
>>> with FlopCounterMode(display=False, custom_mapping=CORRECTIONS) as counter:
...     y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
>>> counter.get_total_flops() == 4 * 1 * 2 * 5 * 5 * 8           # torch alone says 0 on the CPU
True

Two operations for a multiply-add, an outer product among them (it is a matrix product of inner size 1); a complex
product counts as a real one here, as torch has it, and as four in `porism.cost`; a bias, a mask and a scale are
elementwise and not counted here. What a kernel multiplies counts, zeros of a padding and masked scores too.
Where a count is a convention, its docstring says so.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import log2, prod
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention, flex_attention_backward
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from porism.costing.counting import known

aten = torch.ops.aten

Formula = Callable[..., int]

CORRECTIONS: dict[Any, Formula] = {}


def _counts(*operators: str) -> Callable[[Formula], Formula]:
    """Enter a formula under the aten operators of these names, in place too; a version of torch may lack some."""

    def enter(formula: Formula) -> Formula:
        # torch's counter hands over shapes unless the tensors are requested; only those know a sparse layout.
        formula._get_raw = True  # type: ignore[attr-defined]
        for name in operators:
            for spelled in (name, f"{name}_"):
                if hasattr(aten, spelled):
                    CORRECTIONS[getattr(aten, spelled)] = formula
        return formula

    return enter


def _is_sparse(matrix: Tensor) -> bool:
    return matrix.layout != torch.strided


def stored(matrix: Tensor) -> int:
    """Elements that a tensor stores: all of a dense one, what a sparse one lists (whole blocks, if it is blocked)."""
    if not _is_sparse(matrix):
        return matrix.numel()
    return (matrix._values() if matrix.layout == torch.sparse_coo else matrix.values()).numel()


def _multiplied(matrix: Tensor) -> int:
    """Elements of a factor that are multiplied: those it stores, which a sparse tensor of shapes only does not know."""
    number = stored(matrix)
    if not number and _is_sparse(matrix) and (matrix.is_meta or isinstance(matrix, FakeTensor)):
        raise ValueError("a sparse matrix without values does not say how much it stores")
    return number


def _stored_along(matrix: Tensor, dim: int) -> Tensor:
    """How many elements each row (dim 0) or column (dim 1) of a sparse matrix stores."""
    return torch.bincount(matrix.to_sparse_coo().coalesce().indices()[dim], minlength=matrix.shape[dim])


def _product(left: Tensor, right: Tensor) -> int:
    """Left (..., M, K) times right (..., K, N): 2 M K N for each of the batch. Of a sparse factor what it stores."""
    if _is_sparse(left) and _is_sparse(right):
        return 2 * int((_stored_along(left, 1) * _stored_along(right, 0)).sum())
    if _is_sparse(left):
        return 2 * _multiplied(left) * right.shape[-1]
    if _is_sparse(right):
        return 2 * left.shape[-2] * _multiplied(right)
    return 2 * left.numel() * right.shape[-1]


@_counts("mm", "bmm", "_int_mm", "_sparse_mm", "_sparse_sparse_matmul", "_sparse_mm_reduce_impl")
def product(left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    return _product(left, right)


@_counts("addmm", "baddbmm", "addbmm", "_sparse_addmm", "sspaddmm", "_addmm_activation")
def product_added(_summand: Tensor, left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    """The products only: the addition of the summand is elementwise."""
    return _product(left, right)


@_counts("sparse_sampled_addmm")
def sampled_product(pattern: Tensor, left: Tensor, _right: Tensor, *_: Any, **__: Any) -> int:
    """A dot product for each element that the pattern stores."""
    return 2 * _multiplied(pattern) * left.shape[-1]


@_counts("_sparse_mm_reduce_impl_backward")
def sparse_reduce_backward(
    matrix: Tensor, gradient: Tensor, _weight: Tensor, _reduce: str, _arg: Tensor, output_mask: Sequence[bool], **_: Any
) -> int:
    return sum(output_mask) * 2 * _multiplied(matrix) * gradient.shape[-1]


@_counts("mv")
def matrix_vector(matrix: Tensor, _vector: Tensor, **_: Any) -> int:
    return 2 * _multiplied(matrix)


@_counts("addmv")
def matrix_vector_added(_summand: Tensor, matrix: Tensor, vector: Tensor, **_: Any) -> int:
    return matrix_vector(matrix, vector)


@_counts("dot", "vdot")
def dot(left: Tensor, _right: Tensor, **_: Any) -> int:
    return 2 * left.numel()


@_counts("addr", "ger")
def outer(*vectors: Any, out_val: Tensor, **_: Any) -> int:
    """`torch.outer` itself runs as an elementwise multiplication and is counted there."""
    return 2 * out_val.numel()


@_counts("linear", "mkldnn_linear")
def linear(x: Tensor, weight: Tensor, *_: Any, **__: Any) -> int:
    """For the devices where it is one kernel; elsewhere it arrives as `addmm`."""
    return 2 * x.numel() * weight.shape[0]


@_counts("linear_backward", "mkldnn_linear_backward")
def linear_backward(x: Tensor, _gradient: Tensor, weight: Tensor, output_mask: Sequence[bool], **_: Any) -> int:
    return sum(output_mask[:2]) * linear(x, weight)


@_counts("matmul")
def matmul(left: Tensor, _right: Tensor, *, out_val: Tensor, **_: Any) -> int:
    """For the devices where it is one kernel; elsewhere it arrives as `mm`, `bmm`, `mv` or `dot`."""
    return 2 * out_val.numel() * left.shape[-1]


@_counts("_grouped_mm", "_scaled_grouped_mm")
def grouped_product(left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    """A product for each group of rows (the experts of a mixture). The groups share the rows: their number drops out.

    Where both factors have a group each it is a batched product.
    """
    groups = left.shape[0] if left.dim() == right.dim() == 3 else 1
    return 2 * groups * left.shape[-2] * left.shape[-1] * right.shape[-1]


@_counts("_trilinear")
def trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
    **_: Any,
) -> int:
    """`nn.Bilinear`, forward and backward: torch contracts the first two factors, then the result with the third.

    A step that sums over a single element is an elementwise multiplication and no product; so is the sum over the
    unrolled dimension, a slice at a time.
    """

    def spread(factor: Tensor, expanded: Sequence[int]) -> list[int]:
        sizes = iter(factor.shape)
        return [1 if dim in expanded else next(sizes) for dim in range(first.dim() + len(expand1))]

    def broadcast(left: Sequence[int], right: Sequence[int]) -> list[int]:
        return [max(sizes) for sizes in zip(left, right, strict=True)]

    # What the third factor has no part in is summed before it comes in.
    early = [dim for dim in sumdim if dim != unroll_dim and dim in expand3]
    late = [dim for dim in sumdim if dim != unroll_dim and dim not in expand3]
    pair = broadcast(spread(first, expand1), spread(second, expand2))
    contracted = [1 if dim in early else size for dim, size in enumerate(pair)]
    whole = broadcast(contracted, spread(third, expand3))
    return 2 * (prod(pair) if early else 0) + 2 * (prod(whole) if late else 0)


@_counts(
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_attention_math_for_mps",
)
def attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """Scores, and their sum of values. A convention: the full square, causal or not. Keys may serve several heads."""
    scores = prod(query.shape[:-1]) * key.shape[-2]
    return 2 * scores * (query.shape[-1] + value.shape[-1])


@_counts(
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_fused_attention_overrideable_backward",
)
def attention_backward(_gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """Five products: fused kernels compute the scores once more, then the gradients of value, scores, query and key."""
    scores = prod(query.shape[:-1]) * key.shape[-2]
    return 2 * scores * (3 * query.shape[-1] + 2 * value.shape[-1])


@_counts("_native_multi_head_attention")
def native_attention(query: Tensor, key: Tensor, _value: Tensor, width: int, *_: Any, **__: Any) -> int:
    """The inference kernel of `nn.MultiheadAttention`: four projections and the attention between."""
    B, T, _width = query.shape
    S = key.shape[1]
    return 2 * B * width * (2 * width * (T + S) + 2 * T * S)


@_counts("_transformer_encoder_layer_fwd")
def native_encoder_layer(source: Tensor, width: int, *weights: Any, **_: Any) -> int:
    """The inference kernel of `nn.TransformerEncoderLayer`: attention and two products of the feed-forward part."""
    B, T, _width = source.shape
    feed_forward: Tensor = weights[12]
    return native_attention(source, source, source, width) + 4 * B * T * feed_forward.numel()


def _convolution(x: Tensor, weight: Tensor, out: Tensor, transposed: bool) -> int:
    """Every element of the weight meets every point of the batch, once an output (transposed: once an input).

    Right for groups as it stands: a grouped weight has as many fewer elements.
    """
    points = x if transposed else out
    return 2 * points.shape[0] * prod(points.shape[2:]) * weight.numel()


@_counts("convolution", "_convolution", "convolution_overrideable")
def convolution(x: Tensor, weight: Tensor, *rest: Any, out_val: Tensor, **_: Any) -> int:
    _bias, _stride, _padding, _dilation, transposed, *_more = rest
    return _convolution(x, weight, out_val, transposed)


@_counts(
    "cudnn_convolution",
    "mkldnn_convolution",
    "miopen_convolution",
    "miopen_depthwise_convolution",
    "_slow_conv2d_forward",
    "_conv_depthwise2d",
    "conv_depthwise3d",
    "slow_conv3d_forward",
    "slow_conv_dilated2d",
    "slow_conv_dilated3d",
)
def plain_convolution(x: Tensor, weight: Tensor, *_: Any, out_val: Tensor, **__: Any) -> int:
    return _convolution(x, weight, out_val, transposed=False)


@_counts(
    "cudnn_convolution_transpose", "miopen_convolution_transpose", "slow_conv_transpose2d", "slow_conv_transpose3d"
)
def transposed_convolution(x: Tensor, weight: Tensor, *_: Any, out_val: Tensor, **__: Any) -> int:
    return _convolution(x, weight, out_val, transposed=True)


@_counts("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(gradient: Tensor, x: Tensor, weight: Tensor, *rest: Any, **_: Any) -> int:
    """The gradients of input and weight, those that are requested: each has the products of the forward pass."""
    *_sizes, transposed, _output_padding, _groups, output_mask = rest
    requested: int = sum(output_mask[:2])
    return requested * _convolution(x, weight, gradient, transposed)


@_counts("mkldnn_rnn_layer")
def recurrent_layer(x: Tensor, input_weight: Tensor, recurrent_weight: Tensor, *_: Any, **__: Any) -> int:
    """One direction of one layer: every token of the batch meets both weights."""
    return 2 * prod(x.shape[:-1]) * (input_weight.numel() + recurrent_weight.numel())


@_counts("mkldnn_rnn_layer_backward")
def recurrent_layer_backward(x: Tensor, input_weight: Tensor, recurrent_weight: Tensor, *_: Any, **__: Any) -> int:
    """The kernel returns the gradients of weights, input and first state, requested or not: twice the forward products.

    Step-by-step code skips the first state's where nobody asks: one product of B H by H fewer for each gate.
    """
    return 2 * recurrent_layer(x, input_weight, recurrent_weight)


def _every_layer(x: Tensor, weights: Sequence[Tensor]) -> int:
    """The tokens meet the matrices of all layers and directions; biases are vectors."""
    return 2 * prod(x.shape[:-1]) * sum(weight.numel() for weight in weights if weight.dim() == 2)


@_counts("_cudnn_rnn", "miopen_rnn")
def recurrent_layers(x: Tensor, weights: Sequence[Tensor], *_: Any, **__: Any) -> int:
    """RNN, GRU or LSTM: all layers and directions in one kernel. The tokens of a packed batch come without padding."""
    return _every_layer(x, weights)


@_counts("_cudnn_rnn_backward", "miopen_rnn_backward")
def recurrent_layers_backward(x: Tensor, weights: Sequence[Tensor], *rest: Any, **_: Any) -> int:
    """Input and state gradients always, those of the weights where the last of the output mask asks for them."""
    return (1 + bool(rest[-1][3])) * _every_layer(x, weights)


@_counts("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(weight: Tensor, indices: Tensor, _offsets: Tensor, *rest: Any, **keys: Any) -> int:
    """A convention: a plain bag adds rows, which is elementwise and no product; a weighted one multiplies and adds."""
    sample_weights = keys.get("per_sample_weights", rest[3] if len(rest) > 3 else None)
    return 0 if sample_weights is None else 2 * indices.numel() * weight.shape[1]


@_counts("_embedding_bag_dense_backward", "_embedding_bag_sparse_backward")
def embedding_bag_backward(gradient: Tensor, indices: Tensor, *rest: Any, **_: Any) -> int:
    """As forward: only the gradient of a weighted bag is multiplied before it is added."""
    return 0 if rest[6] is None else 2 * indices.numel() * gradient.shape[1]


@_counts("_embedding_bag_backward")
def any_embedding_bag_backward(gradient: Tensor, indices: Tensor, *rest: Any, **_: Any) -> int:
    """The kernel that chooses between the two above."""
    return 0 if rest[8] is None else 2 * indices.numel() * gradient.shape[1]


@_counts("_embedding_bag_per_sample_weights_backward")
def sample_weights_backward(gradient: Tensor, _weight: Tensor, indices: Tensor, *_: Any, **__: Any) -> int:
    """A dot product of gradient and row for each sample weight."""
    return 2 * indices.numel() * gradient.shape[1]


def _fourier(signal: Tensor, dims: Sequence[int]) -> float:
    length = prod(signal.shape[dim] for dim in dims)
    return 5 * signal.numel() * log2(length) if length > 1 else 0.0


@_counts("_fft_c2c")
def fourier(signal: Tensor, dims: Sequence[int], *_: Any, **__: Any) -> int:
    """A convention: 5 N log2 N for a complex transform of N points whatever the algorithm, to the nearest integer."""
    return round(_fourier(signal, dims))


@_counts("_fft_r2c")
def fourier_of_real(signal: Tensor, dims: Sequence[int], *_: Any, **__: Any) -> int:
    """A convention: half a complex transform of the N real points."""
    return round(_fourier(signal, dims) / 2)


@_counts("_fft_c2r")
def fourier_to_real(_signal: Tensor, dims: Sequence[int], *_: Any, out_val: Tensor, **__: Any) -> int:
    """A convention: half a complex transform of the N real points that come out."""
    return round(_fourier(out_val, dims) / 2)


def _alignment_states(input_lengths: Any, target_lengths: Any) -> int:
    """Steps times states of each alignment: a target of L labels has 2 L + 1 states, blanks between and around."""
    steps, labels = (torch.as_tensor(lengths).tolist() for lengths in (input_lengths, target_lengths))
    return sum(T * (2 * L + 1) for T, L in zip(steps, labels, strict=True))


@_counts("_ctc_loss", "_cudnn_ctc_loss")
def ctc(_log_probs: Tensor, _targets: Tensor, input_lengths: Any, target_lengths: Any, *_: Any, **__: Any) -> int:
    """A convention: 3 a state and step: two additions of the three ways in, one multiplication with the emission."""
    return 3 * _alignment_states(input_lengths, target_lengths)


@_counts("_ctc_loss_backward")
def ctc_backward(
    _gradient: Tensor, _log_probs: Tensor, _targets: Tensor, input_lengths: Any, target_lengths: Any, *_: Any, **__: Any
) -> int:
    """A convention: 3 for the recursion from the end, 1 to join both recursions, 1 to add into the label's share."""
    return 5 * _alignment_states(input_lengths, target_lengths)


@_counts("_euclidean_dist")
def distances_by_product(left: Tensor, right: Tensor, **_: Any) -> int:
    """`cdist` by a matrix product: torch appends the squared norm and a one to each row, so rows are M + 2 long."""
    return 2 * prod(left.shape[:-1]) * right.shape[-2] * (left.shape[-1] + 2)


@_counts("_cdist_forward")
def distances(left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    """`cdist` pair by pair. A convention: a power and an addition a coordinate; the difference is elementwise."""
    return 2 * prod(left.shape[:-1]) * right.shape[-2] * left.shape[-1]


@_counts("_cdist_backward")
def distances_backward(_gradient: Tensor, left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    """A convention: a multiplication and an addition a coordinate of each pair."""
    return distances(left, right)


def _visible(query: Tensor, key: Tensor, block_mask: Sequence[Any]) -> Fraction:
    """The share of pairs of queries and keys that lie in blocks which a mask of FlexAttention does not leave out."""
    *_, rows, columns, _mask = block_mask
    lengths = query.shape[-2], key.shape[-2]
    if rows >= lengths[0] and columns >= lengths[1]:
        return Fraction(1)  # no mask was given, or a single block
    with _disable_current_modes():  # which would take the numbers for shapes
        return _visible_share(lengths, rows, columns, block_mask)


def _visible_share(lengths: tuple[int, int], rows: int, columns: int, block_mask: Sequence[Any]) -> Fraction:
    pairs = masks = 0
    found: known.Found = {}  # all four come of one mask, which is made once for them
    # For every row of blocks the columns of those that are visible, listed first: of those in part, and in full.
    for numbers, indices in (block_mask[2:4], block_mask[4:6]):
        if numbers is None:
            continue
        listed, column = _integers(numbers, found), _integers(indices, found)
        masks = listed.shape[0] * listed.shape[1]
        is_visible = torch.arange(column.shape[-1]) < listed[..., None]
        width = (lengths[1] - column * columns).clamp(0, columns)
        height = (lengths[0] - torch.arange(listed.shape[-1]) * rows).clamp(0, rows)
        pairs += int((is_visible * width * height[:, None]).sum())
    return Fraction(pairs, masks * lengths[0] * lengths[1])


def _integers(tensor: Tensor, found: known.Found) -> Tensor:
    """The numbers of a part of a mask. One that depends on what goes in differs from text to text."""
    integers = None if known.is_drawn(tensor) else known.numbers_of(tensor, found)
    if integers is None:
        raise ValueError("a mask without numbers does not say which blocks it leaves out")
    return integers.cpu().long()


def flex_attention_flops(
    query: Tensor, key: Tensor, value: Tensor, _score: Any, block_mask: Sequence[Any], *_: Any, **__: Any
) -> int:
    """A convention: a block of which one pair is visible counts whole, as kernels compute it."""
    pairs = prod(query.shape[:-1]) * key.shape[-2] * _visible(query, key, block_mask)
    return int(2 * pairs * (query.shape[-1] + value.shape[-1]))


def flex_attention_backward_flops(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **_: Any) -> int:
    """Scores again, and the gradients of the values, weights, queries and keys."""
    pairs = prod(query.shape[:-1]) * key.shape[-2] * _visible(query, key, rest[6])
    return int(2 * pairs * (3 * query.shape[-1] + 2 * value.shape[-1]))


flex_attention_flops._get_raw = True  # type: ignore[attr-defined]
flex_attention_backward_flops._get_raw = True  # type: ignore[attr-defined]
CORRECTIONS[flex_attention] = flex_attention_flops
CORRECTIONS[flex_attention_backward] = flex_attention_backward_flops
