"""Two nets that make images smaller, one by pools and one by strides: the task's own, for four classes."""

import math
from collections.abc import Callable
from itertools import pairwise, permutations
from statistics import NormalDist

import torch
from torch import Tensor, nn
from torch.nn import functional

import porism.claims.topics.images.rulings as rulings
from porism.claims.checks.compare import answered, counted_equal
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.kept.experiments import EXPERIMENTS
from porism.tasks.images.catalogue import PUBLIC
from porism.tasks.images.data.image_set import Shape
from porism.tasks.images.model.downsampling import CHANNELS, WIDTHS, Downsampling
from porism.tasks.images.recipes import PUBLISHED, PUBLISHED_LEARNING_RATE, PUBLISHED_PARAMETERS

CLASSES = 4
SIZES = (28, 8, 63)
"""Rows and columns of images."""
OWN_LAYOUT = (1, 0)
"""The paddings of the task's two convolutions."""
COMMAND = EXPERIMENTS["pooling-question"].command
OTHER_DATA = (
    "The source's images, OCTMNIST, are not at hand: other images stand in for them. On them it would be decided by "
    "porism compare images pooling-question --data octmnist --set test_subset=as-train "
    f"({PUBLIC['octmnist'].files['all'].url})."
)

ON_OCTMNIST = EXPERIMENTS["octmnist-accuracies"].command
OCTMNIST = f"The source's images, OCTMNIST: {PUBLIC['octmnist'].files['all'].url}."

NOWHERE = torch.device("meta")
"""Where nets have their sizes and no numbers: they are counted only."""


def net(pooled: bool, size: int) -> nn.Sequential:
    with NOWHERE:
        return Downsampling(Shape(1, size, size), CLASSES, pooled, dropout=0.0).net


def without_downsampling(size: int) -> nn.Sequential:
    """The pooled net with its pools taken out, and a linear layer for all that comes then."""
    layers: list[nn.Module] = [layer for layer in net(True, size) if not isinstance(layer, nn.MaxPool2d)]
    first = next(place for place, layer in enumerate(layers) if isinstance(layer, nn.Linear))
    layers[first] = nn.LazyLinear(WIDTHS[0], device=NOWHERE)
    whole = nn.Sequential(*layers)
    whole(torch.zeros(1, 1, size, size, device=NOWHERE))
    return whole


def numbers_in(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def layout(pooled: bool, padding: tuple[int, int]) -> nn.Sequential:
    """The net with other paddings of its two convolutions, (1, 0) being the task's own."""
    stride = 1 if pooled else 2
    layers: list[nn.Module] = []
    for before, after, pad in zip((1, CHANNELS[0]), CHANNELS, padding, strict=True):
        layers += [nn.Conv2d(before, after, 3, stride, pad), nn.ReLU(), *([nn.MaxPool2d(2)] if pooled else [])]
    layers.append(nn.Flatten())
    with NOWHERE:
        convolutions = nn.Sequential(*layers).to(NOWHERE)
        left = convolutions(torch.zeros(1, 1, 28, 28)).shape[1]
        widths = [left, *WIDTHS, CLASSES]
        linear = [nn.Linear(before, after) for before, after in pairwise(widths)]
    return nn.Sequential(*convolutions, *linear)


def parameters(form: Callable[[bool, tuple[int, int]], int]) -> Finding:
    """form(pooled, padding) against the numbers in the parameters of nets on 28 x 28: the task's, and other layouts."""
    own = [(f"{name}, {OWN_LAYOUT}", numbers_in(net(pooled, 28)), form(pooled, OWN_LAYOUT)) for name, pooled in _NETS]
    others = [
        (f"{name}, paddings {padding}", numbers_in(layout(pooled, padding)), form(pooled, padding))
        for name, pooled in _NETS
        for padding in ((0, 0), (1, 1), OWN_LAYOUT)
    ]
    return counted_equal(own + others)


def parameters_saved(form: Callable[[int, int], int]) -> Finding:
    """form(stride, size) against how many parameters pools save, compared with convolutions of that stride alone."""
    return counted_equal(
        (f"{size} x {size}, against a stride of {stride}", numbers_in(other) - numbers_in(net(True, size)), stated)
        for size in SIZES
        for stride, other, stated in (
            (1, without_downsampling(size), form(1, size)),
            (2, net(False, size), form(2, size)),
        )
    )


SHRINK: dict[str, Callable[[Tensor], Tensor]] = {
    "maxima": lambda image: functional.max_pool2d(image, 2),
    "means": lambda image: functional.avg_pool2d(image, 2),
    "every second pixel": lambda image: image[..., ::2, ::2],
}


def change_by_shift(way: str, pixels: int) -> float:
    """How far noise that is shrunk in this way changes when it moves by so many pixels before.

    Changes are in units of the shrunk image's deviation. What moved by whole pixels of the small image is moved back.
    """
    noise = torch.rand(1, 1, 600, 600, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    before, after = SHRINK[way](noise), SHRINK[way](noise.roll(pixels, -1)).roll(-(pixels // 2), -1)
    return float((after - before).square().mean().sqrt() / before.std())


def changes_less(form: Callable[[str, str], bool]) -> Finding:
    """form(way, other way) against which of two ways to shrink noise changes less when it moves by one pixel.

    90,000 small pixels tell a change to about 0.3 %, and less than a hundredth is no difference.
    """
    changes = {way: change_by_shift(way, 1) for way in ("maxima", "every second pixel")}
    found = answered(
        (f"Do {one} ({changes[one]:.3f}) change less than {other} ({changes[other]:.3f})?",
         changes[one] < 0.99 * changes[other], form(one, other))
        for one, other in permutations(changes, 2)
    )  # fmt: skip
    return Finding(found.measured, found.tolerance, f"{found.evidence}; {changes}")


def smallest_test_set() -> tuple[int, int, int]:
    """Images, and how many of them either net got right, as few as fit the accuracies that were published."""
    pooled, strided = (PUBLISHED[name]["test"]["accuracy"] for name in ("pooled", "strided"))
    images = 1
    while any(round(round(share * images) / images, 4) != share for share in (pooled, strided)):
        images += 1
    return images, round(pooled * images), round(strided * images)


def difference_of_accuracies() -> Finding:
    """How many standard errors lie between the published accuracies, on the smallest test set that fits them."""
    images, pooled, strided = smallest_test_set()
    both = (pooled + strided) / (2 * images)
    z = (pooled - strided) / images / math.sqrt(2 * both * (1 - both) / images)
    evidence = f"{pooled} and {strided} right of {images}: {pooled - strided} images apart, z = {z:.2f}"
    # Written so that a pooled net that did worse is no such fact.
    return Finding(z if z > 0 else math.inf, NormalDist().inv_cdf(0.975), evidence)


_NETS = (("pooled", True), ("strided", False))
_IMAGES, _POOLED, _STRIDED = smallest_test_set()


def _all_parameters(pooled: bool, padding: tuple[int, int]) -> int:
    """Of the net whose convolutions have these paddings, on 28 x 28."""
    first, second = CHANNELS
    left = 28
    for pad in padding:
        # 3 x 3 takes two rows away, then half are left: rounded down by a pool, up by a stride
        rows = left + 2 * pad - 2
        left = rows // 2 if pooled else -(-rows // 2)
    widths = [second * left**2, *WIDTHS, CLASSES]
    linear = sum((before + 1) * width for before, width in pairwise(widths))
    return (9 + 1) * first + (9 * first + 1) * second + linear


def _left(stride: int, size: int) -> int:
    """Rows after both convolutions of this stride, the second of which takes two away before it strides."""
    behind_first = math.ceil(size / stride)
    return math.ceil((behind_first - 2) / stride)


def _saved(stride: int, size: int) -> int:
    return CHANNELS[1] * WIDTHS[0] * (_left(stride, size) ** 2 - _left(2, size) ** 2)


CLAIMS: tuple[Statement, ...] = (
    Empirical(
        id="002-20",
        topic="images",
        where="2.1",
        says=f"With pools a learning rate of {PUBLISHED_LEARNING_RATE} does best.",
        way="other data",
        reason=OTHER_DATA,
        command=COMMAND,
        kept="pooling-question",
        rule=rulings.best_rate("pooled"),
    ),
    Empirical(
        id="002-21",
        topic="images",
        where="2.2",
        says=f"Without pools {PUBLISHED_LEARNING_RATE} does best too.",
        way="other data",
        reason=OTHER_DATA,
        command=COMMAND,
        kept="pooling-question",
        rule=rulings.best_rate("strided"),
    ),
    Claim(
        id="002-22",
        topic="images",
        where="2.3",
        says="The nets do differently because pools save parameters.",
        verdict="wrong",
        precise=(
            "A pool has no parameters, and a stride of 2 leaves as many pixels as a pool does, so that both "
            "nets have the same. Pools save parameters only against a net that does not make images smaller at all."
        ),
        judge=parameters_saved,
        stated=lambda stride, size: _saved(1, size),
        corrected=_saved,
        right_where=lambda stride, size: stride == 1,
    ),
    Empirical(
        id="003-35a",
        topic="images",
        where="2.1",
        says=f"A learning rate of {PUBLISHED_LEARNING_RATE} does best.",
        way="other data",
        reason=OTHER_DATA,
        command=COMMAND,
        kept="pooling-question",
        rule=rulings.best_rate("pooled"),
    ),
    Empirical(
        id="003-35b",
        topic="images",
        where="2.1",
        says=f"At that rate its accuracy on test data is {PUBLISHED['pooled']['test']['accuracy']:.4f}.",
        command=ON_OCTMNIST,
        needs=OCTMNIST,
        kept="octmnist-accuracies",
        rule=rulings.reaches_published("pooled"),
    ),
    Empirical(
        id="003-36a",
        topic="images",
        where="2.2",
        says="Without pools the net does slightly worse.",
        precise=(
            f"Both accuracies fit a test set of {_IMAGES} images, the smallest that they fit: {_POOLED} and {_STRIDED} "
            "right. A difference of so few images is within chance; a paired test over several seeds decides."
        ),
        way="other data",
        reason=OTHER_DATA,
        command=COMMAND,
        kept="pooling-question",
        rule=rulings.strides_are_worse,
        known=difference_of_accuracies,
    ),
    Empirical(
        id="003-36b",
        topic="images",
        where="2.2",
        says=f"Without pools its accuracy is {PUBLISHED['strided']['test']['accuracy']:.4f}.",
        command=ON_OCTMNIST,
        needs=OCTMNIST,
        kept="octmnist-accuracies",
        rule=rulings.reaches_published("strided"),
    ),
    Claim(
        id="003-37",
        topic="images",
        where="2.3",
        says=f"Both nets have {PUBLISHED_PARAMETERS:,} parameters.",
        verdict="holds under assumptions",
        precise=(
            f"They are laid out with 3 x 3 convolutions to {CHANNELS[0]} and {CHANNELS[1]} channels, the first one "
            f"padded, and linear layers to {WIDTHS[0]}, {WIDTHS[1]} and {CLASSES} numbers: a layout that was searched "
            "for to give this number, since the source has none. With other paddings the nets do not even have the "
            "same."
        ),
        judge=parameters,
        stated=lambda pooled, padding: PUBLISHED_PARAMETERS,
        corrected=_all_parameters,
        assumed=lambda pooled, padding: padding == OWN_LAYOUT,
    ),
    Empirical(
        id="003-38",
        topic="images",
        where="2.3",
        says="The nets differ in their pools alone, so that the difference in accuracy comes from there.",
        precise=(
            "If there is a difference. A stride skips three of four positions before it multiplies, a pool after it, "
            "so that the pooled net's convolutions also do more work."
        ),
        way="other data",
        reason=OTHER_DATA,
        command=COMMAND,
        kept="pooling-question",
        rule=rulings.nets_differ,
    ),
    Claim(
        id="003-39a",
        topic="images",
        where="2.3",
        says="Pools by maxima make a net more robust against small changes of an image.",
        verdict="holds",
        precise=(
            "More than strides do, where noise moves by a pixel; means change still less, and no way to shrink an "
            "image leaves it the same. By two pixels the small image moves by one, in every way."
        ),
        judge=changes_less,
        stated=lambda one, other: one == "maxima",
        rival=lambda one, other: one != "maxima",
    ),
    Empirical(
        id="003-39b",
        topic="images",
        where="2.3",
        says="Pools by maxima can help against overfitting.",
        way="other data",
        reason=OTHER_DATA,
        command=EXPERIMENTS["pooling-gap"].command,
        kept="pooling-gap",
        rule=rulings.pools_overfit_less,
    ),
)
