"""What kernels of several layers share: how they read operands, products of matrices, rows and numbers of tokens."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from porism.layers.kernels.assembler import rewrite_what_is_assembled

rewrite_what_is_assembled()
INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def product(a: tl.tensor, b: tl.tensor, PRECISION: tl.constexpr) -> tl.tensor:
    """a @ b, added up in float32.

    This text is part of the key by which Triton keeps what it has compiled, and that differs from before assembler.py.
    """
    if INTERPRETED:  # which would multiply the bit patterns of bfloat16
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def multiplied(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """a b by element, rounded to the type that both have: a GPU multiplies two numbers of bfloat16 at once."""
    if INTERPRETED:  # as above
        return (a.to(tl.float32) * b.to(tl.float32)).to(a.dtype)
    return a * b


@triton.jit
def multiplied_and_added(total: tl.tensor, a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """total + a b by element, rounded to the type that all three have."""
    if INTERPRETED:  # as above
        return (total.to(tl.float32) + a.to(tl.float32) * b.to(tl.float32)).to(total.dtype)
    return total + a * b


@triton.jit
def ended(total: tl.tensor) -> tl.tensor:
    """The sum, when the products that add to it have ended. A loop that makes one of their factors needs it at its end.

    On a GPU products go on while others are prepared, and the compiler (Triton 3.6 to 3.9) lets those of one iteration
    go on into the next, which puts its own factors into the registers that they still read. A use of the sum stops it,
    even one that does nothing.
    """
    if INTERPRETED:
        return total
    return tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [total], tl.float32, is_pure=True, pack=1)


@triton.jit
def all_ended(totals: tl.tuple, COUNT: tl.constexpr) -> tl.tuple:
    """COUNT sums, when the products that add to them have ended. They end in their order: the last one is looked at.

    So the factors of one product are made while those before it go on.
    """
    sums = none()
    for i in tl.static_range(COUNT - 1):
        sums += (totals[i],)
    sums += (ended(totals[COUNT - 1]),)
    return sums


@triton.jit
def none() -> tuple[tl.tensor, ...]:
    """No tensor yet."""
    return ()


@triton.jit
def rows(
    x: tl.tensor,
    start: tl.tensor,
    stride: tl.tensor,
    length: tl.tensor,
    TOKENS: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
) -> tl.tensor:
    """(TOKENS, TILE), from `start` on; a token's WIDTH elements lie side by side."""
    token = tl.arange(0, TOKENS)
    column = tl.arange(0, TILE)
    inside = (start + token < length)[:, None] & (column < WIDTH)[None, :]
    place = x + (start + token)[:, None] * stride + column[None, :]
    return tl.load(place, mask=inside, other=0.0)


@triton.jit
def write_rows(
    x: tl.tensor,
    stride: tl.tensor,
    length: tl.tensor,
    value: tl.tensor,
    TOKENS: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """The opposite of `rows`, from the pointer on."""
    token = tl.arange(0, TOKENS)
    column = tl.arange(0, TILE)
    inside = (token < length)[:, None] & (column < WIDTH)[None, :]
    tl.store(x + token[:, None] * stride + column[None, :], value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def numbers(x: tl.tensor, start: tl.tensor, length: tl.tensor, TOKENS: tl.constexpr) -> tl.tensor:
    """(TOKENS): one number a token."""
    token = start + tl.arange(0, TOKENS)
    return tl.load(x + token, mask=token < length, other=0.0)


@triton.jit
def kept(
    padding: tl.tensor, start: tl.tensor, length: tl.tensor, TOKENS: tl.constexpr, PADDED: tl.constexpr
) -> tl.tensor:
    """(TOKENS): true for a key of the text, false for one that is only padding, or beyond the end."""
    token = start + tl.arange(0, TOKENS)
    inside = token < length
    if PADDED:
        inside = inside & (tl.load(padding + token, mask=inside, other=1) == 0)
    return inside


@triton.jit
def write_numbers(x: tl.tensor, length: tl.tensor, value: tl.tensor, TOKENS: tl.constexpr) -> None:
    """The opposite of `numbers`, from the pointer on."""
    token = tl.arange(0, TOKENS)
    tl.store(x + token, value, mask=token < length)


@triton.jit
def up_to(lead: tl.tensor, QUERIES: tl.constexpr, KEYS: tl.constexpr) -> tl.tensor:
    """(QUERIES, KEYS): which keys causal queries attend to; the first one is `lead` positions after the first key."""
    return tl.arange(0, KEYS)[None, :] <= (lead + tl.arange(0, QUERIES))[:, None]


@triton.jit
def settled(total: tl.tensor, blind: tl.tensor) -> tl.tensor:
    """A sum of positive weights: 0 for a query that sees no key, and NaN where rounding or overflow has taken it."""
    total = tl.where((total > 0.0) & (total < float("inf")), total, float("nan"))
    return tl.where(blind, 0.0, total)


@triton.jit
def inverse(total: tl.tensor) -> tl.tensor:
    """1 / total, and 0 for a query that attends to no key, whose total is 0 exactly."""
    return tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))


def as_read(x: Tensor) -> Tensor:
    """x as kernels read it: one piece of memory, its numbers with their signs."""
    return x.contiguous().resolve_neg()


def precision(dtype: torch.dtype) -> str:
    """TF32 has ten bits: products of float32 take three of it, unless torch is set to allow one."""
    one_will_do = dtype != torch.float32 or torch.backends.cuda.matmul.fp32_precision == "tf32"
    return "tf32" if one_will_do else "tf32x3"
