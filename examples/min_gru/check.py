"""Puts the layer through the contract: `python -m examples.min_gru.check`."""

from collections.abc import Mapping

from torch import Tensor

from examples.min_gru import naive
from examples.min_gru.cost import cost
from examples.min_gru.gradient import gradient
from examples.min_gru.layer import MinGRU
from porism.testing import CheckReport, check_layer


def by_loops(layer: MinGRU, x: Tensor) -> Tensor:
    return naive.min_gru(x, layer.weight_z, layer.weight_c)


def by_hand(layer: MinGRU, dy: Tensor, x: Tensor) -> Mapping[str, Tensor]:
    d = gradient(dy, x, layer.weight_z, layer.weight_c, by_loops(layer, x))
    return {"input0": d.x, "weight_z": d.weight_z, "weight_c": d.weight_c}


def check() -> CheckReport:
    return check_layer(lambda D, H: MinGRU(D, H), "T B D", naive=by_loops, gradient=by_hand, cost=cost(), on_fail=None)


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_failed()
