"""What the assembler makes of kernels in Gluon, without a GPU: how many products, and how many bytes are spilled."""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from porism.layers.attention.taylor.kernels.triton.hopper import layout


def sums() -> str:
    from porism.layers.attention.taylor.kernels.triton.hopper import sums as kernels

    numbers = dict.fromkeys(("tiles", "parts", "skipped", "G", "y_batch", "y_head", "y_column"), "i32")
    given = {"x_desc": tile(16, 64), "y_desc": tile(64, 64), "sums": "*bf16", **numbers}
    constants = {"R": 1, "CHUNK": 1024, "STAGES": kernels.STAGES, "SKEW": kernels.SKEW, "M": layout.features(64)}
    return seen(kernels._sum_pairs, given, constants)


def reads() -> str:
    from porism.layers.attention.taylor.kernels.triton.hopper import reads as kernels

    numbers = dict.fromkeys(
        ("tiles", "parts", "first_query", "end", "slots", "A", "T", "row_batch", "row_head", "head_column"), "i32"
    )
    given = {"q_rows": tile(256, 64), "state_rows": tile(256, 64), "z": "*fp32", **numbers, "scale": "fp32"}
    constants = {"R": 1, "M": layout.features(64), "CHUNK": 1024}
    sizes = {"QUERIES": kernels.QUERIES, "STAGES": kernels.STAGES, "LAG": kernels.LAG}
    return seen(kernels._read_pairs, given, {**constants, **sizes})


def gradient() -> str:
    from porism.layers.attention.taylor.kernels.triton.hopper import gradient as kernels

    names = ("tiles", "parts", "first_token", "end", "slots", "A", "T")
    places = (f"{of}_{part}" for of in "xg" for part in ("batch", "head", "column"))
    given = {"x_rows": tile(128, 16), "g_rows": tile(128, 64), "state_rows": tile(256, 64), "far": "*fp32"}
    constants = {"R": 1, "M": layout.features(64), "CHUNK": 1024, "TOKENS": kernels.TOKENS, "STAGES": kernels.STAGES}
    return seen(kernels._reach_pairs, {**given, **dict.fromkeys((*names, *places), "i32")}, constants)


def tile(*shape: int) -> str:
    found = gl.NVMMASharedLayout.get_default_for(list(shape), gl.bfloat16)
    return f"tensordesc<bf16{list(shape)},{found!r}>"


def seen(kernel: Any, given: dict[str, str], constants: dict[str, int]) -> str:
    places = {name: (kernel.arg_names.index(name),) for name in [*given, *constants]}
    source = GluonASTSource(
        kernel,
        {**given, **dict.fromkeys(constants, "constexpr")},
        {places[name]: value for name, value in constants.items()},
        {places[name]: [["tt.divisibility", 16]] for name, kind in given.items() if kind.startswith("*")},
    )
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(made.asm["cubin"])
        code = said(tools / "nvdisasm", "-c", file)
        used = said(tools / "cuobjdump", "--dump-resource-usage", file)
    spilled = re.search(r"STACK:(\d+)", used)
    assert spilled is not None, used
    return f"{len(re.findall(r'HGMMA', code))} {spilled[1]}"


def said(*command: Any) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout
