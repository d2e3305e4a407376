"""torch.autocast("cuda") for tensors that C++ takes for ones on a CPU: the same operators in the same precision.

The lists are those of ATen/autocast_mode.h over all supported versions, each of which has most of them; tests hold them
against it.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LOWER = _names("""
    _convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm
    bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell
    rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention
""")
FLOAT32 = _names("""
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor
    pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm
    nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss
    kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
    triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp
    upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
    _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
    upsample_bicubic2d _upsample_bicubic2d_aa
""")
FLOAT32_BY_DTYPE = _names("""
    prod prod.dim_int prod.dim_Dimname softmax.int softmax.Dimname log_softmax.int log_softmax.Dimname cumprod
    cumprod.dimname cumsum cumsum.dimname linalg_vector_norm linalg_matrix_norm linalg_matrix_norm.str_ord sum
    sum.dim_IntList sum.dim_DimnameList
""")
"""Operators with an argument for the dtype of the result: float32 unless the caller gives one."""
WIDEST = _names("""
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""")

KEY = torch._C.DispatchKey.AutocastCPU


def overload_of(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


class Casts:
    """What autocast does to the arguments of an operator; a weight is cast once while it is on."""

    def __init__(self) -> None:
        self._weights: dict[int, tuple[Tensor, Tensor]] = {}

    def forget(self) -> None:
        self._weights.clear()

    def kernel(self, operator: Any, policy: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(KEY)):
                args, kwargs = self._cast(policy, args, kwargs)
                return operator(*args, **kwargs)

        return run

    def _cast(self, policy: str, args: Any, kwargs: Any) -> Any:
        match policy:
            case "lower":
                return self._to(torch.get_autocast_dtype("cuda"), args, kwargs)
            case "float32":
                return self._to(torch.float32, args, kwargs)
            case "float32 by dtype":
                first = next(leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor))
                if (
                    _is_cast(first)
                    and kwargs.get("dtype") is None
                    and not any(isinstance(x, torch.dtype) for x in args)
                ):
                    return args, {**kwargs, "dtype": torch.float32}
                return args, kwargs
            case "widest":
                tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and _is_cast(leaf)]
                if any(tensor.dtype is torch.float32 for tensor in tensors):
                    return self._to(torch.float32, args, kwargs)
                return self._to(torch.get_autocast_dtype("cuda"), args, kwargs) if tensors else (args, kwargs)
        return args, kwargs

    def _to(self, dtype: torch.dtype, args: Any, kwargs: Any) -> Any:
        return tree_map_only(Tensor, lambda tensor: self._one(tensor, dtype), (args, kwargs))

    def _one(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        if not _is_cast(tensor) or tensor.dtype is dtype:
            return tensor
        is_weight = tensor.dtype is torch.float32 and tensor.is_leaf and tensor.requires_grad
        if not (is_weight and dtype is not torch.float32 and torch.is_autocast_cache_enabled()):
            return tensor.to(dtype)
        if id(tensor) not in self._weights:
            self._weights[id(tensor)] = tensor, tensor.to(dtype)
        return self._weights[id(tensor)][1]


def _is_cast(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype is not torch.float64


def policies() -> dict[str, str]:
    """For every operator that autocast treats on a CPU or a GPU, what it does on a GPU; "as it is" for nothing."""
    found = dict.fromkeys(_cast("AutocastCPU"), "as it is")
    on_gpu = set(_cast("AutocastCUDA"))  # not all versions cast rms_norm
    for policy, names in (
        ("lower", LOWER),
        ("float32", FLOAT32),
        ("float32 by dtype", FLOAT32_BY_DTYPE),
        ("widest", WIDEST),
    ):
        found |= dict.fromkeys((name for name in names if name in on_gpu), policy)
    return found


def _cast(key: str) -> Iterator[str]:
    """The operators that this version of torch casts."""
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
        if name.startswith("aten::"):
            yield name.removeprefix("aten::")


@contextmanager
def autocast_followed(library: torch.library.Library) -> Iterator[None]:
    """torch.autocast("cuda") does here what it does on a GPU, and torch.autocast("cpu") nothing."""
    casts = Casts()
    kind = torch.amp.autocast_mode.autocast
    enter: Callable[..., Any] = kind.__enter__
    leave: Callable[..., Any] = kind.__exit__
    begin: Callable[..., Any] = kind.__init__
    registered: list[bool] = []

    def register() -> None:
        if not registered:
            registered.append(True)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Warning only once for all operators")  # those for a CPU come back
                for name, policy in policies().items():
                    library.impl(name, casts.kernel(overload_of(name), policy), "AutocastCPU")

    def begin_as_if_there(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)
        if device_type == "cuda":
            given = kwargs.get("dtype", args[0] if args else None)
            self.fast_dtype = torch.get_autocast_dtype("cuda") if given is None else given
            self._enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
            self.device = "cuda"

    def enter_both(self: Any) -> Any:
        if self.device == "cuda":
            register()
            self.porism_before = torch.is_autocast_enabled("cpu")
            torch.set_autocast_enabled("cpu", self._enabled)
        return enter(self)

    def leave_both(self: Any, *error: Any) -> Any:
        if self.device == "cuda":
            torch.set_autocast_enabled("cpu", self.porism_before)
            if not self.porism_before:
                casts.forget()
        return leave(self, *error)

    kind.__init__, kind.__enter__, kind.__exit__ = begin_as_if_there, enter_both, leave_both  # type: ignore[method-assign]
    try:
        yield
    finally:
        kind.__init__, kind.__enter__, kind.__exit__ = begin, enter, leave  # type: ignore[method-assign]
        casts.forget()
