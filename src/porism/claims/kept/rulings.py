"""What numbers of several seeds say: intervals, ranks, and what is too little to decide."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import torch

from porism.claims.checks.compare import ABOUT
from porism.claims.claim import Ruling
from porism.claims.kept.result import KeptResult, Setting
from porism.runs.statistics import Interval, interval

SEEDS = 5
"""Fewer decide nothing."""

Settings = Mapping[str, Setting]


def too_few_seeds(result: KeptResult, *settings: Settings) -> str:
    """What is missing, where some of these settings have too few seeds; empty where they have enough."""
    fewest = min(len(result.chosen(setting)) for setting in settings)
    return "" if fewest >= SEEDS else f"{fewest} seed{'' if fewest == 1 else 's'}, where {SEEDS} are needed"


def differences(result: KeptResult, first: Settings, second: Settings, number: str) -> list[float]:
    """first - second, a value for every seed that both have."""
    runs = {run.seed: run.numbers[number] for run in result.chosen(first)}
    others = {run.seed: run.numbers[number] for run in result.chosen(second)}
    return [runs[seed] - others[seed] for seed in sorted(runs.keys() & others.keys(), key=str)]


def paired(result: KeptResult, first: Settings, second: Settings, number: str) -> Interval:
    """The mean of first - second over the seeds that both have, and its interval."""
    return interval(differences(result, first, second, number))


def shown(found: Interval) -> str:
    """Two figures of the margin, and as many decimals of the mean; more where only these show on which side of 0 it is.

    >>> shown(Interval(0.82, 0.0248)), shown(Interval(134.96, 0.25)), shown(Interval(7.0, 0.0))
    ('0.820 +- 0.025', '134.96 +- 0.25', '7 +- 0')
    >>> shown(Interval(-0.01144, 0.01100)), shown(Interval(-0.01144, 0.01160))
    ('-0.0114 +- 0.0110', '-0.011 +- 0.012')
    """
    if not found.margin:
        return f"{found.mean:.3g}" + ("" if found.margin is None else " +- 0")
    decimals = max(0, 1 - math.floor(math.log10(float(f"{found.margin:.1e}"))))
    while found.excludes_zero and abs(round(found.mean, decimals)) <= round(found.margin, decimals) and decimals < 15:
        decimals += 1
    return f"{found.mean:.{decimals}f} +- {found.margin:.{decimals}f}"


def is_about(values: Sequence[float], number: float) -> bool | None:
    """Whether a mean over seeds is within a tenth of a number; None where its interval reaches over that."""
    found = interval(values)
    low, high = number * (1 - ABOUT), number * (1 + ABOUT)
    if low <= found.low and found.high <= high:
        return True
    return False if found.high < low or found.low > high else None


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's, ties at their mean rank.

    >>> rank_correlation([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.5
    """
    ranks = [_ranks(values) for values in (first, second)]
    means = [fmean(rank) for rank in ranks]
    covariance = fmean((a - means[0]) * (b - means[1]) for a, b in zip(*ranks, strict=True))
    deviations = [
        math.sqrt(fmean((rank - mean) ** 2 for rank in some)) for some, mean in zip(ranks, means, strict=True)
    ]
    return round(covariance / (deviations[0] * deviations[1]), 12) if min(deviations) else 0.0


def chance_of_rank(first: Sequence[float], second: Sequence[float], draws: int = 2000) -> float:
    """How often a correlation at least this high comes from an order by chance."""
    found, draw = rank_correlation(first, second), torch.Generator().manual_seed(1)
    orders = (torch.randperm(len(second), generator=draw).tolist() for _ in range(draws))
    higher = sum(rank_correlation(first, [second[place] for place in order]) >= found for order in orders)
    return (higher + 1) / (draws + 1)


def spread(result: KeptResult, settings: Sequence[Settings], number: str) -> tuple[float, float, float]:
    """How many times as large the greatest mean is as the least: at least, as found, and at most, by the intervals."""
    found = [interval(result.number(setting, number)) for setting in settings]
    least, most = min(found, key=lambda one: one.mean), max(found, key=lambda one: one.mean)
    return max(1.0, most.low / least.high), most.mean / least.mean, most.high / max(least.low, 1e-300)


def makes_little_difference(spreads: Mapping[str, tuple[float, float, float]]) -> Ruling:
    """Whether no spread is more than a tenth."""
    seen = ", ".join(f"{name}: {middle:.2f} times" for name, (_, middle, _) in spreads.items())
    if any(low > 1 + ABOUT for low, _, _ in spreads.values()):
        return Ruling(False, f"greatest over least mean test perplexity, {seen}")
    within = all(high <= 1 + ABOUT for _, _, high in spreads.values())
    return Ruling(True if within else None, f"greatest over least mean test perplexity, {seen}")


def larger(result: KeptResult, first: Settings, second: Settings, number: str, what: str) -> Ruling:
    """Whether a number is larger with the first settings than with the second, seed by seed."""
    if missing := too_few_seeds(result, first, second):
        return Ruling(None, missing)
    found = paired(result, first, second, number)
    answer = found.mean > 0 if found.excludes_zero else None
    return Ruling(answer, f"{what}: {shown(found)} over {len(result.chosen(first))} seeds")


def both(*rulings: Ruling) -> Ruling:
    """True where all are, False where one is."""
    answers = [ruling.answer for ruling in rulings]
    answer = False if False in answers else None if None in answers else True
    return Ruling(answer, "; ".join(dict.fromkeys(ruling.evidence for ruling in rulings)))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
