"""A recurrent net on a grid, h[i,j] = sigma(W_in x[i,j] + W_left h[i-1,j] + W_top h[i,j-1]): the layer `grid`."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

import porism.claims.topics.images.rulings as rulings
from porism.claims.checks.compare import compared, counted_equal, tried
from porism.claims.checks.count import Maker, Matrix, Noted, Tally, Vector, product, tallied
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.kept.experiments import EXPERIMENTS
from porism.layers.recurrent.grid import Grid, grid
from porism.runs.exhibits import Lines

SIZES = ((1, 2), (3, 5), (7, 2))
"""Channels and hidden width, C and H."""
SIDES = (1, 2, 4)


def parameters(form: Callable[[int, int], int]) -> Finding:
    """form(C, H) against the numbers in the layer's parameters."""
    return counted_equal((_at(C, H), _parameters(C, H), form(C, H)) for C, H in SIZES)


def product_with_pixel(form: Callable[[int, int], tuple[int, int]]) -> Finding:
    """A matrix of shape form(C, H), times a pixel as a column, against the layer's own product."""

    def layer_shape(C: int, H: int) -> torch.Size:
        return Grid(C, H).get_parameter("weight_in").shape

    def times_pixel(C: int, H: int) -> Tensor:
        return torch.ones(form(C, H)) @ torch.ones(C)

    return compared(
        (_at(C, H), functional.linear(torch.ones(C), torch.ones(layer_shape(C, H))), tried(times_pixel, C, H))
        for C, H in (*SIZES, (3, 3))
    )


class GridWeights(NamedTuple):
    """As row vectors are multiplied: C by H, H by H, H by H."""

    into: Matrix
    left: Matrix
    top: Matrix


def scalar_scan(image: list[list[Vector]], weights: GridWeights, outside: Vector) -> list[list[Vector]]:
    """All states of an image, rows of pixels, number by number; `outside` stands for what lies beyond its edges."""
    states: list[list[Vector]] = []
    for j, row in enumerate(image):
        states.append([])
        for i, pixel in enumerate(row):
            left, top = states[j][i - 1] if i else outside, states[j - 1][i] if j else outside
            parts = [product([x], W)[0] for x, W in ((pixel, weights.into), (left, weights.left), (top, weights.top))]
            states[j].append([(a + b + c).sigmoid() for a, b, c in zip(*parts, strict=True)])
    return states


def scan_tally(n: int, C: int, H: int) -> Tally:
    """Of an n x n image with zeros around it."""

    def program(made: Maker) -> object:
        weights = GridWeights(made.matrix(C, H), made.matrix(H, H), made.matrix(H, H))
        return scalar_scan([made.matrix(n, C) for _ in range(n)], weights, [Noted(0.0, made.tally)] * H)

    return tallied(program)


def operations_of_cell(form: Callable[[int, int], tuple[int, int, int]]) -> Finding:
    """form(C, H) against the multiplications, additions and sigmas of one cell, counted one by one."""
    cases = []
    for C, H in SIZES:
        found = scan_tally(1, C, H)
        kinds = zip(("multiplications", "additions", "sigmas"), (found.mul, found.add, found.sigma), strict=True)
        cases += [
            (f"{_at(C, H)}, {kind}", true, stated) for (kind, true), stated in zip(kinds, form(C, H), strict=True)
        ]
    return counted_equal(cases)


def parameters_and_operations(form: Callable[[int, int, int], tuple[int, int]]) -> Finding:
    """form(n, C, H) against the parameters that the layer has on an n x n image, and what it adds and multiplies."""
    cases = []
    for n in SIDES:
        for C, H in SIZES:
            found, (said_parameters, said_operations) = scan_tally(n, C, H), form(n, C, H)
            cases += [
                (f"n={n}, {_at(C, H)}, parameters", _parameters(C, H), said_parameters),
                (f"n={n}, {_at(C, H)}, operations", found.add + found.mul, said_operations),
            ]
    return counted_equal(cases)


def influence(rows: int, columns: int, C: int = 2, H: int = 3) -> Tensor:
    """(Y, X, Y, X), True where the state of the first place changes with the pixel of the second, by autograd."""
    draw = torch.Generator().manual_seed(rows * columns)
    W_in, W_left, W_top = (torch.randn(H, width, generator=draw, dtype=torch.float64) for width in (C, H, H))
    x = torch.randn(1, C, rows, columns, generator=draw, dtype=torch.float64, requires_grad=True)
    states = grid(x, W_in, W_left, W_top)[0].sum(0)  # Y X
    found = [torch.autograd.grad(state, x, retain_graph=True)[0][0].abs().sum(0) > 0 for state in states.flatten()]
    return torch.stack(found).view(rows, columns, rows, columns)


def seen_pixels(form: Callable[[int, int, int, int], bool]) -> Finding:
    """form(j, i, row, column) against whether the state in row j and column i changes with that pixel."""
    Y, X = 3, 4
    stated = [form(j, i, row, column) for j in range(Y) for i in range(X) for row in range(Y) for column in range(X)]
    return compared([("3 x 4", influence(Y, X).flatten(), torch.tensor(stated))])


def number_of_seen_pixels(form: Callable[[int, int], int]) -> Finding:
    """form(j, i) against how many pixels the state in row j and column i changes with, in one layer."""
    Y, X = 4, 5
    seen = influence(Y, X).sum((2, 3))
    return counted_equal((f"row {j}, column {i}", int(seen[j, i]), form(j, i)) for j in range(Y) for i in range(X))


def dependent_steps(form: Callable[[str, int, int], int]) -> Finding:
    """form(net, Y, X) against the longest chain of outputs each of which needs the one before, of two nets.

    A convolution's outputs need pixels and no other output.
    """
    cases = []
    for rows, columns in ((1, 1), (1, 7), (3, 3), (2, 4)):
        cells = rows * columns
        needs = {"grid": influence(rows, columns).view(cells, cells), "convolution": torch.eye(cells, dtype=torch.bool)}
        for net, needed in needs.items():
            steps = max(turns_of(needed))
            cases.append((f"{net}, {rows} x {columns}, steps", steps, form(net, rows, columns)))
    return counted_equal(cases)


def turns_of(needs: Tensor) -> list[int]:
    """When each state's turn comes: one step after the last of those it needs, which stand before it."""
    turns: list[int] = []
    for place, needed in enumerate(needs):
        turns.append(1 + max((turns[other] for other in range(place) if needed[other]), default=0))
    return turns


def corner_to_corner(n: int, H: int = 4, scale: float = 4.0) -> tuple[float, float]:
    """The norm of the last state's derivative by the first state on an n x n grid, and its bound."""
    draw = torch.Generator().manual_seed(1)
    W_left, W_top = (scale * torch.randn(H, H, generator=draw, dtype=torch.float64) / H**0.5 for _ in range(2))
    x = torch.randn(H, n, n, generator=draw, dtype=torch.float64)
    eye = torch.eye(H, dtype=x.dtype)

    def last(first_pixel: Tensor) -> Tensor:
        image = torch.cat([first_pixel[:, None], x.flatten(1)[:, 1:]], 1).view(1, H, n, n)
        return grid(image, eye, W_left, W_top)[0, :, -1, -1]

    by_pixel = torch.stack([_gradient(last, x[:, 0, 0], unit) for unit in range(H)])
    # The first state is the sigma of its pixel, as W_in is the identity: that slope is taken out.
    slope = torch.sigmoid(x[:, 0, 0]) * torch.sigmoid(-x[:, 0, 0])
    left, top = (float(torch.linalg.matrix_norm(W, 2)) for W in (W_left, W_top))
    return float(torch.linalg.matrix_norm(by_pixel / slope, 2)), _bound(n, left, top)


def bound_is_reached() -> Finding:
    """How far the derivative from corner to corner is from its bound, where all sigmas are at their steepest; infinite
    where it is beyond the bound with weights by chance."""
    shares = {n: found / bound for n in (2, 4, 6) for found, bound in [corner_to_corner(n)]}
    seen = ", ".join(f"n={n}: {share:.1e}" for n, share in shares.items())
    if max(shares.values()) > 1 + 1e-12:
        return Finding(math.inf, 1e-12, f"derivative over its bound, {seen}")
    apart = max(abs(steepest_from_corner(n, 1.5, 0.5) / _bound(n, 1.5, 0.5) - 1) for n in (1, 2, 4, 6))
    return Finding(apart, 1e-12, f"derivative over its bound: 1 where sigmas are at their steepest; by chance {seen}")


def steepest_from_corner(n: int, w_left: float, w_top: float) -> float:
    """The derivative of the last state by the first of a grid one wide, whose pixels bring every sum to zero.

    The first state is the sigma of its pixel: that slope, 1/4, is taken out.
    """
    x = torch.full((1, 1, n, n), -(w_left + w_top) / 2, dtype=torch.float64)
    # A cell at the edge has one state before it, or none; all states are 1/2.
    x[..., 0, :] = -w_left / 2
    x[..., :, 0] = -w_top / 2
    x[..., 0, 0] = 0.0
    W_in, W_left, W_top = (torch.tensor([[w]], dtype=torch.float64) for w in (1.0, w_left, w_top))

    def last(first: Tensor) -> Tensor:
        return grid(torch.cat([first[None], x.flatten()[1:]]).view_as(x), W_in, W_left, W_top)[0, :, -1, -1]

    return 4 * float(_gradient(last, x[0, 0, 0, 0], 0))


def _bound(n: int, w_left: float, w_top: float) -> float:
    return math.comb(2 * n - 2, n - 1) * (w_left * w_top / 16) ** (n - 1)


def _gradient(of: Callable[[Tensor], Tensor], at: Tensor, unit: int) -> Tensor:
    at = at.clone().requires_grad_()
    return torch.autograd.grad(of(at)[unit], at)[0]


def _parameters(C: int, H: int) -> int:
    return sum(parameter.numel() for parameter in Grid(C, H).parameters())


def _at(C: int, H: int) -> str:
    return f"C={C}, H={H}"


def _fading() -> Lines:
    scales = {f"weights of scale {scale:g}": [(n, corner_to_corner(n, scale=scale)) for n in range(2, 11)]
              for scale in (1.0, 4.0)}  # fmt: skip
    return Lines(
        title="The derivative from corner to corner",
        about="Of the last state by the first one on an n x n grid, with random weights: many paths, each faint.",
        x="n",
        y="norm of the derivative",
        lines={name: [(float(n), found) for n, (found, _) in points] for name, points in scales.items()},
        log_y=True,
    )


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="004-01",
        topic="images",
        where="1",
        says="The recurrent net on a grid has 2 H^2 + H C parameters.",
        verdict="holds",
        precise="No bias, and all cells share their weights.",
        formulas=("2*H**2 + H*C",),
        judge=parameters,
        stated=lambda C, H: 2 * H**2 + H * C,
        rival=lambda C, H: 2 * H**2 + H * C + H,
    ),
    Claim(
        id="004-02",
        topic="images",
        where="1",
        says="The matrix for the input is C x H.",
        verdict="imprecise",
        precise="It is H x C where it multiplies a column, W_in x, as in the source; C x H is for rows, x W_in.",
        judge=product_with_pixel,
        stated=lambda C, H: (C, H),
        corrected=lambda C, H: (H, C),
        right_where=lambda C, H: C == H,
        computable=False,
    ),
    Claim(
        id="004-03",
        topic="images",
        where="1",
        says="A cell takes three products of a matrix and a vector, O(H^2 + H C).",
        verdict="holds",
        precise="The additions are H fewer than the multiplications, and there are H sigmas.",
        formulas=("2*H**2 + H*C", "2*H**2 + H*C - H", "H"),
        judge=operations_of_cell,
        stated=lambda C, H: (2 * H**2 + H * C, 2 * H**2 + H * C - H, H),
        rival=lambda C, H: (H**2 + H * C, H**2 + H * C - H, H),
    ),
    Claim(
        id="004-04",
        topic="images",
        where="1",
        says="On an n x n image the net has O(n^2 H^2 + n^2 H C) parameters to train.",
        verdict="wrong",
        precise=(
            "That is the number of operations, with zeros around the image; leaving those out saves 4 n H^2. The "
            "parameters are shared by all cells and stay 2 H^2 + H C, whatever n."
        ),
        formulas=("n**2*(4*H**2 + 2*H*C - H)", "2*H**2 + H*C"),
        judge=parameters_and_operations,
        stated=lambda n, C, H: (n**2 * (2 * H**2 + H * C), n**2 * (4 * H**2 + 2 * H * C - H)),
        corrected=lambda n, C, H: (2 * H**2 + H * C, n**2 * (4 * H**2 + 2 * H * C - H)),
        right_where=lambda n, C, H: n == 1,
    ),
    Claim(
        id="004-05",
        topic="images",
        where="1",
        says="Its features have a direction: they depend on what lies on one side of a pixel.",
        verdict="holds",
        precise="On the rectangle from the first corner to the pixel, all of it and no more.",
        judge=seen_pixels,
        stated=lambda j, i, row, column: row <= j and column <= i,
        rival=lambda j, i, row, column: (row, column) <= (j, i),
    ),
    Claim(
        id="004-06a",
        topic="images",
        where="1",
        says="Each state knows its context.",
        verdict="holds",
        precise="In one layer the context is a whole rectangle, where a convolution sees its kernel.",
        judge=number_of_seen_pixels,
        stated=lambda j, i: (j + 1) * (i + 1),
        # What a 3 x 3 convolution would see of the same rectangle.
        rival=lambda j, i: min(j + 1, 2) * min(i + 1, 2),
    ),
    Empirical(
        id="004-06b",
        topic="images",
        where="1",
        says="So the net suits the completion of images.",
        precise=(
            "Beside it stand an LSTM over the pixels in the order of a text and masked convolutions, with as many "
            "parameters and epochs and the same rates to choose from on valid. Equal epochs are not equal time: one of "
            "the scans takes several times as long. All nets were still improving after the last."
        ),
        way="other data",
        reason="The source names no images: those at hand.",
        command=EXPERIMENTS["completion-question"].command,
        kept="completion-question",
        rule=rulings.grid_completes_better,
    ),
    Empirical(
        id="004-07",
        topic="images",
        where="1",
        says="The net is much harder to train, since it has to be unrolled over the whole image.",
        precise=(
            "From corner to corner lead C(2n - 2, n - 1) paths, and each passes 2n - 2 sigmas, whose slope is 1/4 at "
            "most: the derivative is bounded by C(2n - 2, n - 1) (|W_left| |W_top| / 16)^(n - 1), and reaches that "
            "where all sigmas are at their steepest."
        ),
        formulas=("binomial(2*n - 2, n - 1)*(w_left*w_top/16)**(n - 1)",),
        picture=_fading,
        way="other data",
        reason="The source names no images: the loss on train after the same epochs, on those at hand.",
        command=EXPERIMENTS["grid-question"].command,
        kept="grid-question",
        rule=rulings.grid_learns_less,
        known=bound_is_reached,
    ),
    Claim(
        id="004-08",
        topic="images",
        where="1",
        says=(
            "Other than a convolution, the net is not easily computed in parallel, as a cell waits for those before it."
        ),
        verdict="holds",
        precise=(
            "Cells of an anti-diagonal do not wait for each other: an n x n image takes 2n - 1 steps, one after the "
            "other, with up to n cells at once. That is less than n^2 and more than the single step of a convolution."
        ),
        formulas=("Y + X - 1",),
        judge=dependent_steps,
        stated=lambda net, Y, X: Y + X - 1 if net == "grid" else 1,
        # All at once.
        rival=lambda net, Y, X: 1,
    ),
)
