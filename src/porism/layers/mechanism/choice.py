"""Which way to attend is the cheapest, and why."""

from dataclasses import dataclass

from porism.layers.mechanism.question import Question
from porism.layers.mechanism.ways import WAYS, candidates

DENSE = 1.05
"""How many times as fast a way has to be that holds all weights: what it holds, others may need."""


@dataclass(frozen=True)
class Choice:
    """A way to attend, and what it and the others were expected to take.

    >>> print(choose(q, k, v, pattern=Pattern("sliding", window=64)))
    window: 3.1 ms predicted against 41 ms for softmax with a dense mask (T=4,096, W=64; cpu, calibrated 2026-11-15)

    `seconds` is empty where nothing could be measured. Then FLOPs have decided.
    """

    name: str
    asked: Question
    flops: dict[str, float]
    seconds: dict[str, float]
    calibrated: str = ""
    """The day of the latest measurement that was used, and whether it can be trusted."""

    def __str__(self) -> str:
        asked = self.asked
        sizes = [f"T={asked.T:,}"] + ([f"S={asked.S:,}"] if asked.S != asked.T else [])
        sizes += [f"W={window:,}" for window in (asked.pattern.window, asked.window) if window is not None]
        where = f"{', '.join(sizes)}; {asked.device}"
        if len(self.flops) == 1:
            return f"{self.name}: the only way to this answer ({where})"
        state = f"calibrated {self.calibrated}" if self.seconds else "not calibrated"
        ours, *others = sorted(
            (self.seconds or self.flops).items(), key=lambda found: (found[0] != self.name, found[1])
        )
        rest = " and ".join(f"{self._amount(amount)} for {self._words(name)}" for name, amount in others)
        verb = "predicted " if self.seconds else ""
        return f"{self._words(ours[0])}: {self._amount(ours[1])} {verb}against {rest} ({where}, {state})"

    def _words(self, name: str) -> str:
        return WAYS[name].kind(self.asked)

    def _amount(self, amount: float) -> str:
        from porism.costing.predicting.time import readable

        return readable(amount) if self.seconds else f"{amount / 1e9:.3g} GFLOP"


def decide(asked: Question, mechanism: str = "auto") -> Choice:
    """The cheapest of the candidates; by FLOPs where one of them could not be measured."""
    # Formulas bring sympy with them, which a layer that is only called has no use for.
    from porism.layers.mechanism.calibration import rates
    from porism.layers.mechanism.work import work

    ways = candidates(asked, mechanism)
    amounts = {way.name: work(way.name, asked) for way in ways}
    flops = {name: some["flops"] for name, some in amounts.items()}
    found = {way.name: rates(way, asked) for way in ways} if len(ways) > 1 else {}
    known = {name: some for name, some in found.items() if some is not None}
    if len(known) < len(ways):
        # What moving all weights takes, FLOPs do not tell.
        lean = [way.name for way in ways if not way.is_dense]
        return Choice(min(lean, key=flops.__getitem__), asked, flops, {})
    seconds = {name: some.seconds(amounts[name], asked.backward) for name, some in known.items()}
    chosen = min(seconds, key=lambda name: seconds[name] * (DENSE if WAYS[name].is_dense else 1))
    calm = all(some.is_calm for some in known.values())
    calibrated = max(some.date for some in known.values()) + ("" if calm else " while other work disturbed it")
    return Choice(chosen, asked, flops, seconds, calibrated)


def measure(asked: Question, mechanism: str = "auto") -> None:
    """Measures the candidates again."""
    from porism.layers.mechanism.calibration import rates

    for way in candidates(asked, mechanism):
        rates(way, asked, refresh=True)
