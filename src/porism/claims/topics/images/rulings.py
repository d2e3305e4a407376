"""What kept runs of image nets say: on any images, since those of the source are not at hand."""

from collections.abc import Callable
from statistics import fmean

from porism.claims.checks.compare import ABOUT
from porism.claims.claim import Ruling
from porism.claims.kept.result import KeptResult, Setting
from porism.claims.kept.rulings import Settings, differences, is_about, larger, paired, shown, too_few_seeds
from porism.runs.statistics import SIGNIFICANCE, holm, interval, t_test
from porism.tasks.images.recipes import PUBLISHED, PUBLISHED_LEARNING_RATE

VALID_BITS, TEST_BITS = "valid.bits_per_dimension", "test.bits_per_dimension"
VALID, TEST, TRAIN, LOSS = "valid.accuracy", "test.accuracy", "train.accuracy", "train.cross_entropy"


def best_rate(recipe: str) -> Callable[[KeptResult], Ruling]:
    """Whether the published rate beats every other one on valid, seed by seed."""

    def rule(result: KeptResult) -> Ruling:
        rates = result.values("learning_rate")
        if PUBLISHED_LEARNING_RATE not in rates or len(rates) < 2:
            return Ruling(None, f"rates {rates}, without {PUBLISHED_LEARNING_RATE} or others beside it")
        ours: Settings = {"recipe": recipe, "learning_rate": PUBLISHED_LEARNING_RATE}
        others = [rate for rate in rates if rate != PUBLISHED_LEARNING_RATE]
        settings: list[Settings] = [{"recipe": recipe, "learning_rate": rate} for rate in others]
        if missing := too_few_seeds(result, ours, *settings):
            return Ruling(None, missing)
        found = {rate: paired(result, ours, other, VALID) for rate, other in zip(others, settings, strict=True)}
        means = {rate: fmean(result.number({"recipe": recipe, "learning_rate": rate}, VALID)) for rate in rates}
        seen = ", ".join(f"{rate}: {mean:.4f}" for rate, mean in means.items())
        seen += "; more than " + ", ".join(f"{rate} by {shown(one)}" for rate, one in found.items())
        if any(one.excludes_zero and one.mean < 0 for one in found.values()):
            return Ruling(False, f"accuracy on valid by rate, {seen}")
        best = all(one.excludes_zero and one.mean > 0 for one in found.values())
        return Ruling(True if best else None, f"accuracy on valid by rate, {seen}")

    return rule


def reaches_published(recipe: str) -> Callable[[KeptResult], Ruling]:
    """Whether the published accuracy of a net is within a tenth of the mean over seeds, on the source's own images."""

    def rule(result: KeptResult) -> Ruling:
        if missing := too_few_seeds(result, {"recipe": recipe}):
            return Ruling(None, missing)
        number, values = PUBLISHED[recipe]["test"]["accuracy"], result.number({"recipe": recipe}, TEST)
        return Ruling(is_about(values, number), f"test accuracy {shown(interval(values))}, {number} published")

    return rule


def tuned(result: KeptResult, recipe: str, number: str = VALID, lower_is_better: bool = False) -> Settings:
    """A net at the rate that suits it best on valid, by the mean over seeds."""

    def mean(rate: Setting) -> float:
        return fmean(result.number({"recipe": recipe, "learning_rate": rate}, number))

    best = min if lower_is_better else max
    return {"recipe": recipe, "learning_rate": best(result.values("learning_rate"), key=mean)}


def strides_are_worse(result: KeptResult) -> Ruling:
    """Whether the pooled net is better on test than the strided one, each at its best rate, seed by seed."""
    return larger(
        result, tuned(result, "pooled"), tuned(result, "strided"), TEST, "accuracy with pools less that with strides"
    )


def nets_differ(result: KeptResult) -> Ruling:
    """Whether there is a difference at all. The nets differ in how they make images smaller, and in nothing else."""
    ruling = strides_are_worse(result)
    return Ruling(None if ruling.answer is None else True, ruling.evidence)


def pools_overfit_less(result: KeptResult) -> Ruling:
    """Whether the pooled net's accuracy falls less from train to test than the strided one's, seed by seed.

    It does not where the difference is less than a tenth of what the strided net loses, whatever its sign.
    """
    nets: dict[str, Settings] = {name: {"recipe": name} for name in ("pooled", "strided")}
    if missing := too_few_seeds(result, *nets.values()):
        return Ruling(None, missing)
    gaps = {
        name: {run.seed: run.numbers[TRAIN] - run.numbers[TEST] for run in result.chosen(settings)}
        for name, settings in nets.items()
    }
    seeds = sorted(gaps["pooled"].keys() & gaps["strided"].keys(), key=str)
    found = interval([gaps["strided"][seed] - gaps["pooled"][seed] for seed in seeds])
    means = {name: fmean(gap.values()) for name, gap in gaps.items()}
    little = ABOUT * means["strided"]
    answer = found.mean > 0 if found.excludes_zero else False if -little < found.low and found.high < little else None
    seen = ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
    return Ruling(answer, f"accuracy on train less that on test: {seen}; {shown(found)} between them")


def grid_learns_less(result: KeptResult) -> Ruling:
    """Whether the net on a grid fits its training data less than convolutions of the same parameters and epochs do.

    By the loss that is trained: accuracies come to their end.
    """
    first, second = {"recipe": "grid-4"}, {"recipe": "convolution-equal"}
    what = "cross-entropy on train of scans over the grid less that of convolutions"
    ruling = larger(result, first, second, LOSS, what)
    if not result.data:
        short = "the embedded digits are a grid of 4 x 4 patches only, which is soon unrolled"
        return Ruling(None, f"{ruling.evidence}; {short}")
    return ruling


def grid_completes_better(result: KeptResult) -> Ruling:
    """Whether scans over the grid need fewer bits for a pixel of test than every other net, seed by seed.

    Each at its best rate on valid. That some other net is better is corrected for their number.
    """
    recipes = [str(recipe) for recipe in result.values("recipe")]
    nets = {recipe: tuned(result, recipe, VALID_BITS, lower_is_better=True) for recipe in recipes}
    if "complete" not in nets or len(nets) < 2:
        return Ruling(None, f"nets {', '.join(nets)}: without scans over the grid or others beside them")
    if missing := too_few_seeds(result, *nets.values()):
        return Ruling(None, missing)
    others = [recipe for recipe in recipes if recipe != "complete"]
    more = [differences(result, nets[recipe], nets["complete"], TEST_BITS) for recipe in others]
    found = [interval(values) for values in more]
    chances = holm([chance if (chance := t_test(values)) is not None else 1.0 for values in more])
    rates = ", ".join(str(rate) for rate in result.values("learning_rate"))
    seen = ", ".join(
        f"{recipe} {fmean(result.number(settings, TEST_BITS)):.4f} at rate {settings['learning_rate']}"
        for recipe, settings in nets.items()
    )
    seen += f" (of {rates}); more than complete " + ", ".join(
        f"{name} by {shown(one)}" for name, one in zip(others, found, strict=True)
    )
    if any(one.mean < 0 and chance < SIGNIFICANCE for one, chance in zip(found, chances, strict=True)):
        return Ruling(False, f"bits per dimension of test, {seen}")
    best = all(one.mean > 0 and one.excludes_zero for one in found)
    return Ruling(True if best else None, f"bits per dimension of test, {seen}")
