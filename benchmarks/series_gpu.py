"""How fast is the series of order 2 on a GPU, and from which length on does it beat full attention of the same width?

    python benchmarks/series_gpu.py                          writes results/series_gpu.json
    python benchmarks/series_gpu.py --lengths 131072 --resume

Peer: torch's scaled_dot_product_attention (FlashAttention) at width 64, in turns. The series stands beside it with
queries and keys of the same width, and of 32 and 16, which are narrower models; and the series beside itself with keys
that decay, by a decay of each token. bfloat16, causal, 16 heads, values of
width 64, 65,536 tokens in all; milliseconds of the GPU by CUDA events. Before anything is timed the kernels are held
against float64 at two odd lengths, and two runs against each other, bit for bit. Decoding is a captured graph of 16
tokens for a batch of 64, each of which moves the state on, or all of which are one chunk of a chunked state; or a graph
of a single token, in which starting it counts as well.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kept import Kept, machine
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.taylor import TaylorState, naive, taylor_attention, taylor_decode
from porism.layers.attention.taylor.kernels import triton as kernels
from porism.testing.gradients import relative_error
from turns import Step, captured, in_turns_on_gpu, spread, times_faster

MEASURES = ("layers/attention/taylor",)
RESULT = Path(__file__).parent / "results" / "series_gpu.json"
HEADS, VALUES, TOKENS = 16, 64, 65_536
CHUNK = 16
"""Decoded tokens that a state takes up at once."""
WORST_ERROR = {"bfloat16": 1e-2, "float32": 1e-5}

Attend = Callable[..., Tensor]
Inputs = Callable[..., list[Tensor]]


def inputs(T: int, B: int, D: int, dtype: torch.dtype = torch.bfloat16, heads: int = HEADS) -> list[Tensor]:
    draw = torch.Generator("cuda").manual_seed(0)
    drawn = (torch.randn(B, heads, T, width, device="cuda", generator=draw) for width in (D, D, VALUES))
    return [x.to(dtype).requires_grad_() for x in drawn]


def inputs_and_decay(T: int, B: int, D: int, dtype: torch.dtype = torch.bfloat16, heads: int = HEADS) -> list[Tensor]:
    """A token loses up to a tenth of a weight's logarithm, in float32."""
    draw = torch.Generator("cuda").manual_seed(1)
    log_decay = -0.1 * torch.rand(B, heads, T, device="cuda", generator=draw)
    return [*inputs(T, B, D, dtype, heads), log_decay.requires_grad_()]


def series(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return taylor_attention(q, k, v, pattern=CAUSAL)


def with_decay(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
    return taylor_attention(q, k, v, pattern=CAUSAL, log_decay=log_decay)


def exact_decay(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
    return naive.taylor_attention(q, k, v, order=2, pattern=CAUSAL, log_decay=log_decay)


def full(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def exact_series(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return naive.taylor_attention(q, k, v, order=2, pattern=CAUSAL)


def error(attend: Attend, oracle: Attend, D: int, dtype: torch.dtype, drawn: Inputs = inputs) -> float:
    """The largest relative error of the answer and the gradients against float64, short and longer than one chunk."""
    return max(error_at(T, attend, oracle, D, dtype, drawn) for T in (1_025, 10_001))


def error_at(T: int, attend: Attend, oracle: Attend, D: int, dtype: torch.dtype, drawn: Inputs) -> float:
    """Two runs must agree in every bit."""
    leaves = drawn(T, 1, D, dtype, heads=2)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    answer = oracle(*exact)
    weights = torch.randn_like(answer)

    def passed() -> list[Tensor]:
        out = attend(*leaves)
        return [out.detach(), *torch.autograd.grad(out, leaves, weights.to(dtype))]

    found, again = passed(), passed()
    if not all(torch.equal(one, other) for one, other in zip(found, again, strict=True)):
        sys.exit(f"T={T}, D={D}, {dtype}: two runs differ.")
    expected = [answer.detach(), *torch.autograd.grad(answer, exact, weights)]
    return max(float((one.double() - other).norm() / other.norm()) for one, other in zip(found, expected, strict=True))


def passes(attend: Attend, leaves: list[Tensor]) -> dict[str, Step]:
    """Forward alone, and with backward."""
    weights = torch.ones(*leaves[0].shape[:3], VALUES, device="cuda", dtype=leaves[0].dtype)

    @torch.no_grad()
    def forward() -> None:
        attend(*leaves)

    def both() -> None:
        torch.autograd.grad(attend(*leaves), leaves, weights)

    return {"forward": forward, "both": both}


def compared(ways: dict[str, tuple[Attend, list[Tensor]]], turns: int) -> dict[str, Any]:
    """All ways in turns, each on its own operands, and how many times faster than full attention each is."""
    steps = {name: passes(attend, leaves) for name, (attend, leaves) in ways.items()}
    row: dict[str, Any] = {"ms": {name: {} for name in ways}, "times_faster": {name: {} for name in ways}}
    for kind in ("forward", "both"):
        times = in_turns_on_gpu({name: found[kind] for name, found in steps.items()}, turns)
        for name, taken in times.items():
            row["ms"][name][kind] = spread(taken)
            row["times_faster"][name][kind] = times_faster(taken, times["full"])
    return row


def state_of(B: int, D: int) -> TaylorState:
    M = 1 + D + (D // 2 + 1) * D
    return TaylorState(torch.rand(B, HEADS, M, VALUES, device="cuda"), torch.rand(B, HEADS, M, device="cuda").add_(1.0))


def decode_all(state: Any, *qkv: Tensor) -> Tensor:
    """One token after the other; the answers side by side."""
    answers = []
    for q, k, v in zip(*(x.split(1, 2) for x in qkv), strict=True):
        answer, state = taylor_decode(q, k, v, state)
        answers.append(answer)
    return torch.cat(answers, 2)


@torch.no_grad()
def decoding(D: int, turns: int, B: int = 64) -> dict[str, Any]:
    """Microseconds of a decoded token."""
    qkv, state = [x.detach() for x in inputs(CHUNK, B, D)], state_of(B, D)
    token = [x[:, :, :1].contiguous() for x in qkv]
    steps = {
        "single": captured(lambda: decode_all(state, *token)),
        "plain": captured(lambda: decode_all(state, *qkv)),
        "chunked": captured(lambda: decode_all(state.in_chunks(CHUNK), *qkv)),
    }
    times = in_turns_on_gpu(steps, turns)
    tokens = {"single": 1, "plain": CHUNK, "chunked": CHUNK}
    return {name: spread([1e3 * taken / tokens[name] for taken in some]) for name, some in times.items()}


@torch.no_grad()
def decoding_error(D: int, T: int = 3 * CHUNK + 5) -> dict[str, float]:
    """The largest relative error of texts decoded token by token after a prompt of 5, against float64."""
    q, k, v = (x.detach() for x in inputs(T, 2, D))
    wanted = exact_series(*(x.double() for x in (q, k, v)))[:, :, 5:]
    _, state = taylor_decode(q[:, :, :5], k[:, :, :5], v[:, :, :5])
    rest = [x[:, :, 5:] for x in (q, k, v)]
    found = {"plain": decode_all(state, *rest), "chunked": decode_all(state.in_chunks(CHUNK), *rest)}
    return {name: relative_error(answer.double(), wanted) for name, answer in found.items()}


def measured(T: int, widths: tuple[int, ...], turns: int) -> dict[str, Any]:
    ways = {f"series D={D}": (series, inputs(T, TOKENS // T, D)) for D in widths}
    return {"T": T, **compared({"full": (full, inputs(T, TOKENS // T, VALUES)), **ways}, turns)}


def measured_with_decay(T: int, widths: tuple[int, ...], turns: int) -> dict[str, Any]:
    """The series beside itself with keys that decay, and how many times as long that takes."""
    row: dict[str, Any] = {"T": T, "ms": {}, "times_as_long": {}}
    for D in widths:
        leaves = inputs_and_decay(T, TOKENS // T, D)
        plain, decayed = passes(series, leaves[:3]), passes(with_decay, leaves)
        row["ms"][f"D={D}"], row["times_as_long"][f"D={D}"] = {}, {}
        for kind in ("forward", "both"):
            times = in_turns_on_gpu({"series": plain[kind], "decay": decayed[kind]}, turns)
            row["ms"][f"D={D}"][kind] = spread(times["decay"])
            row["times_as_long"][f"D={D}"][kind] = times_faster(times["series"], times["decay"])
    return row


def main(
    widths: tuple[int, ...] = (64, 32, 16),
    lengths: tuple[int, ...] = (2048, 8192, 32768, 65536),
    turns: int = 20,
    resume: bool = False,
    out: Path = RESULT,
) -> None:
    """Check, measure, print and keep.

    widths: those of queries and keys.
    resume: keep the parts that the result has, and measure the others.
    """
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    if kernels.kernel_in_use(inputs(1, 1, 16)[0]) != "triton":
        sys.exit("There are no kernels for this GPU.")
    settings = {"heads": HEADS, "values": VALUES, "tokens": TOKENS, "widths": widths, "turns": turns}
    kept = Kept(out, machine(torch.device("cuda"), ["triton"]), settings, resume, MEASURES)
    checked = {torch.bfloat16: widths, torch.float32: (16,)}
    errors = kept.part(
        "errors",
        lambda: {
            str(dtype).removeprefix("torch."): {f"D={D}": error(series, exact_series, D, dtype) for D in some}
            for dtype, some in checked.items()
        },
    )
    errors_with_decay = kept.part(
        "errors with decay",
        lambda: {
            str(dtype).removeprefix("torch."): {
                f"D={D}": error(with_decay, exact_decay, D, dtype, inputs_and_decay) for D in some
            }
            for dtype, some in checked.items()
        },
    )
    for T in lengths:
        kept.part(f"T={T}", partial(measured, T, widths, turns))
        kept.part(f"decay T={T}", partial(measured_with_decay, T, widths, turns))
    decoded = kept.part("errors of decoding", lambda: {f"D={D}": decoding_error(D) for D in widths})
    for D in widths:
        kept.part(f"decoding D={D}", partial(decoding, D, 10 * turns))
    if (worst := max(max(row.values()) for row in decoded.values())) > WORST_ERROR["bfloat16"]:
        sys.exit(f"The error of decoding is {worst:.1e}, expected {WORST_ERROR['bfloat16']:.0e} at most.")
    for dtype, by_width in (*errors.items(), *errors_with_decay.items()):
        if (worst := max(by_width.values())) > WORST_ERROR[dtype]:
            sys.exit(f"The error in {dtype} is {worst:.1e}, expected {WORST_ERROR[dtype]:.0e} at most.")


if __name__ == "__main__":
    tyro.cli(main)
