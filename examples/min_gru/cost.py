"""What minGRU costs, by hand: products in both directions, and what is kept between them."""

from porism.costing.alphabet import B, D, H, T
from porism.costing.terms import Terms


def cost() -> Terms:
    product = 2 * B * T * D * H
    return Terms(
        parameters={"weight_z": D * H, "weight_c": D * H},
        flops={"gates": product, "candidates": product},
        backward_flops={
            "gates again": product,
            "candidates again": product,
            "dx": 2 * product,
            "dWz": product,
            "dWc": product,
        },
        saved={"x": B * T * D, "states": B * T * H},
    )
