"""What a GPU would run, looked at as compiled: no loop overwrites what its products still read."""

import json
import os
import subprocess
import sys

import pytest
from tests import needs

needs.triton()

from tests.layers.compiled import overwritten  # noqa: E402 (imports triton)

LOOP = """
    scf.for %i = %a to %b step %c iter_args(%z = %zeros) -> (tensor<64x64xf32, #mma>) : i32 {{
      {before}
      %phi = arith.mulf %left, %right : tensor<64x64xbf16, #dot>
      %sum = ttng.warp_group_dot %phi, %state, %z {{isAsync = true}} : tensor<64x64xbf16, #dot>
      {after}
      scf.yield %sum : tensor<64x64xf32, #mma>
    }}
"""
WAIT = "%ended:2 = ttng.warp_group_dot_wait %sum, %state {{pendings = {pendings} : i32}} : tensor<64x64xf32, #mma>"


def test_a_product_that_runs_on_into_the_next_iteration_is_found() -> None:
    assert overwritten(LOOP.format(before="", after="")) == ["%sum"]
    assert overwritten(LOOP.format(before="", after=WAIT.format(pendings=1))) == ["%sum"]
    for places in ({"after": WAIT.format(pendings=0), "before": ""}, {"before": WAIT.format(pendings=0), "after": ""}):
        assert overwritten(LOOP.format(**places)) == []


@pytest.mark.sweep(0)  # some twenty seconds each
@pytest.mark.parametrize(("layer", "D"), [("series", 64), ("series", 16), ("decay", 64), ("hybrid", 64)])
def test_no_kernel_overwrites_a_factor_of_a_product_that_has_not_ended(layer: str, D: int) -> None:
    command = [sys.executable, "-m", "tests.layers.compiled", layer, str(D)]
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, cwd=needs.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "reach_keys" in found
    assert {kernel: products for kernel, products in found.items() if products} == {}
