"""What goes into attention: queries, keys and values, their heads, and which keys are only padding."""

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype


def check(q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None = None) -> None:
    """q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) with G heads that divide A; key_padding (B, S), True for a pad."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise ShapeError(
                f"attention: {name} is {tuple(x.shape)}, wanted 4 sizes: batch, heads, length, width. "
                "Add those that are missing with unsqueeze."
            )
    B, A, _, D = q.shape
    _, G, S, _ = k.shape
    if k.shape != (B, G, S, D):
        raise ShapeError(
            f"attention: k is {tuple(k.shape)}, wanted batch {B} and width {D} as in q {tuple(q.shape)}. "
            "Keys and queries meet in a product."
        )
    if v.shape[:3] != k.shape[:3]:
        raise ShapeError(
            f"attention: v is {tuple(v.shape)}, wanted {tuple(k.shape[:3])} and any width, as in k {tuple(k.shape)}. "
            "Every key has one value."
        )
    if G == 0 or A % G:
        raise ShapeError(
            f"attention: {A} query heads do not share {G} key heads evenly. Give a number that divides {A}."
        )
    if not q.dtype == k.dtype == v.dtype and autocast_dtype(q) is None:
        raise ShapeError(
            f"attention: q is {q.dtype}, k {k.dtype} and v {v.dtype}, wanted one type. Convert with k.to({q.dtype})."
        )
    if key_padding is not None and (key_padding.shape != (B, S) or key_padding.dtype.is_floating_point):
        raise ShapeError(
            f"attention: key_padding is {tuple(key_padding.shape)} of {key_padding.dtype}, wanted ({B}, {S}) of bool, "
            "True where a key is only padding."
        )


def scale_of(q: Tensor, scale: float | None) -> float:
    """1 / sqrt(D), unless another scale is asked for."""
    return q.shape[-1] ** -0.5 if scale is None else scale


def share(x: Tensor, A: int) -> Tensor:
    """Keys or values (B, G, S, D), each head repeated for the query heads that share it: (B, A, S, D)."""
    G = x.shape[1]
    return x if A == G else x.repeat_interleave(A // G, dim=1)
