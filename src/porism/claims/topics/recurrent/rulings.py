"""What kept runs of language models say of statements on training them."""

from collections.abc import Callable

from porism.claims.claim import Ruling
from porism.claims.kept.result import KeptResult
from porism.claims.kept.rulings import (
    both,
    chance_of_rank,
    is_about,
    larger,
    makes_little_difference,
    rank_correlation,
    shown,
    spread,
    too_few_seeds,
)
from porism.runs.statistics import interval
from porism.tasks.language.published import (
    PUBLISHED,
    PUBLISHED_ELSEWHERE,
    PUBLISHED_EPOCHS,
    PUBLISHED_SECONDS_RATIO,
    TABLE_RUNS,
)

TEST = "test.perplexity"
WIDE, WIDEST = ({"embedding_dim": D, "hidden_size": H} for D, H in ((256, 512), (2048, 4096)))
EXTREME = 1
"""A window of this many steps is an extreme one."""


def perplexity_about(number: float) -> Callable[[KeptResult], Ruling]:
    """Whether the mean test perplexity of widths 256 and 512 is within a tenth of a number."""

    def rule(result: KeptResult) -> Ruling:
        if missing := too_few_seeds(result, WIDE):
            return Ruling(None, missing)
        values = result.number(WIDE, TEST)
        return Ruling(
            is_about(values, number), f"test perplexity {shown(interval(values))}, about {number:g} is stated"
        )

    return rule


def widest_is_better_and_slower(result: KeptResult) -> Ruling:
    """Whether the widest net is at about its published perplexity, and takes more than ten times as long an epoch."""
    if missing := too_few_seeds(result, WIDE, WIDEST):
        return Ruling(None, missing)
    number, values = PUBLISHED_ELSEWHERE["widest"], result.number(WIDEST, TEST)
    reached = Ruling(is_about(values, number), f"test perplexity {shown(interval(values))}, {number:g} is stated")
    if any("epoch_seconds" not in run.numbers for run in result.runs):
        return both(reached, Ruling(None, "how long an epoch takes was not measured: several runs shared a device"))
    seconds = [result.number(widths, "epoch_seconds") for widths in (WIDE, WIDEST)]
    times = interval([slow / fast for fast, slow in zip(*seconds, strict=True)])
    stated = PUBLISHED_SECONDS_RATIO
    longer = True if times.low > stated else False if times.high < stated else None
    return both(reached, Ruling(longer, f"{shown(times)} times as long an epoch"))


def steps_make_little_difference(result: KeptResult) -> Ruling:
    """Over windows that are not extreme."""
    settings = [{"seq_len": steps} for steps in result.values("seq_len") if steps != EXTREME]
    if missing := too_few_seeds(result, *settings):
        return Ruling(None, missing)
    return makes_little_difference({"windows of 3 to 100 steps": spread(result, settings, TEST)})


def rate_and_batch_make_little_difference(result: KeptResult) -> Ruling:
    """For each net, over rates at each batch, and over batches at each rate: the greatest of the spreads."""
    rates, batches = result.values("learning_rate"), result.values("batch_size")
    spreads = {}
    for recipe in result.values("recipe"):
        over_rates = [
            [{"recipe": recipe, "learning_rate": rate, "batch_size": batch} for rate in rates] for batch in batches
        ]
        over_batches = [list(settings) for settings in zip(*over_rates, strict=True)]
        if missing := too_few_seeds(result, *(setting for some in over_rates for setting in some)):
            return Ruling(None, missing)
        for name, groups in (("learning rate", over_rates), ("batch", over_batches)):
            found = [spread(result, settings, TEST) for settings in groups]
            spreads[f"{recipe}, {name}"] = max(found, key=lambda one: one[0])
    return makes_little_difference(spreads)


def order_of_the_table(result: KeptResult) -> Ruling:
    """Whether settings come out in the published order, on every split: rows are what is drawn here, and not seeds."""
    names = [name for name in TABLE_RUNS if result.chosen({"recipe": name})]
    if len(names) < len(TABLE_RUNS):
        return Ruling(None, f"{len(names)} of {len(TABLE_RUNS)} rows")
    seen, p_values = [], []
    for split in ("train", "valid", "test"):
        kept = [interval(result.number({"recipe": name}, f"{split}.perplexity")).mean for name in names]
        published = [PUBLISHED[name][split]["perplexity"] for name in names]
        p_values.append(chance_of_rank(published, kept))
        seen.append(f"{rank_correlation(published, kept):.2f} on {split}")
    return Ruling(
        max(p_values) < 0.01, f"rank correlation of {len(names)} rows with the published ones: {', '.join(seen)}"
    )


def fewer_epochs_with_larger_rate(result: KeptResult) -> Ruling:
    """Whether rows that differ in the rate alone are done in fewer epochs with the larger one."""
    pairs = (("table-02", "table-07"), ("table-10", "table-09"))
    found = [
        larger(result, {"recipe": small}, {"recipe": large}, "epochs", f"epochs of {small} less those of {large}")
        for small, large in pairs
    ]
    seen = ", ".join(
        f"{large} {shown(interval(result.number({'recipe': large}, 'epochs')))} epochs against "
        f"{shown(interval(result.number({'recipe': small}, 'epochs')))}"
        for small, large in pairs
    )
    ruling = both(*found)
    return Ruling(ruling.answer, f"{seen}; {ruling.evidence}")


def epochs_as_published(*names: str) -> Callable[[KeptResult], Ruling]:
    """Whether the published epochs of some rows lie within the intervals of ours."""

    def rule(result: KeptResult) -> Ruling:
        answers, seen = [], []
        for name in names:
            found = interval(result.number({"recipe": name}, "epochs"))
            answers.append(found.low <= PUBLISHED_EPOCHS[name] <= found.high)
            seen.append(f"{name} {shown(found)} epochs, {PUBLISHED_EPOCHS[name]} published")
        missing = too_few_seeds(result, *({"recipe": name} for name in names))
        return Ruling(None if missing else all(answers), "; ".join([*seen, *([missing] if missing else [])]))

    return rule
