"""What the layer costs. The README derives every term."""

from porism.cost import B, Cost, H, T, V


def cost(bias: bool = True) -> Cost:
    """The cost of `Readout(H, V)` and its loss on states (T, B, H) that ask for a gradient.

    >>> cost().total("parameters")
    V*(H + 1)
    >>> cost().total("backward") / cost().total("flops")
    2
    """
    return Cost(
        parameters={"weight": H * V} | ({"bias": V} if bias else {}),
        flops={"scores": 2 * B * T * H * V},
        backward={"states": 2 * B * T * H * V, "weight": 2 * B * T * H * V},
        # Not the scores, B T V, but the gradients themselves, which are ready after the forward pass.
        saved={"dh": B * T * H, "dweight": H * V} | ({"dbias": V} if bias else {}),
    )
