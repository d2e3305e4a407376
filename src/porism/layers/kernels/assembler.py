"""What Triton assembles for Hopper GPUs, rewritten around two faults of assemblers before CUDA 12.9.

A product finds its factors in memory by descriptors of 64 bits, and each step along a factor adds a constant to one.
ptxas 12.8, which Triton 3.6 brings,

- now and then adds the low half of the descriptor to the high half of the constant too, where the constant is negative:
  that is so for factors whose rows are 32 or 64 bytes long, 16 or 32 numbers in bfloat16. The series' answers for
  queries, keys and values of width 32 were assembled so.
- makes of base + 2 and base + 4 the sums (base + 2) and (base + 2) + 2, and may place the first behind a branch that
  the second does not stand behind. Where the branch is not taken the second is made of whatever the register holds: so
  were the series' answers in float32 and float16 for queries and keys of width 8 and 16 and values of width 64, for the
  first tokens of a text, which no state stands before.

The product then reads what is not its factor: numbers are wrong, or the GPU refuses the address. As two sums of 32 bits
and a carry the same sum is assembled as it is written.

Others met the first too: https://github.com/triton-lang/triton/pull/7196 and https://github.com/triton-lang/triton/issues/11366.
"""

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from triton import knobs

SOUND = 12, 9
"""The first assembler that was seen to be without them."""
LARGE = 1 << 40
"""Constants of descriptors are larger; others are left as they are."""
RULES = sha256(Path(__file__).read_bytes()).hexdigest()
"""What was compiled under other rules is compiled anew."""
SUM = re.compile(r"^\s*add\.s64\s+(%\w+), (%\w+), (-?\d+);", re.MULTILINE)

Stage = Callable[[Any, Any], Any]


def can_be_trusted() -> bool:
    """Whether code for Hopper GPUs does what was written: the assembler is SOUND, or code is rewritten around it."""
    return _version() >= SOUND or hasattr(type(knobs.runtime), "add_stages_inspection_hook")


def rewrite_what_is_assembled() -> None:
    """From now on, whatever has such products, of other packages too: its sums stay what they were written to be."""
    if knobs.runtime.interpret or _version() >= SOUND or not can_be_trusted():
        return
    knobs.runtime.add_stages_inspection_hook = _hook(knobs.runtime.add_stages_inspection_hook)


def rewritten(ptx: str) -> str:
    """The same code, with a carry in sums of a register and a large constant.

    >>> print(rewritten("add.s64 %rd2, %rd1, -9223371899415822272;"))
    { .reg .b32 %low, %high;
    mov.b64 {%low, %high}, %rd1;
    add.cc.u32 %low, %low, 64;
    addc.u32 %high, %high, 2147483680;
    mov.b64 %rd2, {%low, %high}; }
    """
    return SUM.sub(_with_carry, ptx)


def _with_carry(found: re.Match[str]) -> str:
    total, register, constant = found[1], found[2], int(found[3])
    if abs(constant) < LARGE:
        return found[0]
    high, low = divmod(constant % (1 << 64), 1 << 32)
    return (
        "{ .reg .b32 %low, %high;\n"
        f"mov.b64 {{%low, %high}}, {register};\n"
        f"add.cc.u32 %low, %low, {low};\n"
        f"addc.u32 %high, %high, {high};\n"
        f"mov.b64 {total}, {{%low, %high}}; }}"
    )


def _hook(before: Callable[..., Any] | None) -> Callable[..., Any]:
    """What Triton calls as it sets up how a kernel is compiled; without arguments, for a part of its cache's key."""

    def hook(*args: Any) -> Any:
        answer = ("", "") if before is None else before(*args)
        if not args:
            return tuple(f"{part}porism{RULES}" for part in answer)
        _, stages, _, _, capability = args
        if capability // 10 == 9:
            stages["ptx"] = _then_rewritten(stages["ptx"])
        return answer

    return hook


def _then_rewritten(stage: Stage) -> Stage:
    def rewriting(source: Any, metadata: Any) -> Any:
        ptx = stage(source, metadata)
        return rewritten(ptx) if "wgmma." in ptx else ptx

    return rewriting


def _version() -> tuple[int, ...]:
    """Of the assembler for Hopper GPUs; (0,) where there is none."""
    try:
        found = knobs.nvidia.ptxas
    except RuntimeError:
        return (0,)
    return tuple(int(part) for part in found.version.split("."))
