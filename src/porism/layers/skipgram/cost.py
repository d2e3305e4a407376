"""What the layer costs. The README derives every term."""

from collections.abc import Callable

from torch import nn

from porism.costing.alphabet import B, D, V
from porism.costing.terms import Terms
from porism.layers.skipgram.estimators import NEED_THE_NORMALISER


def cost(estimator: str = "full", samples: int = 5) -> Terms:
    """The cost of `SkipGram(V, D, estimator, samples)` on B pairs.

    >>> cost().total("flops")
    2*B*D*V
    >>> cost("negative", samples=5).total("flops")
    12*B*D
    >>> cost("importance", samples=5).total("flops")          # p takes all V scores
    2*B*D*(V + 6)
    """
    parameters = {"words": V * D, "contexts": V * D}
    if estimator == "full":
        return Terms(
            parameters=parameters,
            flops={"scores": 2 * B * D * V},
            backward_flops={"words": 2 * B * D * V, "contexts": 2 * B * D * V},
            # Not the scores, B V, but the gradients themselves, which are ready after the forward pass.
            saved={"indices": B, "dv": B * D, "dU": D * V, "pairs counted": 1},
        )
    rows = 1 + samples
    normaliser = {"normaliser": 2 * B * D * V} if estimator in NEED_THE_NORMALISER else {}
    return Terms(
        parameters=parameters,
        flops={"scores": 2 * B * D * rows} | normaliser,
        backward_flops={"words": 2 * B * D * rows, "contexts": 2 * B * D * rows},
        # The pairs and their samples, v, and one number for each row that is reached.
        saved={"indices": B * (1 + rows), "v": B * D, "coefficients": B * rows},
    )


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost skipgram` counts: the exact loss at any vocabulary and width, and its inputs."""
    from porism.layers.skipgram.layer import SkipGram

    return lambda V, D: SkipGram(V, D), ("B : int", "B : int")
