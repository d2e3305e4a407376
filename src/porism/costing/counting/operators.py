"""What each operator of torch does apart from its products: elementwise work or none, and the bytes it moves."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from porism.costing.counting.arguments import tensors_in
from porism.costing.counting.flops import stored

DECOMPOSED: dict[Any, Callable[..., Any]] = {}
"""Operators that are counted by the code inside them, which runs in their place."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Views too. A closed list: whatever is not here and has no formula is named as not counted.
FREE = _names("""
    _conj_copy _foreach_copy _fw_primal_copy _indices_copy _make_dual_copy _neg_view_copy _nested_get_values_copy
    _nested_view_from_buffer_copy _nested_view_from_jagged_copy _reshape_alias_copy _reshape_copy
    _sparse_broadcast_to_copy _to_copy _values_copy alias_copy as_strided_copy as_strided_scatter ccol_indices_copy
    col_indices_copy crow_indices_copy detach_copy diagonal_copy diagonal_scatter empty_like expand_copy full_like
    indices_copy lift_fresh_copy narrow_copy ones_like permute_copy rand_like randint_like randn_like row_indices_copy
    select_copy select_scatter slice_copy slice_scatter split_copy split_with_sizes_copy squeeze_copy t_copy
    transpose_copy unbind_copy unfold_copy unsqueeze_copy values_copy view_as_complex_copy view_as_real_copy view_copy
    zeros_like

    empty empty_permuted empty_strided new_empty new_empty_strided zeros new_zeros _efficientzerotensor ones new_ones
    full new_full fill zero arange linspace logspace eye scalar_tensor tril_indices triu_indices lift lift_fresh resize
    resize_as set _resize_output _pin_memory record_stream _cudnn_rnn_flatten_weight _cudnn_init_dropout_state

    clone copy cat stack _chunk_cat block_diag repeat repeat_interleave roll flip rot90 tril triu diag_embed where
    masked_fill masked_scatter masked_scatter_backward index_fill index_copy scatter select_backward slice_backward
    diagonal_backward constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d im2col pixel_shuffle pixel_unshuffle channel_shuffle unsafe_split
    unsafe_split_with_sizes _unsafe_view as_strided t transpose squeeze unsqueeze swapaxes complex real imag
    _pack_padded_sequence _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned max_unpool2d max_unpool3d
    conj_physical

    index _unsafe_index _unsafe_masked_index index_select gather embedding take masked_select nonzero nonzero_static
    _unique _unique2 unique_dim unique_consecutive searchsorted bucketize

    eq ne lt le gt ge equal isin isnan isinf isneginf isposinf signbit any all _is_all_true _is_any_true
    logical_and logical_or logical_xor
    logical_not bitwise_and bitwise_or bitwise_xor bitwise_not __and__ __or__ __xor__ max min amax amin aminmax maximum
    minimum argmax argmin sort topk kthvalue median nanmedian mode cummax cummin max_pool2d_with_indices
    max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d count_nonzero

    bernoulli normal uniform rand randn randint randperm random multinomial exponential geometric cauchy log_normal
    poisson

    _local_scalar_dense is_same_size is_pinned is_coalesced sparse_dim dense_dim _nnz _dimI _dimV _indices _values
    _coalesced _assert_async _assert_scalar _assert_tensor_metadata sparse_mask sparse_resize _to_dense _to_sparse
    _to_sparse_csr _to_sparse_csc _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors
    _sparse_coo_tensor_unsafe _sparse_compressed_tensor_unsafe _convert_indices_from_coo_to_csr
    _convert_indices_from_csr_to_coo _validate_sparse_coo_tensor_args _linalg_check_errors is_contiguous
    sym_is_contiguous is_strides_like_format is_non_overlapping_and_dense size sym_size stride sym_stride numel
    sym_numel storage_offset sym_storage_offset dim prim.device prim.layout
""")

# One for each element that comes out. torch tags most of its own; these go without.
POINTWISE = _names("""
    native_dropout _masked_scale _prelu_kernel polar _add_relu glu log_sigmoid log_sigmoid_forward linalg_cross
    floor_divide rrelu_with_noise rrelu_with_noise_functional hardswish upsample_nearest1d upsample_nearest2d
    upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d cumsum cumprod
    logcumsumexp affine_grid_generator _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell
""")

# One for each element that goes in: sums, norms, losses. So do the backward passes of these and of what is pointwise.
REDUCTIONS = _names("""
    sum mean prod var std var_mean std_mean norm linalg_vector_norm logsumexp nansum trace dist renorm bincount histc
    segment_reduce _coalesce _sparse_sum _sparse_softmax _sparse_log_softmax softmax log_softmax _softmax _log_softmax
    _safe_softmax
    _masked_softmax _softmax_backward_data _log_softmax_backward_data native_layer_norm native_group_norm
    native_batch_norm cudnn_batch_norm miopen_batch_norm batch_norm _native_batch_norm_legit _fused_rms_norm
    _native_batch_norm_legit_no_training _native_batch_norm_legit_functional _batch_norm_with_update
    _batch_norm_no_update _weight_norm_interface mse_loss smooth_l1_loss huber_loss binary_cross_entropy
    binary_cross_entropy_with_logits soft_margin_loss multi_margin_loss avg_pool2d avg_pool3d _adaptive_avg_pool2d
    _adaptive_avg_pool3d
""")

# One for each element that is added into or picked from a larger tensor: those of the argument of this name.
ADDED = {
    name: argument
    for argument, names in {
        "source": "index_add index_reduce",
        "src": "scatter_add scatter_reduce",
        "values": "index_put _index_put_impl _unsafe_index_put _unsafe_masked_index_put_accumulate",
        "grad_output": "embedding_dense_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward "
        "adaptive_max_pool2d_backward adaptive_max_pool3d_backward reflection_pad1d_backward reflection_pad2d_backward "
        "reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward",
        "grad_in": "unfold_backward",
        "self": "col2im",
        "target": "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward",
    }.items()
    for name in names.split()
}

# No byte of a tensor is touched, as in a view.
STILL = _names("""
    empty empty_like empty_permuted empty_strided new_empty new_empty_strided lift lift_fresh resize resize_as set
    _resize_output record_stream _unsafe_view as_strided t transpose squeeze unsqueeze swapaxes swapdims real imag
    detach unsafe_split unsafe_split_with_sizes _efficientzerotensor _cudnn_init_dropout_state _local_scalar_dense
    is_same_size is_pinned is_coalesced sparse_dim dense_dim _nnz _dimI _dimV _indices _values _coalesced
    _assert_scalar _assert_tensor_metadata _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors
    _sparse_coo_tensor_unsafe _sparse_compressed_tensor_unsafe is_contiguous sym_is_contiguous is_strides_like_format
    is_non_overlapping_and_dense size sym_size stride sym_stride numel sym_numel storage_offset sym_storage_offset dim
    prim.device prim.layout
""")

RANDOM = _names("""
    bernoulli normal uniform rand rand_like randn randn_like randint randint_like randperm random exponential geometric
    cauchy log_normal
""")

# Written without being read first.
FILLED = RANDOM | _names("""
    zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full fill zero arange linspace logspace eye
    scalar_tensor tril_indices triu_indices
""")

# Of the first argument only what comes out is read.
PICKED = _names("""
    index _unsafe_index _unsafe_masked_index index_select gather embedding take masked_select _embedding_bag
    _embedding_bag_forward_only nll_loss_forward nll_loss2d_forward
""")

# The argument at this place is written without being read, or lends its shape only.
UNREAD = {"copy": 0, "nll_loss_backward": 1, "nll_loss2d_backward": 1, "max_pool2d_with_indices_backward": 1}


def _stored_elements(values: Any) -> int:
    return sum(map(stored, tensors_in(values)))


def elementwise_elements(operator: Any, args: Any, kwargs: Any, out: Any) -> int:
    name = base_name(operator)
    if name.startswith("_embedding_bag"):
        rows, indices, *_ = args
        return int(indices.numel() * rows.shape[1])
    if name in ADDED:
        return _stored_elements(named_arguments(operator, args, kwargs)[ADDED[name]])
    if name in REDUCTIONS or name.endswith("_backward"):
        return max(_stored_elements(value) for value in (*args, *kwargs.values()))
    return _stored_elements(out) or _stored_elements(args[:1])  # in place over a list, an operator returns None


def moved_bytes(operator: Any, args: Any, kwargs: Any, out: Any) -> int:
    """The bytes that a call reads and writes, each tensor once; none for a view and for memory that is only set aside.

    A call that picks from a table reads what it picks, one that adds into a table reads and writes what it adds to.
    """
    if is_still(operator):
        return 0
    name = base_name(operator)
    written = _bytes(out)
    read = _bytes((args, {key: value for key, value in kwargs.items() if key != "out"}))
    if name in FILLED:
        return written
    if name in PICKED:
        return read - _bytes(args[0]) + 2 * written
    if name in UNREAD:
        return read - _bytes(args[UNREAD[name]]) + written
    if ADDED.get(name) in ("source", "src", "values"):
        return _added_bytes(operator, args, kwargs)
    return read + written


def _added_bytes(operator: Any, args: Any, kwargs: Any) -> int:
    """Adding into the first argument: the summands and their indices are read, the rows at these indices read and
    written.

    A call that is not in place copies the table before.
    """
    summands = named_arguments(operator, args, kwargs)[ADDED[base_name(operator)]]
    copied = 0 if str(operator._overloadpacket).endswith("_") else 2 * _bytes(args[0])
    return _bytes((args[1:], kwargs)) + 2 * _bytes(summands) + copied


def _bytes(values: Any) -> int:
    return sum(map(_stored_bytes, tensors_in(values)))


def _stored_bytes(tensor: Tensor) -> int:
    """Of a tensor that was expanded, the memory it is a view of."""
    if tensor.layout != torch.strided:
        return stored(tensor) * tensor.itemsize
    elements = tensor.numel()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride == 0 and size > 1:
            elements //= size
    return elements * tensor.itemsize


def named_arguments(operator: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call by the names that the operator's schema gives them; one without a schema names none."""
    schema = getattr(operator, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else []
    return {**dict(zip(names, args, strict=False)), **kwargs}


@cache
def base_name(operator: Any) -> str:
    """The name without namespace aten and overload, and without the mark of writing in place: `add` for `add_` too."""
    name = str(getattr(operator, "_overloadpacket", operator)).removeprefix("aten.")
    return name if name.endswith("__") else name.removesuffix("_")


@cache
def is_elementwise(operator: Any) -> bool:
    name = base_name(operator)
    if name in FREE:
        return False
    forward = name.removesuffix("_backward")
    listed = {name, forward} & (POINTWISE | REDUCTIONS | ADDED.keys())
    if listed or name.startswith(("_foreach_", "_embedding_bag")):
        return True
    # torch may tag only the form that does not write in place, or not the backward one.
    packets = [getattr(operator, "_overloadpacket", None)]
    packets += [getattr(torch.ops.aten, form, None) for form in (name, forward)]
    overloads = [getattr(packet, overload) for packet in packets if packet for overload in packet.overloads()]
    return any(torch.Tag.pointwise in overload.tags for overload in overloads)


@cache
def is_free(operator: Any) -> bool:
    name = base_name(operator)
    return getattr(operator, "is_view", False) or name in FREE


@cache
def is_still(operator: Any) -> bool:
    """Whether a call touches no byte of any tensor: a view, a question about a shape, memory set aside."""
    return getattr(operator, "is_view", False) or base_name(operator) in STILL
