"""Kernels as a compiler for a GPU sees them, without one: what a pass launches is compiled for an H100, not run.

    python -m tests.layers.compiled series 64        prints, by kernel, the products whose factor is overwritten

In a process of its own, since here kernels are not interpreted.
"""

import json
import re
import sys
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

H100 = GPUTarget("cuda", 90, 32)
TYPES = {torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.uint8: "*u8", torch.int64: "*i64"}
ALIGNED = [["tt.divisibility", 16]]

Launch = tuple[JITFunction, dict[str, Any]]


def launched(call: Any) -> list[Launch]:
    """The kernels that a function launches, with all that they are given. None runs."""
    found: list[Launch] = []

    def note(kernel: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        found.append((kernel, dict(zip(kernel.arg_names, args, strict=False)) | kwargs))

    run, JITFunction.run = JITFunction.run, note
    try:
        call()
    finally:
        JITFunction.run = run
    return found


def compiled(kernel: JITFunction, given: dict[str, Any]) -> str:
    """Its code in the compiler's own terms for GPUs, with waits and copies in place."""
    signature, constants, attributes = {}, {}, {}
    for number, parameter in enumerate(kernel.params):
        value = given[parameter.name]
        if parameter.is_constexpr:
            signature[parameter.name], constants[number,] = "constexpr", value
        elif isinstance(value, Tensor):
            signature[parameter.name], attributes[number,] = TYPES[value.dtype], ALIGNED
        else:
            signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
            if isinstance(value, int) and value % 16 == 0:
                attributes[number,] = ALIGNED
    options = {name: given[name] for name in ("num_warps", "num_stages", "maxnreg") if given.get(name) is not None}
    source = ASTSource(kernel, signature, constants, attributes)
    code: str = triton.compile(source, target=H100, options=options).asm["ttgir"]
    return code


def overwritten(code: str) -> list[str]:
    """The products that may still read a factor out of registers while the next iteration makes it anew.

    A product is asynchronous. One of a loop has ended where the loop waits for all, after it or at the start of the
    next iteration, before the factor is made.
    """
    found: list[str] = []
    loops: list[list[str]] = []
    for line in code.splitlines():
        if "scf.for" in line:
            loops.append([])
        elif "scf.yield" in line and loops:
            found += _overwritten_in(loops.pop())
        elif loops:
            loops[-1].append(line.strip())
    return found


def _overwritten_in(loop: list[str]) -> list[str]:
    made = {match[1]: number for number, line in enumerate(loop) if (match := re.match(r"(%[\w#]+)(?::\d+)? = ", line))}
    ends = [number for number, line in enumerate(loop) if "warp_group_dot_wait" in line and "pendings = 0" in line]
    found = []
    for number, line in enumerate(loop):
        product = re.match(r"(%[\w#]+) = ttng\.warp_group_dot (%[\w#]+), .*isAsync = true.*} : tensor<", line)
        if product and (factor := made.get(product[2])) is not None and not any(n > number or n < factor for n in ends):
            found.append(product[1])
    return found


def series(D: int, log_decay: Tensor | None = None) -> None:
    from porism.layers.attention.pattern import CAUSAL
    from porism.layers.attention.taylor.kernels.cpu import SeriesSettings
    from porism.layers.attention.taylor.kernels.triton import launches

    q, k, v, dz = (torch.zeros(1, 1, 16_384, width, dtype=torch.bfloat16) for width in (D, D, 64, 64))
    settings = SeriesSettings("rolled", 2, CAUSAL, D**-0.5)
    answer, totals, _ = launches.forward(settings, q, k, v, None, log_decay, None)
    launches.backward(settings, dz, None, q, k, v, None, log_decay, None, answer, totals)


def with_decay(D: int) -> None:
    series(D, torch.zeros(1, 1, 16_384))


def hybrid(D: int) -> None:
    from porism.layers.attention.hybrid.kernels.spans import HybridSettings
    from porism.layers.attention.hybrid.kernels.triton import launches

    q, k, v, dz = (torch.zeros(1, 1, 16_384, width, dtype=torch.bfloat16) for width in (D, D, 64, 64))
    settings = HybridSettings(64, 2, True, D**-0.5)
    passed = launches.forward(settings, q, k, v, None)
    launches.backward(settings, dz, q, k, v, None, passed)


def main(layer: str, D: str) -> None:
    answers: dict[str, list[str]] = {}
    done = set()
    for kernel, given in launched(lambda: {"series": series, "decay": with_decay, "hybrid": hybrid}[layer](int(D))):
        key = kernel.fn.__name__, str([given[p.name] for p in kernel.params if p.is_constexpr])
        if key not in done:
            done.add(key)
            code = compiled(kernel, given)
            answers.setdefault(kernel.fn.__name__, []).extend(overwritten(code))
    print(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
