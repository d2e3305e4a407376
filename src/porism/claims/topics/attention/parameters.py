"""How many numbers attention learns, counted in the modules themselves: ours, and torch's where it has the same."""

from collections.abc import Callable, Iterator

from torch import nn

from porism.claims.checks.compare import counted_equal, where
from porism.claims.claim import Claim, Finding, Statement
from porism.layers import Attention

Sizes = tuple[int, int, bool, bool]
"""D, A, whether there are biases, whether there is a W_O."""


def layers(*shapes: tuple[int, int]) -> Iterator[tuple[str, Sizes, Attention]]:
    """Layers of a width and a number of heads, each with and without biases and W_O."""
    for D, A in shapes:
        for bias, out_proj in ((False, False), (True, False), (False, True), (True, True)):
            # Heads that do not divide the width leave a rest of it unused.
            layer = Attention(D, A, bias=bias, out_proj=out_proj, head_dim=D // A, v_head_dim=D // A)
            extras = [name for name, there in (("biases", bias), ("W_O", out_proj)) if there]
            yield f"D={D}, A={A}, {' and '.join(extras) or 'projections only'}", (D, A, bias, out_proj), layer


def size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def of_one_head(form: Callable[..., float]) -> Finding:
    """form(D, 1, bias, out_proj) against the parameters of a layer with one head."""
    return counted_equal((name, size(layer), form(*sizes)) for name, sizes, layer in layers((1, 1), (2, 1), (7, 1)))


def of_heads(form: Callable[..., tuple[float, float]]) -> Finding:
    """form(D, A, bias, out_proj) -> (a head's, the layer's) against the parameters of a layer, and of torch's."""
    cases: list[tuple[str, int, float]] = []
    for name, (D, A, bias, out_proj), layer in layers((6, 1), (6, 3), (8, 8), (63, 7), (7, 2)):
        of_a_head, of_all = form(D, A, bias, out_proj)
        projections = sum(parameter.numel() for parameter in layer.parameters(recurse=False))
        cases += [(f"{name}, one head", projections // A, of_a_head), (f"{name}, all heads", size(layer), of_all)]
        if out_proj and D % A == 0:
            cases += [(f"{name}, torch", size(nn.MultiheadAttention(D, A, bias=bias)), of_all)]
    return counted_equal(cases)


def _three_squares(D: int, A: int, bias: bool, out_proj: bool) -> float:
    return 3 * D**2


def _all_of_one_head(D: int, A: int, bias: bool, out_proj: bool) -> float:
    return 3 * D**2 + 3 * D * bias + (D**2 + D * bias) * out_proj


def _split_evenly(D: int, A: int, bias: bool, out_proj: bool) -> tuple[float, float]:
    return 3 * D**2 / A, 3 * D**2


def _all_of_heads(D: int, A: int, bias: bool, out_proj: bool) -> tuple[float, float]:
    H = D // A
    head = 3 * (D + bias) * H
    return head, A * head + (A * H + bias) * D * out_proj


def _projections_only(D: int, A: int, bias: bool, out_proj: bool) -> bool:
    return not bias and not out_proj and D % A == 0


def _one_head(number: str, place: str, says: str, precise: str) -> Claim[Callable[..., float]]:
    return Claim(
        id=number,
        topic="attention",
        where=place,
        says=says,
        verdict="holds under assumptions",
        precise=precise,
        formulas=("3*D**2",),
        judge=of_one_head,
        stated=_three_squares,
        corrected=where(_projections_only, _three_squares, _all_of_one_head),
    )


def _many_heads(number: str, place: str, says: str, precise: str) -> Claim[Callable[..., tuple[float, float]]]:
    return Claim(
        id=number,
        topic="attention",
        where=place,
        says=says,
        verdict="holds under assumptions",
        precise=precise,
        formulas=("3*D**2/A", "3*D**2", "4*D**2", "4*D**2 + 4*D"),
        judge=of_heads,
        stated=_split_evenly,
        corrected=where(_projections_only, _split_evenly, _all_of_heads),
    )


CLAIMS: tuple[Statement, ...] = (
    _one_head(
        "000-05",
        "I.2(a)",
        "Attention with a single head learns 3 D^2 numbers.",
        "The projections have no biases, and no W_O follows. Whether scores are scaled makes no difference.",
    ),
    _many_heads(
        "000-06",
        "I.2(a)",
        "Each of A heads learns 3 D^2 / A numbers, and all of them 3 D^2, as many as a single head.",
        "A divides D, the projections have no biases, and no W_O follows. The layer as it was published has a W_O: "
        "4 D^2, or 4 D^2 + 4 D with biases.",
    ),
    _one_head(
        "001-37",
        "2(a)",
        "The matrices for queries, keys and values of a single head hold 3 D^2 numbers, and that is all of them.",
        "There are no biases and no W_O.",
    ),
    _many_heads(
        "001-38",
        "2(a)",
        "With A heads there are 3 D^2 / A numbers in each and 3 D^2 in all.",
        "A divides D, there are no biases, and no matrix combines the heads. The cost in 2(b) does count a matrix that "
        "combines them; with it there are 4 D^2.",
    ),
)
