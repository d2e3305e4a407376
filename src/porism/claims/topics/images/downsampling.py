"""Two nets that make images smaller, one by pools and one by strides: the task's own, for four classes."""

import math
from collections.abc import Callable
from itertools import pairwise, takewhile
from statistics import NormalDist

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from porism.claims.checks.compare import compared, counted_equal
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.tasks.images.data.image_set import Shape
from porism.tasks.images.data.public import PUBLIC
from porism.tasks.images.model.downsampling import CHANNELS, WIDTHS, Downsampling
from porism.tasks.images.recipes import PUBLISHED

CLASSES = 4
SIZES = (28, 8, 63)
"""Rows and columns of images."""
COMMAND = "porism compare images pooling-question --data octmnist --set test_subset=as-train"
NEEDS = f"octmnist.npz, from {PUBLIC['octmnist'].files['all'].url}, or: porism data fetch octmnist"

OfNet = Callable[[bool, int], int]
"""Of the pooled net (True) or the strided one, on images of so many rows and columns."""


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


def parameters(form: OfNet) -> Finding:
    """form(pooled, size) against the numbers in the net's parameters, at 28 x 28."""
    return counted_equal((name, numbers_in(net(pooled, 28)), form(pooled, 28)) for name, pooled in _NETS)


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


def convolutions(form: OfNet) -> Finding:
    """form(pooled, size) against the multiplications in the net's convolutions, for one image."""

    def counted(pooled: bool, size: int) -> int:
        before_flattening = takewhile(lambda layer: not isinstance(layer, nn.Flatten), net(pooled, size))
        with FlopCounterMode(display=False) as counter:
            nn.Sequential(*before_flattening)(torch.zeros(1, 1, size, size, device=NOWHERE))
        return int(counter.get_total_flops() // 2)

    return counted_equal(
        (f"{name}, {size} x {size}", counted(pooled, size), form(pooled, size))
        for size in SIZES
        for name, pooled in _NETS
    )


SHRINK: dict[str, Callable[[Tensor], Tensor]] = {
    "maxima": lambda image: functional.max_pool2d(image, 2),
    "means": lambda image: functional.avg_pool2d(image, 2),
    "every second pixel": lambda image: image[..., ::2, ::2],
}


def change_by_shift(form: Callable[[str, int], float]) -> Finding:
    """form(way to shrink, pixels) against how far the shrunk image changes when noise moves by so many pixels.

    Changes are in units of the shrunk image's deviation. What moved by whole pixels of the small image is moved back.
    """
    noise = torch.rand(1, 1, 600, 600, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def measured(shrink: Callable[[Tensor], Tensor], pixels: int) -> float:
        before, after = shrink(noise), shrink(noise.roll(pixels, -1)).roll(-(pixels // 2), -1)
        return float((after - before).square().mean().sqrt() / before.std())

    return compared(
        (
            (f"{way}, moved by {pixels}", measured(shrink, pixels), form(way, pixels))
            for way, shrink in SHRINK.items()
            for pixels in (1, 2)
        ),
        # 90,000 small pixels tell a deviation to about 0.3 %.
        tolerance=0.01,
    )


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
    return Finding(z, NormalDist().inv_cdf(0.975), evidence)


_NETS = (("pooled", True), ("strided", False))
_IMAGES, _POOLED, _STRIDED = smallest_test_set()


def _all_parameters(left: int) -> int:
    """Of the net whose convolutions leave so many rows and columns."""
    first, second = CHANNELS
    widths = [second * left**2, *WIDTHS, CLASSES]
    linear = sum((before + 1) * width for before, width in pairwise(widths))
    return (9 + 1) * first + (9 * first + 1) * second + linear


def _left(stride: int, size: int) -> int:
    """Rows after both convolutions of this stride, the second of which takes two away before it strides."""
    behind_first = math.ceil(size / stride)
    return math.ceil((behind_first - 2) / stride)


def _saved(stride: int, size: int) -> int:
    return CHANNELS[1] * WIDTHS[0] * (_left(stride, size) ** 2 - _left(2, size) ** 2)


def _products(stride: int, size: int) -> int:
    """Multiplications of two convolutions whose outputs, before any pool, stride so far."""
    half = math.ceil(size / 2)
    rows = (size, half - 2) if stride == 1 else (half, _left(2, size))
    return 9 * (CHANNELS[0] * rows[0] ** 2 + CHANNELS[0] * CHANNELS[1] * rows[1] ** 2)


# Of uniform noise: two windows share two of four pixels, so that maxima correlate by 3/8 and means by 1/2.
_CHANGES = {"maxima": math.sqrt(2 * (1 - 3 / 8)), "means": 1.0, "every second pixel": math.sqrt(2)}


CLAIMS: tuple[Statement, ...] = (
    Empirical(
        id="002-20",
        topic="images",
        where="2.1",
        says="With pools a learning rate of 0.01 does best.",
        command=COMMAND,
        needs=NEEDS,
    ),
    Empirical(
        id="002-21",
        topic="images",
        where="2.2",
        says="Without pools 0.01 does best too.",
        command=COMMAND,
        needs=NEEDS,
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
    ),
    Empirical(
        id="003-35",
        topic="images",
        where="2.1",
        says="A learning rate of 0.01 does best, with an accuracy of 0.8280 on test data.",
        command=COMMAND,
        needs=NEEDS,
    ),
    Empirical(
        id="003-36",
        topic="images",
        where="2.2",
        says="Without pools the net does slightly worse, with 0.8147.",
        precise=(
            f"Both accuracies fit a test set of {_IMAGES} images, the smallest that they fit: {_POOLED} and {_STRIDED} "
            "right. A difference of so few images is within chance; a paired test over several seeds decides."
        ),
        command=COMMAND,
        needs=NEEDS,
        known=difference_of_accuracies,
    ),
    Claim(
        id="003-37",
        topic="images",
        where="2.3",
        says="Both nets have 224,892 parameters.",
        verdict="holds",
        precise=(
            f"Of the nets with 3 x 3 convolutions to {CHANNELS[0]} and {CHANNELS[1]} channels, the first one padded, "
            f"and linear layers to {WIDTHS[0]}, {WIDTHS[1]} and {CLASSES} numbers."
        ),
        judge=parameters,
        stated=lambda pooled, size: 224_892,
        rival=lambda pooled, size: _all_parameters(_left(2 if pooled else 1, size)),
    ),
    Claim(
        id="003-38",
        topic="images",
        where="2.3",
        says="The nets differ in their pools alone, so that the difference in accuracy comes from there.",
        verdict="imprecise",
        precise=(
            "A stride skips three of four positions before it multiplies, a pool after it: the pooled net's "
            "convolutions do four times the work at 28 x 28. Nor is the difference established, see 003-36."
        ),
        judge=convolutions,
        stated=lambda pooled, size: _products(2, size),
        corrected=lambda pooled, size: _products(1 if pooled else 2, size),
    ),
    Claim(
        id="003-39",
        topic="images",
        where="2.3",
        says="Maxima stay the same where an image changes a little, which makes a net robust.",
        verdict="imprecise",
        precise=(
            "An image that moves by two pixels moves the small image by one, in every way to shrink it. One that moves "
            "by a single pixel changes all of them; noise changes maxima less than a stride, and means least. Whether "
            "pools overfit less is for training to tell."
        ),
        judge=change_by_shift,
        stated=lambda way, pixels: 0.0 if way == "maxima" or pixels == 2 else _CHANGES[way],
        corrected=lambda way, pixels: 0.0 if pixels == 2 else _CHANGES[way],
    ),
)
