"""Is every GPU kernel right? Each layer's `check.py` says what to compare with which oracle, this file compares.

Where there is a GPU the kernels run there. Elsewhere Triton's interpreter runs them on the CPU, one program after the
other: slow, and the same arithmetic.
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

import torch

from porism.errors import MissingExtra, PorismError
from porism.layers import kernels
from porism.layers.cases import LAYERS, KernelCase
from porism.testing.gradients import relative_error
from porism.testing.report import CheckResult

TOLERANCE = 1e-5
"""Relative, of float32 beside an oracle in float64."""

WITH_KERNELS = ("gcn", "grid", "hybrid", "taylor", "window")
"""The layers that have Triton kernels."""


def check_kernels(names: Sequence[str] = WITH_KERNELS, seed: int = 0) -> list[CheckResult]:
    """Compares answers and gradients of kernels with those of the oracles.

    >>> {check.verdict for check in check_kernels(["window"])}
    {'pass'}
    """
    if find_spec("triton") is None:
        raise MissingExtra('checking kernels needs triton, which is not installed: pip install "porism[gpu]"')
    if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
        return _interpreted(names, seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and (fault := import_module("porism.testing.interpreter").fault()):
        raise MissingExtra(f"{fault}. Without a GPU install a pair that fits: pip install -U triton")
    checks = []
    with _launches(device) as launched:
        for name in names:
            for case in import_module(f"{LAYERS[name]}.check").kernel_cases(seed):
                before = launched[0]
                checks += _compared(case, f"{name}.{case.name}", device)
                if launched[0] == before:
                    # The layer took another way: what was compared is no kernel.
                    checks.append(CheckResult(f"{name}.{case.name}.launched", "fail", 0.0, 1.0))
    return checks


def _compared(case: KernelCase, name: str, device: torch.device) -> list[CheckResult]:
    given = [part.to(device).requires_grad_() for part in case.at.values()]
    exact = [part.double().requires_grad_() for part in case.at.values()]
    found, expected = case.function(*given), case.oracle(*exact)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    slopes = torch.autograd.grad(found, given, weights.to(device))
    true_slopes = torch.autograd.grad(expected, exact, weights.double())
    pairs = [("answer", found, expected)]
    pairs += [(f"d{part}", a, b) for part, a, b in zip(case.at, slopes, true_slopes, strict=True)]
    checks = []
    for part, one, other in pairs:
        measured = relative_error(one.detach().cpu().double(), other.detach())
        # Written so that a NaN fails.
        checks.append(CheckResult(f"{name}.{part}", "pass" if measured <= TOLERANCE else "fail", measured, TOLERANCE))
    return checks


def _interpreted(names: Sequence[str], seed: int) -> list[CheckResult]:
    """In a process of its own: Triton must know before its import that it is to interpret, and torch imports it."""
    program = [sys.executable, "-m", "porism.testing.kernels", str(seed), *names]
    done = subprocess.run(program, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed no message"])[-1]
        if last.startswith(own := f"{MissingExtra.__module__}.{MissingExtra.__name__}: "):
            raise MissingExtra(last.removeprefix(own))
        raise PorismError(f"the kernels did not run in Triton's interpreter: {last}. Report it with the versions.")
    return [CheckResult(**fields) for fields in json.loads(done.stdout.splitlines()[-1])]


@contextmanager
def _launches(device: torch.device) -> Iterator[list[int]]:
    """Lets layers have their kernels on the device, and counts what they launch."""
    if device.type == "cuda":
        kind = import_module("triton.runtime.jit").JITFunction
    else:
        kind = import_module("triton.runtime.interpreter").InterpretedFunction
    launched, devices, run = [0], set(kernels.DEVICES), kind.run

    def counting(*args: object, **options: object) -> object:
        launched[0] += 1
        return run(*args, **options)

    kind.run = counting
    kernels.DEVICES.add(device.type)
    try:
        yield launched
    finally:
        kind.run = run
        kernels.DEVICES.clear()
        kernels.DEVICES.update(devices)


if __name__ == "__main__":
    print(json.dumps([dataclasses.asdict(check) for check in check_kernels(sys.argv[2:], int(sys.argv[1]))]))
