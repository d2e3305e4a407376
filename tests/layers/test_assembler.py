"""Code for Hopper GPUs is rewritten around faults of old assemblers, and adds up to the same."""

import random
import re
from typing import Any

import pytest
from tests import needs

needs.triton()

from triton import knobs  # noqa: E402

from porism.layers.kernels import assembler, run_on  # noqa: E402 (imports triton)

DESCRIPTORS = -9223371899415822272, 4611686293305294850
"""A step along a factor whose rows are 64 bytes long, and along one of rows of 128."""
CODE = f"""
	wgmma.fence.sync.aligned;
	or.b64 	%rd7, %rd8, -9223371899415822336;
	add.s64 	%rd9, %rd8, {DESCRIPTORS[0]};
	add.s64 	%rd10, %rd8, {DESCRIPTORS[1]};
	add.s64 	%rd11, %rd8, -32;
	add.s64 	%rd12, %rd9, %rd10;
"""
WORD = 1 << 32


def run(code: str, register: int) -> int:
    """What the instructions of a rewritten sum leave in %rd2, of what %rd1 holds."""
    values, carry = {"%rd1": register}, 0
    for name, *operands in re.findall(
        r"^(add\w*\.(?:cc\.)?u32|mov\.b64) ([^,{]+|\{[^}]+\}), ([^;]+);", code, re.MULTILINE
    ):
        target, of = operands
        if name == "mov.b64" and target.startswith("{"):
            values["%low"], values["%high"] = values[of] % WORD, values[of] // WORD
        elif name == "mov.b64":
            values[target] = values["%low"] + values["%high"] * WORD
        else:
            left, right = of.split(", ")
            total = values[left] + int(right) + (carry if name == "addc.u32" else 0)
            values[target], carry = total % WORD, total // WORD
    return values["%rd2"]


def test_a_rewritten_sum_is_the_sum() -> None:
    draw = random.Random(0)
    for _ in range(1_000):
        constant = draw.choice([*DESCRIPTORS, draw.choice([1, -1]) * draw.randrange(1 << 40, 1 << 63)])
        register = draw.choice([draw.randrange(1 << 14), draw.randrange(1 << 64), WORD - 1, 0])
        found = assembler.rewritten(f"add.s64 %rd2, %rd1, {constant};")
        assert "add.s64" not in found
        assert run(found, register) == (register + constant) % (1 << 64)


def test_no_other_code_is_touched() -> None:
    before, after = CODE.splitlines(), assembler.rewritten(CODE).splitlines()
    sums = [line for line in before if any(str(descriptor) in line for descriptor in DESCRIPTORS)]
    assert [line for line in after if line in before] == [line for line in before if line not in sums]
    assert len(after) == len(before) + 4 * len(sums)


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Triton's settings with an assembler of CUDA 12.8, and no interpreter."""
    monkeypatch.setattr(assembler, "_version", lambda: (12, 8))
    monkeypatch.setattr(knobs.runtime, "interpret", False)
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)
    return knobs.runtime


def stages_for(runtime: Any, capability: int) -> dict[str, Any]:
    """The stages of compilation, as Triton has them set up."""
    stages = {"ptx": lambda source, metadata: source}
    runtime.add_stages_inspection_hook(None, stages, None, None, capability)
    return stages


def test_with_an_old_assembler_code_for_hopper_is_rewritten(old: Any) -> None:
    assembler.rewrite_what_is_assembled()
    assert stages_for(old, 90)["ptx"](CODE, {}) == assembler.rewritten(CODE) != CODE
    assert stages_for(old, 80)["ptx"](CODE, {}) == CODE
    without_products = CODE.replace("wgmma", "mma")
    assert stages_for(old, 90)["ptx"](without_products, {}) == without_products


def test_whoever_looked_at_the_stages_before_still_does(old: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def before(*args: Any) -> Any:
        seen.append(args)
        return "key", "hash"

    monkeypatch.setattr(old, "add_stages_inspection_hook", before)
    assembler.rewrite_what_is_assembled()
    assert stages_for(old, 90)["ptx"](CODE, {}) == assembler.rewritten(CODE)
    assert seen[0][4] == 90
    # What is compiled so is kept apart from what was compiled otherwise.
    key, digest = old.add_stages_inspection_hook()
    assert key.startswith("key")
    assert digest.startswith("hash")
    assert (key, digest) != ("key", "hash")


def test_a_sound_assembler_gets_what_was_written(old: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler, "_version", lambda: (12, 9))
    assembler.rewrite_what_is_assembled()
    assert old.add_stages_inspection_hook is None
    assert assembler.can_be_trusted()


@pytest.mark.parametrize(("capability", "runs"), [((8, 0), True), ((9, 0), False), ((10, 0), True)])
def test_hopper_gpus_do_without_kernels_where_code_cannot_be_rewritten(
    capability: tuple[int, int], runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from porism.layers import kernels

    monkeypatch.setattr(assembler, "can_be_trusted", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    kernels._is_supported.cache_clear()
    try:
        assert run_on(torch.device("cuda"), torch.bfloat16) is runs
    finally:
        kernels._is_supported.cache_clear()
