"""What the layer costs. The README derives every term."""

from collections.abc import Callable, Mapping

from sympy import Expr
from torch import nn

from porism.costing.alphabet import B, C, H, X, Y
from porism.costing.terms import Terms
from porism.errors import Advice, RecipeError
from porism.layers.recurrent.grid.kernels.cpu import GATES
from porism.layers.recurrent.grid.kernels.diagonals import DIRECTIONS

LARGEST = {"Y": 16, "X": 16}
"""Up to which the layer is counted: every diagonal is a diagonal of its own, so that more would take long."""

PICTURE = {"Y": 4, "X": 6}
"""The usual sizes of a drawing."""
LARGEST_PICTURE = 30


def cost(cell: str = "rnn", bias: bool = False, directions: int = 1) -> Terms:
    """The cost of `Grid(C, H, ...)` on x (B, C, Y, X), x asking for a gradient too.

    >>> cost().total("parameters")
    H*(C + 2*H)
    >>> cost().terms("flops")["left"]
    2*B*H**2*Y*(X - 1)
    """
    width = GATES[cell] * H
    # All pixels have an input; the first column has no left neighbour, the first row no top one.
    products = {
        "input": 2 * B * Y * X * C * width,
        "left": 2 * B * Y * (X - 1) * H * width,
        "top": 2 * B * (Y - 1) * X * H * width,
    }
    saved: dict[str, Expr] = {"states": B * Y * X * H}
    if cell == "lstm":
        saved |= {"gates": B * Y * X * width, "memory": B * Y * X * H}
    one = Terms(
        parameters={"input": C * width, "left": H * width, "top": H * width} | ({"bias": width} if bias else {}),
        flops=products,
        backward_flops=products | {f"{name} weights": work for name, work in products.items()},
        saved=saved,
    )
    # Every scan reads the same x.
    total = Terms(saved={"x": B * C * Y * X})
    for direction in DIRECTIONS[:directions]:
        total += one.with_prefix(direction) if directions > 1 else one
    return total


def parallel_steps() -> Expr:
    """How many diagonals wait for each other.

    >>> parallel_steps()
    X + Y - 1
    """
    return Y + X - 1


def drawing(letters: Mapping[str, int]) -> str:
    """What `porism cost grid --draw` shows: the step at which each cell can be computed, and how many are at once.

    >>> print(drawing({"Y": 2, "X": 3}))
    one direction, 2 x 3 cells: 4 steps, each a diagonal
    1 2 3
    2 3 4
    <BLANKLINE>
    cells at once, step by step: at most 2, 1.5 on average
    1 ■
    2 ■ ■
    3 ■ ■
    4 ■
    """
    unknown = [letter for letter in letters if letter not in PICTURE]
    if unknown:
        raise RecipeError(f"cost: a picture has no letter {unknown[0]} to set. It has {', '.join(PICTURE)}.")
    rows, columns = ({**PICTURE, **letters}[letter] for letter in ("Y", "X"))
    if not (1 <= rows <= LARGEST_PICTURE and 1 <= columns <= LARGEST_PICTURE):
        raise RecipeError(
            f"cost: Y={rows},X={columns} does not fit a picture. Give each from 1 to {LARGEST_PICTURE},",
            Advice("for instance --at Y=4,X=6.", "for instance Y=4, X=6."),
        )
    steps = rows + columns - 1
    wide = len(str(steps))
    front = [" ".join(f"{y + x + 1:>{wide}}" for x in range(columns)) for y in range(rows)]
    at_once = [min(step, rows, columns, steps + 1 - step) for step in range(1, steps + 1)]
    bars = [f"{step:>{wide}} {' '.join('■' * cells)}" for step, cells in enumerate(at_once, 1)]
    return "\n".join(
        [
            f"one direction, {rows} x {columns} cells: {steps} steps, each a diagonal",
            *front,
            "",
            f"cells at once, step by step: at most {max(at_once)}, {rows * columns / steps:.2g} on average",
            *bars,
        ]
    )


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost grid` counts: the layer at any widths, and its input."""
    from porism.layers.recurrent.grid.layer import Grid

    return lambda C, H: Grid(C, H), ("B C Y X",)
