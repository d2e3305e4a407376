"""What an image model costs, as named terms: C channels, Y x X pixels, V classes (or greys), H channels inside."""

from collections.abc import Mapping

from sympy import Expr, ceiling, sympify

from porism.costing.alphabet import B, C, H, V, X, Y
from porism.costing.terms import Terms
from porism.layers.recurrent.grid.cost import cost as grid_cost
from porism.tasks.images.model.downsampling import CHANNELS, WIDTHS
from porism.tasks.images.model.residual import STAGES
from porism.tasks.images.recipes import ImagesRecipe


def model_cost(recipe: ImagesRecipe) -> Terms:
    """The cost of a whole model for B images.

    >>> model_cost(RECIPES["pooled"]).at(B=1, C=1, Y=28, X=28, V=4)["flops"] // 2       # multiply-adds
    445536
    """
    match recipe.model:
        case "pooled" | "strided":
            return _downsampling(recipe.model == "pooled")
        case "residual":
            return _residual(recipe.num_layers)
        case "grid" | "convolution":
            return _stacked(recipe)
        case "complete":
            return _completing(recipe)


def _downsampling(pooled: bool) -> Terms:
    first, second = CHANNELS
    half, left = [ceiling(size / 2) for size in (Y, X)], [ceiling(size / 4) - 1 for size in (Y, X)]
    seen_first = Y * X if pooled else half[0] * half[1]
    seen_second = (half[0] - 2) * (half[1] - 2) if pooled else left[0] * left[1]
    return (
        _convolution("convolution 1", C, sympify(first), seen_first, is_first=True)
        + _convolution("convolution 2", sympify(first), sympify(second), seen_second)
        + _linear("linear 1", second * left[0] * left[1], sympify(WIDTHS[0]))
        + _linear("linear 2", *map(sympify, WIDTHS))
        + _linear("linear 3", sympify(WIDTHS[1]), V)
    )


def _residual(blocks: int) -> Terms:
    total = _convolution("stem", C, H, Y * X, bias=False, is_first=True) + Terms(parameters={"stem norm": 2 * H})
    for stage in range(STAGES):
        name, width = f"stage {stage + 1}", H * 2**stage
        pixels = ceiling(Y / 2**stage) * ceiling(X / 2**stage)
        if stage:
            before = width / 2
            total += _convolution(f"{name} entry", before, width, pixels, bias=False)
            total += _convolution(f"{name} shortcut", before, width, pixels, kernel=1, bias=False)
        inner = _convolution(name, width, width, pixels, bias=False)
        convolutions = 2 * blocks - (1 if stage else 0)
        total += _times(convolutions, inner)
        norms = 2 * blocks + (1 if stage else 0)
        total += Terms(parameters={f"{name} norms": norms * 2 * width})
    return total + _linear("head", H * 2 ** (STAGES - 1), V)


def _stacked(recipe: ImagesRecipe) -> Terms:
    rows, columns, incoming = ceiling(Y / recipe.patch_size), ceiling(X / recipe.patch_size), C * recipe.patch_size**2
    total = Terms()
    for layer in range(recipe.num_layers):
        name, before = f"layer {layer + 1}", H if layer else incoming
        if recipe.model == "convolution":
            total += _convolution(name, before, H, rows * columns, is_first=not layer)
        else:
            scan = grid_cost(_cell(recipe), bias=True, directions=recipe.directions)
            total += _placed(scan, {C: before, Y: rows, X: columns}, is_first=not layer).with_prefix(name)
        total += Terms(parameters={f"{name}.norm": 2 * H})
    return total + _linear("head", H, V)


def _cell(recipe: ImagesRecipe) -> str:
    return "lstm" if recipe.cell == "lstm" else "rnn"


def _completing(recipe: ImagesRecipe) -> Terms:
    total = Terms()
    for layer in range(recipe.num_layers):
        # Two scans, from the top left and from the top right.
        scans = grid_cost(_cell(recipe), bias=True, directions=2)
        total += _placed(scans, {C: H if layer else C + 1}, is_first=not layer).with_prefix(f"layer {layer + 1}")
    wider = _convolution("wider", H, 2 * H, Y * X, kernel=1)
    return total + wider + _convolution("readout", 2 * H, C * V, Y * X, kernel=1)


def _convolution(
    name: str, before: Expr, width: Expr, pixels: Expr, kernel: int = 3, bias: bool = True, is_first: bool = False
) -> Terms:
    """A kernel for each pair of channels at every pixel that comes out; nobody asks for the gradient of the image."""
    product = 2 * B * pixels * kernel**2 * before * width
    return Terms(
        parameters={name: kernel**2 * before * width + (width if bias else 0)},
        flops={name: product},
        backward_flops={name: product if is_first else 2 * product},
    )


def _linear(name: str, before: Expr, width: Expr) -> Terms:
    product = 2 * B * before * width
    return Terms(parameters={name: before * width + width}, flops={name: product}, backward_flops={name: 2 * product})


def _placed(scan: Terms, sizes: Mapping[Expr, Expr], is_first: bool) -> Terms:
    """A layer's cost at its place in a net: with other sizes, its corners in one, without the gradient of the image."""
    found: dict[str, dict[str, Expr]] = {kind: {} for kind in ("parameters", "flops", "backward_flops")}
    for kind, terms in found.items():
        for name, term in scan.terms(kind).items():
            product = name.rpartition(".")[2]
            if not (is_first and kind == "backward_flops" and product == "input"):
                part = product.removesuffix(" weights")
                terms[part] = terms.get(part, sympify(0)) + term.subs(sizes, simultaneous=True)
    return Terms(**found)


def _times(count: int, cost: Terms) -> Terms:
    return Terms(**{kind: {name: count * term for name, term in cost.terms(kind).items()} for kind in Terms.kinds()})
