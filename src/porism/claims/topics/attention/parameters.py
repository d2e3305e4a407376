"""How many numbers attention learns, counted in the modules themselves: ours, and torch's where it has the same."""

from collections.abc import Callable

from torch import nn

from porism.claims.checks.compare import counted_equal
from porism.claims.claim import Claim, Finding, Statement
from porism.layers import Attention

WIDTHS = (1, 2, 7, 63)
HEADS = ((6, 1), (6, 3), (8, 8), (63, 7), (7, 2))
"""D and A. Heads that do not divide the width leave a rest of it unused."""


def layer(D: int, A: int = 1) -> Attention:
    """The layer as the sources write it: three projections without biases, and no W_O."""
    return Attention(D, A, bias=False, out_proj=False, head_dim=D // A, v_head_dim=D // A)


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def of_one_head(form: Callable[[int], float]) -> Finding:
    """form(D) against the parameters of a layer with one head."""
    return counted_equal((f"D={D}", size(layer(D)), form(D)) for D in WIDTHS)


def of_heads(form: Callable[[int, int], tuple[float, float]]) -> Finding:
    """form(D, A) -> (a head's, the layer's) against the parameters of a layer with A heads."""
    cases: list[tuple[str, int, float]] = []
    for D, A in HEADS:
        of_a_head, of_all = form(D, A)
        numbers = size(layer(D, A))
        cases += [(f"D={D}, A={A}, one head", numbers // A, of_a_head), (f"D={D}, A={A}, all heads", numbers, of_all)]
    return counted_equal(cases)


def _one_head(number: str, place: str, says: str, precise: str) -> Claim[Callable[[int], float]]:
    return Claim(
        id=number,
        topic="attention",
        where=place,
        says=says,
        verdict="holds",
        precise=precise,
        formulas=("3*D**2", "4*D**2", "4*D**2 + 4*D"),
        judge=of_one_head,
        stated=lambda D: 3 * D**2,
        # With a W_O.
        rival=lambda D: 4 * D**2,
    )


def _many_heads(number: str, place: str, says: str, precise: str) -> Claim[Callable[[int, int], tuple[float, float]]]:
    return Claim(
        id=number,
        topic="attention",
        where=place,
        says=says,
        verdict="holds under assumptions",
        precise=precise,
        formulas=("3*D**2/A", "3*D**2", "4*D**2", "4*D**2 + 4*D"),
        judge=of_heads,
        stated=lambda D, A: (3 * D**2 / A, 3 * D**2),
        corrected=lambda D, A: (3 * D * (D // A), 3 * D * (D // A) * A),
        assumed=lambda D, A: D % A == 0,
    )


CLAIMS: tuple[Statement, ...] = (
    _one_head(
        "000-05",
        "I.2(a)",
        "Attention with a single head, three matrices without biases and no W_O, learns 3 D^2 numbers.",
        "Whether scores are scaled makes no difference. With a W_O there are 4 D^2, and 4 D^2 + 4 D with biases too.",
    ),
    _many_heads(
        "000-06",
        "I.2(a)",
        "Without W_O each of A heads learns 3 D^2 / A numbers, and all of them 3 D^2, as many as a single head.",
        "A divides D. The layer as it was published has a W_O: 4 D^2, or 4 D^2 + 4 D with biases.",
    ),
    _one_head(
        "001-37",
        "2(a)",
        "The matrices for queries, keys and values of a single head hold 3 D^2 numbers, and that is all of them.",
        "In a layer that is written without biases and W_O, as here. With a W_O there are 4 D^2, with biases 4 D more.",
    ),
    _many_heads(
        "001-38",
        "2(a)",
        "With A heads and no matrix that combines them there are 3 D^2 / A numbers in each and 3 D^2 in all.",
        "A divides D. The cost in 2(b) does count a matrix that combines the heads; with it there are 4 D^2, and with "
        "biases 4 D more.",
    ),
)
